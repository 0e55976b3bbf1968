"""An agent as a process of its own on the bus: commands, heartbeat, progress, lock, control. Needs no database."""
