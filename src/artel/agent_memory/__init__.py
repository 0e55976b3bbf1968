"""What agents remember: rows and the rules about them, and the index that follows the rows."""
