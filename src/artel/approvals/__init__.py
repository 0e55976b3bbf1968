"""What the user is asked before something is done, and what they said."""
