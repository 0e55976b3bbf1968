"""Alerts: what monitoring should see of a project, from when it began to when it was over."""
