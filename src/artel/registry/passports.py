"""Reading passports and heartbeats, which come from outside: bounded, and with names that queues can have."""

import re
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from artel.contract.http import bounded_json
from artel.contract.node_messages import Heartbeat
from artel.contract.passport import Passport, Status
from artel.errors import ArtelError, Kind
from artel.text import is_storable

MAX_PASSPORT_CHARACTERS = 200_000
MAX_STATUS_CHARACTERS = 50_000
MAX_TEXT_CHARACTERS = 1_000
MAX_DEPTH = 40
RESERVED = frozenset({"all", "any", "registry"})

T = TypeVar("T", bound=BaseModel)
Json = dict[str, JsonValue]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
_PASSPORT = TypeAdapter[Json](Annotated[Json, bounded_json(MAX_PASSPORT_CHARACTERS, MAX_DEPTH), Field(max_length=64)])
_STATUS = TypeAdapter[Json](Annotated[Json, bounded_json(MAX_STATUS_CHARACTERS, MAX_DEPTH), Field(max_length=64)])


class InvalidPassport(ArtelError, kind=Kind.INVALID, code="invalid_passport"):
    """A node sent a passport or a heartbeat that can't be used; the message names the field."""


def read_passport(value: object) -> Passport:
    """Return the passport in a message, or raise InvalidPassport."""
    try:
        passport = Passport.model_validate(_PASSPORT.validate_python(value))
    except ValidationError as invalid:
        raise InvalidPassport(f"The passport is not valid: {_first(invalid, 'passport')}.") from invalid
    name, node_type = passport.metadata.name, passport.metadata.node_type
    for field, word in (("name", name), ("nodeType", node_type)):
        if not _NAME.fullmatch(word) or word in RESERVED:
            raise InvalidPassport(
                f"The passport is not valid: metadata.{field}: {word!r} can't be part of a routing key; use letters, "
                f"digits, - and _, and none of {', '.join(sorted(RESERVED))}."
            )
    return passport


def read_heartbeat(value: object) -> tuple[Heartbeat, Status, Passport | None]:
    """Return a heartbeat with its status, and with the passport if it carries one; or raise InvalidPassport."""
    heartbeat = read_report(Heartbeat, value)
    try:
        status = Status.model_validate(_STATUS.validate_python(heartbeat.status))
    except ValidationError as invalid:
        raise InvalidPassport(f"The heartbeat is not valid: {_first(invalid, 'heartbeat')}.") from invalid
    if not _NAME.fullmatch(heartbeat.name):
        raise InvalidPassport("The heartbeat is not valid: name has characters that it can't have.")
    passport = None if heartbeat.passport is None else read_passport(heartbeat.passport)
    if passport is not None and (passport.metadata.name, passport.metadata.uid) != (heartbeat.name, heartbeat.uid):
        raise InvalidPassport("The heartbeat is not valid: its passport is of another node.")
    return heartbeat, status, passport


def read_report(model: type[T], value: object) -> T:
    """Return a report of a node, whose texts are short and can be stored, or raise InvalidPassport."""
    try:
        report = model.model_validate(value)
    except ValidationError as invalid:
        raise InvalidPassport(f"The report is not valid: {_first(invalid, 'report')}.") from invalid
    for name, text in report:
        if isinstance(text, str) and not (len(text) <= MAX_TEXT_CHARACTERS and is_storable(text)):
            raise InvalidPassport(f"The report is not valid: {name} is too long, or can't be stored.")
    return report


def _first(invalid: ValidationError, root: str) -> str:
    error: Any = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(str(step)[:100] for step in error['loc']) or root}: {error['msg']}"
