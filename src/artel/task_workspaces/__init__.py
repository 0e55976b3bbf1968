"""Task workspaces: folders on the server that an agent and its descendants share."""
