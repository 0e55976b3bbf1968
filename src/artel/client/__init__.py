"""The HTTP client on the user's machine; it imports nothing of the server."""
