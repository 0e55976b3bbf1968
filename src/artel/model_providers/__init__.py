"""Providers of models and settings that administrators change while the server runs."""
