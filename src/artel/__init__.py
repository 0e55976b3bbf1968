"""Artel: a team of AI agents for every project, on your own server."""

__version__ = "0.1.0"
