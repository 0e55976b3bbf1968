"""Files in a folder, at paths that somebody else chose: the only code that opens such a path."""
