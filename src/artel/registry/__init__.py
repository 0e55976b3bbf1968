"""The nodes that a server knows: passports, leases and states, and the choice of a node for a task."""
