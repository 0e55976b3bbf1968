"""Task workspaces: the scratch folders on the server that families of agents share."""
