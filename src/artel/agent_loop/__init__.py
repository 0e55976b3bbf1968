"""How an agent thinks: what it is told, and what it does with the answer."""
