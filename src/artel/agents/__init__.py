"""Agents of a project: rows, rules, and the starter pack."""
