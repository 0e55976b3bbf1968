"""The demo brain: rules instead of a model, to try Artel offline and without a key."""
