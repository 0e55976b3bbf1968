"""Accounts, tokens, and who a request speaks for."""
