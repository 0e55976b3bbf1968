"""Registering, logging in, and finding out whom a token speaks for."""

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from artel.auth import throttle
from artel.auth.accounts import (
    Account,
    account_by_email,
    account_by_id,
    account_by_subject,
    create_account,
    create_external_account,
    has_accounts,
    normal_email,
    set_password_hash,
)
from artel.auth.passwords import Passwords, needs_rehash
from artel.auth.principal import Principal
from artel.auth.tokens import ExternalSubject, LocalSubject, Tokens
from artel.contract.http import MAX_EMAIL_CHARACTERS, MAX_PASSWORD_CHARACTERS, is_encodable
from artel.db.engine import Database
from artel.errors import CredentialsWrong, RegistrationClosed, TokenInvalid
from artel.logs import get_logger

WRONG = "The e-mail address or the password is wrong."
REGISTRATION_CLOSED = (
    "Registration is closed on this server. Its operator can make you an account with `artel users create`, "
    "or open registration with ARTEL_REGISTRATION_OPEN=true."
)

log = get_logger(__name__)


class Login:
    """The door: who comes in, and by which proof."""

    def __init__(self, database: Database, passwords: Passwords, tokens: Tokens) -> None:
        self._database = database
        self._passwords = passwords
        self._tokens = tokens

    async def register(self, email: str, password: str, address: str, *, first_only: bool) -> Account:
        """Make an account; with `first_only` raise RegistrationClosed if the server already has one."""
        counter = throttle.registrations_from(address)
        async with self._passwords.places_to_register.take():
            await self._database.read(_refuse_to_register, counter, first_only)
            password_hash = await self._passwords.hash(password)
            account = await self._database.run(_register, email, password_hash, counter, first_only)
        log.info("account_created", user_id=account.user_id, is_admin=account.is_admin)
        return account

    async def log_in(self, email: str, password: str, address: str) -> Account:
        """Answer the account if the password is right."""
        if not (_is_possible(email, MAX_EMAIL_CHARACTERS) and _is_possible(password, MAX_PASSWORD_CHARACTERS)):
            raise CredentialsWrong(WRONG)  # nobody has these: not worth the work, which grows with the length
        counters = throttle.counters_of(normal_email(email), address)
        # Held from the look at the counters to the count, so that many guesses at once don't slip by.
        async with self._passwords.places_to_log_in.take():
            account = await self._database.read(_account_to_try, email, counters)
            password_hash = account.password_hash if account else None
            matches = await self._passwords.verify(password_hash, password)
            if not matches or account is None or password_hash is None:
                await self._database.run(throttle.count, counters)
                log.info("login_failed", address=address)
                raise CredentialsWrong(WRONG)
            await self._database.run(throttle.forget_failures, counters[0])
            if needs_rehash(password_hash):
                await self._database.run(set_password_hash, account.user_id, await self._passwords.hash(password))
        return account

    async def authenticate(self, token: str) -> Principal:
        """Answer whom the token speaks for; an external subject becomes a user on first sight."""
        match await self._tokens.verify(token):
            case LocalSubject(user_id, issued_at):
                account = await self._database.read(account_by_id, user_id)
                if account and account.tokens_since and issued_at < int(account.tokens_since.timestamp()):
                    raise TokenInvalid("The password was changed since. Log in again.")
            case ExternalSubject() as subject:
                account = await self._external_account(subject)
        if account is None:
            raise TokenInvalid("The account of this token does not exist any more.")
        return account.principal

    async def _external_account(self, subject: ExternalSubject) -> Account | None:
        known, account = await self._database.read(account_by_subject, subject.issuer, subject.subject)
        if known:
            return account
        try:
            account = await self._database.run(create_external_account, subject.issuer, subject.subject, subject.email)
        except IntegrityError:  # another request of the same subject was first
            _, account = await self._database.read(account_by_subject, subject.issuer, subject.subject)
            return account
        log.info("external_account_created", user_id=account.user_id)
        return account


def _is_possible(text: str, max_characters: int) -> bool:
    return 0 < len(text) <= max_characters and "\x00" not in text and is_encodable(text)


def _refuse_to_register(connection: Connection, counter: throttle.Counter, first_only: bool) -> None:
    if first_only and has_accounts(connection):
        raise RegistrationClosed(REGISTRATION_CLOSED)
    throttle.refuse_if_paused(connection, (counter,))


def _register(
    connection: Connection, email: str, password_hash: str, counter: throttle.Counter, first_only: bool
) -> Account:
    throttle.count(connection, (counter,))
    account = create_account(connection, email, password_hash)
    # Checked again: making an account locks the installation's row, so of two at once the second one sees the first.
    if first_only and not account.is_admin:
        raise RegistrationClosed(REGISTRATION_CLOSED)
    return account


def _account_to_try(connection: Connection, email: str, counters: tuple[throttle.Counter, ...]) -> Account | None:
    throttle.refuse_if_paused(connection, counters)
    return account_by_email(connection, email)
