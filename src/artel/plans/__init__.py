"""Requests that name no agent: who does what."""
