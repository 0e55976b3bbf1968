"""Which models the operator lets agents use."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from artel.brain import prices
from artel.brain.errors import ModelNotAllowed


@dataclass(frozen=True, slots=True)
class ModelRules:
    """Globs of models. `unpriced` are those that may be used though nobody knows what they cost.

    What the operator has chosen itself (for planning, as fallback) needs no permission.
    """

    allowed: Sequence[str] = ("*",)
    unpriced: Sequence[str] = ("*",)
    chosen: Sequence[str] = ()

    def require(self, model: str) -> None:
        """Raise ModelNotAllowed unless an agent may use the model."""
        if model in self.chosen:
            return
        if not _matches(model, self.allowed):
            raise ModelNotAllowed(
                f"The model {model} is not allowed on this server. Choose one that matches: {', '.join(self.allowed)}."
            )
        if not _matches(model, self.unpriced) and not prices.is_known(model):
            raise ModelNotAllowed(
                f"Nobody knows what the model {model} costs, so that no budget would limit it. Choose a model with a "
                "known price, or ask an administrator to allow this one (setting models_unpriced)."
            )


def _matches(model: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(model, glob) for glob in globs)
