"""Conversations: rows and the rules about them."""
