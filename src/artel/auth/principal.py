"""Who a request speaks for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """The user in whose name everything of a request is done."""

    user_id: int
    is_admin: bool = False
