"""Budgets of plans, projects and users, and the usage that counts against them."""
