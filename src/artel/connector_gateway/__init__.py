"""The server's side of connectors: their connections, which project each serves, and calls to them."""
