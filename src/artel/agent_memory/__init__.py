"""Memories of agents: their rows, and keeping the vector index in sync with them."""
