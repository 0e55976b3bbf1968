"""Running turns: from a queued message to its stored answer, one agent task at a time."""
