"""What happens in the middle of registering and logging in, on SQLite and PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import argon2
import pytest

from artel.auth.accounts import account_by_email, create_account
from artel.auth.login import Login
from artel.auth.logins import Device, LoginKind, change_password, list_logins
from artel.auth.passwords import Passwords, hash_password
from artel.auth.tokens import Tokens
from artel.db import schema
from artel.db.engine import Database
from artel.errors import CredentialsWrong, RegistrationClosed

pytestmark = pytest.mark.anyio

EMAIL = "ada@example.org"
OLD, NEW = "the old password", "the new password"
DEVICE = Device(LoginKind.TOKEN, "test", "network")


class Interrupted(Passwords):
    """Lets something happen while a password is hashed."""

    def __init__(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    async def hash(self, password: str) -> str:
        await self._meanwhile()
        return await super().hash(password)


@pytest.fixture
async def database(upgraded_database: Callable[[], str]) -> AsyncIterator[Database]:
    opened = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"), connections=4)
    await asyncio.to_thread(schema.upgrade, opened.engine)
    yield opened
    await opened.close()


@pytest.mark.req("SEC-04.5")
async def test_registration_closes_for_somebody_who_is_just_registering(database: Database) -> None:
    async def another_process_registers() -> None:
        await database.run(create_account, "first@example.org", "hash")

    passwords = Interrupted(another_process_registers)
    login = Login(database, passwords, Tokens("x" * 32, 60))

    with pytest.raises(RegistrationClosed):
        await login.register(EMAIL, NEW, "127.0.0.1", DEVICE, first_only=True)

    assert await database.read(account_by_email, EMAIL) is None
    passwords.close()


@pytest.mark.req("SEC-04.6")
async def test_a_login_with_a_password_that_is_changed_meanwhile_fails_and_keeps_the_change(database: Database) -> None:
    weak = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(OLD)  # so that it is hashed anew
    account = await database.run(create_account, EMAIL, weak)
    new_hash = hash_password(NEW)
    passwords = Interrupted(lambda: database.run(change_password, EMAIL, new_hash))
    login = Login(database, passwords, Tokens("x" * 32, 60))

    with pytest.raises(CredentialsWrong):
        await login.log_in(EMAIL, OLD, "127.0.0.1", DEVICE)

    changed = await database.read(account_by_email, EMAIL)
    assert changed is not None
    assert changed.password_hash == new_hash
    assert await database.read(list_logins, account.user_id, 10, 0) == (0, [])
    assert (await login.log_in(EMAIL, NEW, "127.0.0.1", DEVICE)).account.user_id == account.user_id
    passwords.close()
