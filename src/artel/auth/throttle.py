"""Login throttling per account and network; the counters are database rows, shared by all processes."""

import hashlib
import ipaddress
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, delete, select, update

from artel.db.dialect import insert_into
from artel.db.tables import login_attempts
from artel.errors import TooManyLogins

FORGET_AFTER = timedelta(minutes=15)
FIRST_PAUSE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Counter:
    """A failure counter: its key, the number of free failures, and the longest pause."""

    key: str
    free: int
    longest_pause: timedelta

    def pause(self, failures: int) -> timedelta:
        """Return the pause after so many failures: none at first, then exponential."""
        excess = failures - self.free
        if excess < 0:
            return timedelta()
        doubled: timedelta = FIRST_PAUSE * 2 ** min(excess, 20)
        return min(doubled, self.longest_pause)


@dataclass(frozen=True, slots=True)
class LoginCounters:
    """The counters of a login attempt."""

    account_here: Counter  # one account from one network
    account: Counter  # one account from all networks: slows down a botnet
    network: Counter  # all accounts from one network, which may be a whole office

    def of(self, *, is_known_network: bool) -> tuple[Counter, ...]:
        """Return the counters that can block an attempt; failures elsewhere do not block a known network."""
        return (self.account_here, self.network) if is_known_network else self.all

    @property
    def all(self) -> tuple[Counter, ...]:
        """All counters; a failure increments each of them."""
        return self.account_here, self.account, self.network


def counters_of(email: str, address: str) -> LoginCounters:
    """Return the counters of a login attempt."""
    network = _network_of(address)
    return LoginCounters(
        Counter(_key(_key("account", email), network), free=5, longest_pause=timedelta(minutes=1)),
        Counter(_key("account", email), free=100, longest_pause=timedelta(minutes=1)),
        Counter(_key("address", network), free=30, longest_pause=timedelta(minutes=5)),
    )


def registrations_from(address: str) -> Counter:
    """Return the counter of registrations from one network; a school fits in, a script does not."""
    return Counter(_key("registration", _network_of(address)), free=500, longest_pause=timedelta(minutes=5))


def refuse_if_paused(connection: Connection, counters: tuple[Counter, ...]) -> None:
    """Raise TooManyLogins while one of the counters is in its pause."""
    now = datetime.now(UTC)
    keys = [counter.key for counter in counters]
    rows = connection.execute(select(login_attempts.c.retry_at).where(login_attempts.c.key.in_(keys)))
    seconds = max((math.ceil((retry_at - now).total_seconds()) for (retry_at,) in rows), default=0)
    if seconds > 0:
        raise TooManyLogins(f"Too many attempts. Wait {seconds} s, then try again.", retry_after=seconds)


def count(connection: Connection, counters: tuple[Counter, ...]) -> None:
    """Increment the counters and set their pauses."""
    now = datetime.now(UTC)
    connection.execute(delete(login_attempts).where(login_attempts.c.forget_at < now))
    for counter in sorted(counters, key=lambda counter: counter.key):  # fixed lock order against deadlocks
        added = insert_into(connection, login_attempts).values(
            key=counter.key, failures=1, retry_at=now, forget_at=now + FORGET_AFTER
        )
        failures = connection.execute(
            added.on_conflict_do_update(
                index_elements=["key"], set_={"failures": login_attempts.c.failures + 1}
            ).returning(login_attempts.c.failures)
        ).scalar_one()
        connection.execute(
            update(login_attempts)
            .where(login_attempts.c.key == counter.key)
            .values(retry_at=now + counter.pause(failures), forget_at=now + FORGET_AFTER)
        )


def forget_failures(connection: Connection, counter: Counter) -> None:
    """Reset a counter after a successful login."""
    connection.execute(delete(login_attempts).where(login_attempts.c.key == counter.key))


def network_key(address: str) -> str:
    """Return the hash of the network that a login stores."""
    return _key("network", _network_of(address))


def _network_of(address: str) -> str:
    """Return the IPv4 address, or the /64 network of an IPv6 address: what one person usually controls."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def _key(kind: str, value: str) -> str:
    # Hashed, because users sometimes type their password into the name field.
    return hashlib.sha256(f"{kind}:{value}".encode()).hexdigest()
