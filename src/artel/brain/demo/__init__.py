"""The demo brain: rules instead of a model, to try Artel offline and without a key."""

from artel.brain.demo.demo_brain import DemoBrain

__all__ = ["DemoBrain"]
