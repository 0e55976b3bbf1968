"""Projects and their agents: rows and the rules about them."""
