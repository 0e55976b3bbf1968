"""Rows of workflows and their tasks, and the rules for them; who runs them is in `plans`."""
