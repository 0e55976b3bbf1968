"""Worker spaces: what runs the turns of one project, and what it needs for that."""
