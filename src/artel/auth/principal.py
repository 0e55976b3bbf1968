"""The authenticated user of a request."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """The user on whose behalf a request runs."""

    user_id: int
    is_admin: bool = False
