"""Turns: one message and everything that is done to answer it. Rows, and the rules about their states."""
