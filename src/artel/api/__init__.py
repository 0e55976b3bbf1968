"""The HTTP API: translates requests into transactions, and errors into problem documents."""
