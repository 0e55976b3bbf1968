"""The estimate of a plan or of one of its tasks, as it is stored with it."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue


class StoredEstimate(BaseModel, defer_build=True):
    """Cost in millionths of a dollar, and duration; an unknown price is None. Fields of newer servers are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: int = 1
    low_micros: int | None = None
    expected_micros: int | None = None
    high_micros: int | None = None
    seconds: float = 0.0
    # Of a plan.
    unknown_models: tuple[str, ...] = ()
    # Of a task.
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    @classmethod
    def load(cls, document: Mapping[str, Any] | None) -> "StoredEstimate | None":
        """Return the estimate of a stored document, also of one without a version, which has the same fields."""
        return cls.model_validate(document) if document else None

    def dump(self) -> dict[str, JsonValue]:
        """Return the document to store, without the fields of the other kind."""
        return {"version": self.version, **self.model_dump(mode="json", exclude_unset=True)}
