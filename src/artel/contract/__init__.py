"""Every model that crosses a process."""
