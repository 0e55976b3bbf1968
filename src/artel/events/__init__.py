"""Numbered events of sessions and projects: rows, live streams and hints between processes."""
