"""Worker spaces: the run-time resources of a project, and which process has them."""
