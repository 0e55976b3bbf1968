"""Calls between server processes: the answers, as they are stored for the caller."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from artel.contract.connector import DISCONNECT
from artel.errors import Kind


class StoredAnswer(BaseModel, defer_build=True):
    """An answer to a call; fields of newer servers are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    version: int = 1

    def dump(self) -> dict[str, JsonValue]:
        """Return the document to store; fields that were not set are left out, as servers of every release expect."""
        fields: dict[str, JsonValue] = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return {"version": self.version, **fields}


class SpaceDone(BaseModel, defer_build=True):
    """An operation of a worker space that returns nothing was carried out."""


class SpaceReset(BaseModel, defer_build=True):
    """A worker space was reset."""

    cancelled_turns: int


class SpaceError(BaseModel, defer_build=True):
    """Why a worker space did not carry out an operation."""

    model_config = ConfigDict(frozen=True)

    kind: Kind
    code: str
    detail: str
    retry_after: int | None = None


class SpaceAnswer(StoredAnswer):
    """The answer of the process that runs a worker space: the result of the operation, or an error."""

    result: dict[str, JsonValue] | None = None
    error: SpaceError | None = None


class RelayAnswer(StoredAnswer):
    """The answer of the process that holds a connection: the connector's result, or what became of the connection."""

    result: dict[str, JsonValue] | None = None
    lost: bool | None = None  # set if the connection was lost: whether the call had been sent
    disconnected: bool | None = Field(None, alias=DISCONNECT)
