"""Races during registration and login, on SQLite and PostgreSQL."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

import argon2
import pytest
from sqlalchemy import Connection, text

from artel.auth.accounts import (
    AccountRow,
    account_by_email,
    create_account,
    create_external_account,
    ensure_local_account,
)
from artel.auth.login import Login, SignedIn
from artel.auth.logins import (
    Device,
    LoginKind,
    Proof,
    change_password,
    list_logins,
    make_code,
    revoke_login,
    sign_in_by_code,
)
from artel.auth.passwords import Passwords, hash_password
from artel.auth.tokens import Tokens
from artel.contract.http import PageRequest
from artel.db import schema
from artel.db.engine import Database
from artel.errors import CodeExpired, CredentialsWrong, PasswordWrong, RegistrationClosed, TokenInvalid, TooManyLogins
from tests.deadlines import eventually

pytestmark = pytest.mark.anyio

EMAIL = "ada@example.org"
OLD, NEW = "the old password", "the new password"
DEVICE = Device(LoginKind.TOKEN, "test", "network")


class Interrupted(Passwords):
    """Runs a callback while a password is hashed."""

    def __init__(self, meanwhile: Callable[[], Awaitable[object]]) -> None:
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
async def test_registration_closes_for_a_concurrent_registration(database: Database) -> None:
    async def another_process_registers() -> None:
        await database.run(create_account, "first@example.org", "hash")

    passwords = Interrupted(another_process_registers)
    login = Login(database, passwords, Tokens("x" * 32, 60))

    with pytest.raises(RegistrationClosed):
        await login.register(EMAIL, NEW, "127.0.0.1", DEVICE)

    assert await database.read(account_by_email, EMAIL) is None
    passwords.close()


@pytest.mark.req("SEC-04.1")
async def test_first_password_is_chosen_once(database: Database) -> None:
    account = await database.run(create_account, EMAIL, None)
    signed_in = SignedIn(account, None, datetime.now(UTC) + timedelta(hours=1))
    plain = Passwords()
    other = Login(database, plain, Tokens("x" * 32, 60))
    passwords = Interrupted(lambda: other.change_password(signed_in, None, OLD, "127.0.0.1"))
    login = Login(database, passwords, Tokens("x" * 32, 60))

    with pytest.raises(PasswordWrong, match="set by another request"):
        await login.change_password(signed_in, None, NEW, "127.0.0.1")

    stored = await database.read(account_by_email, EMAIL)
    assert stored is not None
    assert stored.password_hash is not None
    assert await plain.verify(stored.password_hash, OLD)
    for each in (plain, passwords):
        each.close()


@pytest.mark.req("SEC-04.6")
async def test_login_fails_if_the_password_changes_during_it(database: Database) -> None:
    weak = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(
        OLD
    )  # outdated parameters, so that it is rehashed
    account = await database.run(create_account, EMAIL, weak)
    new_hash = hash_password(NEW)
    passwords = Interrupted(lambda: database.run(change_password, EMAIL, new_hash))
    login = Login(database, passwords, Tokens("x" * 32, 60))

    with pytest.raises(CredentialsWrong):
        await login.log_in(EMAIL, OLD, "127.0.0.1", DEVICE)

    changed = await database.read(account_by_email, EMAIL)
    assert changed is not None
    assert changed.password_hash == new_hash
    assert await database.read(list_logins, account.user_id, PageRequest(10)) == (0, [])
    assert (await login.log_in(EMAIL, NEW, "127.0.0.1", DEVICE)).account.user_id == account.user_id
    passwords.close()


@pytest.mark.req("SEC-04.6")
@pytest.mark.parametrize(("ending", "has_login"), [("password", True), ("password", False), ("revoked", True)])
async def test_token_revoked_after_its_check_creates_nothing(database: Database, ending: str, has_login: bool) -> None:
    passwords, tokens = Passwords(), Tokens("x" * 32, 60)
    login = Login(database, passwords, tokens)
    account = await database.run(create_account, EMAIL, "hash")
    stolen = await login.begin(account, DEVICE)
    token = login.token_of(stolen) if has_login else tokens.issue(account.user_id)
    checked = await login.authenticate(token)
    assert await login.exchange_token(token, DEVICE, None)

    async def end() -> None:
        if ending == "password":
            await database.run(change_password, EMAIL, "new hash")
        else:
            await database.of(account.principal).run(revoke_login, stolen.login_id or "")

    class EndsAfterRead(Login):
        async def authenticate(self, token: str) -> SignedIn:
            found = await super().authenticate(token)
            await end()
            return found

    with pytest.raises(TokenInvalid):
        await EndsAfterRead(database, passwords, tokens).exchange_token(token, DEVICE, None)
    with pytest.raises(TokenInvalid):
        await database.of(account.principal).run(make_code, checked.expires_at, checked.proof)

    assert await database.read(list_logins, account.user_id, PageRequest(10)) == (0, [])
    passwords.close()


@pytest.mark.req("SEC-04.6")
async def test_password_change_revokes_an_uncommitted_login_by_code(database: Database) -> None:
    account = await database.run(create_account, EMAIL, "hash")
    end = datetime.now(UTC) + timedelta(minutes=1)
    code = await database.of(account.principal).run(make_code, end, Proof())
    signed_in, commit = threading.Event(), threading.Event()

    def sign_in_slowly(connection: Connection) -> None:
        sign_in_by_code(connection, code, DEVICE, None, end)
        signed_in.set()
        assert commit.wait(60)

    def waits_for_lock() -> bool:
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        with database.engine.connect() as connection:
            return bool(connection.execute(text(waiting)).scalar_one())

    signing_in = asyncio.ensure_future(database.run(sign_in_slowly))
    assert await asyncio.to_thread(signed_in.wait, 60)
    changing = asyncio.ensure_future(database.run(change_password, EMAIL, "new hash"))
    if not database.is_sqlite:  # there, writers queue anyway
        await asyncio.to_thread(eventually, waits_for_lock)
    commit.set()
    await asyncio.gather(signing_in, changing)

    assert await database.read(list_logins, account.user_id, PageRequest(10)) == (0, [])


@pytest.mark.req("SEC-04.6")
async def test_ending_a_login_ends_logins_created_from_it(database: Database) -> None:
    passwords = Passwords()
    login = Login(database, passwords, Tokens("x" * 32, 60))
    account = await database.run(create_account, EMAIL, "hash")
    first, other = await login.begin(account, DEVICE), await login.begin(account, DEVICE)

    async def made_from(parent: SignedIn) -> SignedIn:
        return await login.exchange_token(login.token_of(parent), DEVICE, None)

    async def code_of(parent: SignedIn) -> str:
        return await database.of(account.principal).run(make_code, parent.expires_at, parent.proof)

    child = await login.exchange_code(await code_of(first), DEVICE, None)
    grandchild, others_child = await made_from(child), await made_from(other)
    code = await code_of(grandchild)

    await database.of(account.principal).run(revoke_login, first.login_id or "")

    _, live = await database.read(list_logins, account.user_id, PageRequest(10))
    assert {found.id for found in live} == {other.login_id, others_child.login_id}
    for ended in (first, child, grandchild):
        with pytest.raises(TokenInvalid):
            await login.authenticate(login.token_of(ended))
    with pytest.raises(CodeExpired):
        await login.exchange_code(code, DEVICE, None)
    assert await login.authenticate(login.token_of(other))
    passwords.close()


@pytest.mark.req("SEC-04.6")
async def test_only_keys_of_an_identity_provider_expire_with_the_login(database: Database) -> None:
    passwords = Passwords()
    login = Login(database, passwords, Tokens("x" * 32, 3600))
    command_line, soon = Device(LoginKind.CLI, "test", "network"), datetime.now(UTC) + timedelta(minutes=1)
    of_artel_up = await database.run(ensure_local_account)
    of_provider = await database.run(create_external_account, "https://id.example.org", "ada", EMAIL)

    async def key_of(account: AccountRow) -> SignedIn:
        return await login.create_key(await login.begin(account, command_line, not_after=soon), DEVICE, None)

    assert (await key_of(of_artel_up)).expires_at > soon + timedelta(minutes=30)
    assert (await key_of(of_provider)).expires_at == soon
    passwords.close()


@pytest.mark.req("SEC-04.6")
async def test_login_limit_revokes_logins_of_the_largest_group(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artel.auth.logins.MAX_LOGINS", 12)
    passwords = Passwords()
    login = Login(database, passwords, Tokens("x" * 32, 60))
    account = await database.run(create_account, EMAIL, "hash")

    async def live() -> set[str]:
        total, found = await database.read(list_logins, account.user_id, PageRequest(50))
        assert total <= 12
        return {found_login.id for found_login in found}

    async def begin(kind: LoginKind, network: str, parent: SignedIn | None = None) -> SignedIn:
        proof = parent.proof if parent else Proof()
        return await login.begin(account, Device(kind, "test", network), proof)

    def ids(signed_in: list[SignedIn]) -> set[str | None]:
        return {each.login_id for each in signed_in}

    ended = await begin(LoginKind.BROWSER, "home")
    mine = [
        await begin(LoginKind.BROWSER, "home"),
        await begin(LoginKind.CLI, "home"),
        await begin(LoginKind.CLI, "inn"),
    ]
    await database.of(account.principal).run(revoke_login, ended.login_id or "")
    script = [await begin(LoginKind.TOKEN, "home") for _ in range(9)]
    assert await live() == ids([*mine, *script])  # the ended login was deleted

    # A script that keeps logging in revokes its own oldest logins.
    script = [*script[1:], await begin(LoginKind.TOKEN, "home")]
    assert await live() == ids([*mine, *script])

    # Logins created from a stolen token revoke neither other logins nor the script's newest login.
    kinds = [*LoginKind] * 10
    stolen = [await begin(kind, f"network {number}", mine[2]) for number, kind in enumerate(kinds)]
    assert ids([*mine, script[-1], stolen[-1]]) <= await live()

    async def begin_chain(newest: SignedIn) -> None:
        for _ in range(30):
            newest = await begin(LoginKind.TOKEN, "elsewhere", newest)

    with pytest.raises(TooManyLogins, match="artel sessions revoke"):  # only ancestors of the new login are left
        await begin_chain(stolen[-1])
    assert ids([*mine, script[-1]]) <= await live()

    # The user is not locked out: they log in from a new network and end all logins created from the token.
    new = await begin(LoginKind.BROWSER, "new")
    assert ids([*mine, script[-1], new]) <= await live()
    await database.of(account.principal).run(revoke_login, mine[2].login_id or "")
    assert await live() - ids(script) == ids([*mine[:2], new])
    passwords.close()
