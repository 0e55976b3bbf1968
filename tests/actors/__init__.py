"""Actors of tests: users, pages, processes and scripted models, one module each."""
