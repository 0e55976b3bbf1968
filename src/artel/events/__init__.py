"""Events of sessions: rows, and the order that they give to everything that is written."""
