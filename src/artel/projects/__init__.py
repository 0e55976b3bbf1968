"""Projects: rows and rules."""
