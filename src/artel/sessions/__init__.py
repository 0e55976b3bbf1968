"""Sessions (conversations) and their messages: rows and rules."""
