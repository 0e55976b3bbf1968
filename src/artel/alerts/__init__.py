"""Alerts of a project for monitoring, from raised to resolved."""
