"""The server's side of connectors: who serves which project's files, their lines, and calls to them."""
