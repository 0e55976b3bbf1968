"""Rules that say which models agents may use."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from artel.brain import prices
from artel.brain.errors import ModelNotAllowed


@dataclass(frozen=True, slots=True)
class ModelRules:
    """Glob patterns of models; `unpriced` are allowed without a known price.

    Models that the operator configured (for planning, as fallback) are always allowed.
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
                f"The price of the model {model} is unknown, so no budget can limit it. Choose a model with a "
                "known price, or ask an administrator to allow this one (setting models_unpriced)."
            )


def _matches(model: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(model, glob) for glob in globs)
