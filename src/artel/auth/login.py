"""Registration, login, and authentication of tokens."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from artel.auth import accounts, logins, throttle
from artel.auth.accounts import AccountRow
from artel.auth.audit_log import Action, record
from artel.auth.logins import PASSWORD, Device, Proof
from artel.auth.passwords import Passwords, needs_rehash
from artel.auth.principal import Principal
from artel.auth.tokens import ExternalSubject, LocalSubject, Tokens
from artel.contract.accounts import BrowserSignIn
from artel.contract.http import MAX_EMAIL_CHARACTERS, MAX_PASSWORD_CHARACTERS
from artel.db.engine import Database
from artel.db.tx import Tx
from artel.errors import (
    ArtelError,
    CredentialsWrong,
    LifetimeTooLong,
    NoLogin,
    NoPassword,
    PasswordWrong,
    RegistrationClosed,
    TokenInvalid,
)
from artel.logs import get_logger
from artel.text import is_storable

WRONG_CREDENTIALS = "The e-mail address or the password is wrong."
REGISTRATION_CLOSED = (
    "Registration is closed on this server. Ask its operator to create your account with `artel users create`, "
    "or to open registration with ARTEL_REGISTRATION_OPEN=true."
)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """An authenticated account and its login; a token that this server did not issue has no login."""

    account: AccountRow
    login_id: str | None
    expires_at: datetime
    issued_at: int | None = None  # of a local token without a login

    @property
    def proof(self) -> Proof:
        """Proof for creating further logins and codes."""
        return Proof(self.login_id, self.issued_at)

    @property
    def principal(self) -> Principal:
        """Principal of the login's requests."""
        return self.account.principal


class Login:
    """Registers and authenticates users."""

    def __init__(
        self, database: Database, passwords: Passwords, tokens: Tokens, registration_open: bool | None = None
    ) -> None:
        """Create the service; `registration_open` None lets only the first user register. It may change later."""
        self.registration_open = registration_open
        self._database = database
        self._passwords = passwords
        self._tokens = tokens
        self._recording: set[str] = set()  # ids of logins whose use is being stored

    async def is_registration_open(self) -> bool:
        """Return whether a new user can register."""
        is_open = self.registration_open
        return not await self._database.read(accounts.has_accounts) if is_open is None else is_open

    async def register(self, email: str, password: str, address: str, device: Device) -> SignedIn:
        """Create an account, or raise RegistrationClosed."""
        if self.registration_open is False:
            raise RegistrationClosed(REGISTRATION_CLOSED)
        first_only = self.registration_open is None
        counter = throttle.registrations_from(address)
        async with self._passwords.registration_slots.take():
            await self._database.read(_refuse_to_register, counter, first_only)
            password_hash = await self._passwords.hash(password)
            account = await self._database.run(_register, email, password_hash, counter, first_only, address)
        log.info("account_created", user_id=account.user_id, is_admin=account.is_admin)
        return await self.begin(account, device)

    async def log_in(self, email: str, password: str, address: str, device: Device) -> SignedIn:
        """Create a login, or raise CredentialsWrong."""
        if not (_is_possible(email, MAX_EMAIL_CHARACTERS) and _is_possible(password, MAX_PASSWORD_CHARACTERS)):
            raise CredentialsWrong(WRONG_CREDENTIALS)  # no hashing, whose cost grows with the length
        counters = throttle.counters_of(accounts.normal_email(email), address)
        # The slot is held from reading the counters to updating them, so that concurrent guesses are all counted.
        async with self._passwords.login_slots.take():
            account = await self._database.read(_account_to_try, email, counters, device.network)
            password_hash = account.password_hash if account else None
            matches = await self._passwords.verify(password_hash, password)
            if not matches or account is None or password_hash is None:
                await self._database.run(_note_failure, counters, account, address)
                log.info("login_failed", address=address)
                raise CredentialsWrong(WRONG_CREDENTIALS)
            new_hash = await self._passwords.hash(password) if needs_rehash(password_hash) else None
            expires_at = self._expiry()
            database, counter = self._database.of(account.principal), counters.account_here
            login_id = await database.run(_log_in, account, new_hash, counter, device, expires_at)
        return SignedIn(account, login_id, expires_at)

    async def begin(
        self, account: AccountRow, device: Device, proof: Proof = PASSWORD, not_after: datetime | None = None
    ) -> SignedIn:
        """Create a login of an authenticated account that expires at `not_after` at the latest."""
        expires_at = min(self._expiry(), not_after or self._expiry())
        login_id = await self._database.of(account.principal).run(logins.begin_login, device, expires_at, proof)
        return SignedIn(account, login_id, expires_at)

    async def create_key(self, signed_in: SignedIn, device: Device, seconds: int | None) -> SignedIn:
        """Create an API key: a login that stays when the login that made it ends. A new password ends it too.

        A key that is made with a token, or with a login that was made from one, ends with it instead.
        """
        longest = self._tokens.lifetime_seconds
        if seconds is not None and seconds > longest:
            raise LifetimeTooLong(f"Keys of this server are valid for at most {longest} seconds. Choose less.")
        expires_at = datetime.now(UTC) + timedelta(seconds=longest if seconds is None else seconds)
        if signed_in.account.has_identity_provider:
            expires_at = min(expires_at, signed_in.expires_at)
        login_id, expires_at = await self._database.of(signed_in.principal).run(
            logins.begin_key, device, expires_at, signed_in.proof, signed_in.expires_at
        )
        return SignedIn(signed_in.account, login_id, expires_at)

    async def sign_in_browser(
        self, proof: BrowserSignIn, address: str, device: Device, replaced: AccountRow | None
    ) -> SignedIn:
        """Create a login from a code, a token, or e-mail address and password."""
        if proof.code is not None:
            return await self.exchange_code(proof.code, device, replaced)
        if proof.token is not None:
            return await self.exchange_token(proof.token.get_secret_value(), device, replaced)
        password = proof.password.get_secret_value() if proof.password else ""
        return await self.log_in(proof.email or "", password, address, device)

    async def log_out(self, signed_in: SignedIn) -> None:
        """End a login; raise NoLogin if the token belongs to none."""
        if signed_in.login_id is None:
            raise NoLogin("This token belongs to no login, so it can't be ended. It is valid until it expires.")
        await self._database.of(signed_in.principal).run(logins.revoke_login, signed_in.login_id)

    async def exchange_code(self, code: str, device: Device, replaced: AccountRow | None) -> SignedIn:
        """Create a login from a one-time code; raise OtherAccount if `replaced` is another account."""
        account, login_id, expires_at = await self._database.run(
            logins.sign_in_by_code, code, device, replaced, self._expiry()
        )
        return SignedIn(account, login_id, expires_at)

    async def exchange_token(self, token: str, device: Device, replaced: AccountRow | None) -> SignedIn:
        """Create a login from a token, with its expiry; raise OtherAccount if `replaced` is another account."""
        signed_in = await self.authenticate(token)
        logins.refuse_to_replace(replaced, signed_in.account)
        return await self.begin(signed_in.account, device, signed_in.proof, signed_in.expires_at)

    async def change_password(self, signed_in: SignedIn, old: str | None, new: str, address: str) -> None:
        """Replace the password and revoke every other login and every older token.

        `old` is None for the first password of an account that was created with a link.
        """
        email, state = signed_in.account.email, signed_in.account.password_state
        if state == "external" or email is None:
            raise NoPassword("This account has no password. It signs in with a link or through its identity provider.")
        if state == "missing":
            await self._choose_first_password(signed_in, old, new)
            return
        if old is None:
            raise PasswordWrong("The old password is missing. Send it as `old_password`.")
        counters = throttle.counters_of(email, address)
        async with self._passwords.login_slots.take():
            account = await self._database.read(_account_to_try, email, counters, throttle.network_key(address))
            old_hash = account.password_hash if account and _is_possible(old, MAX_PASSWORD_CHARACTERS) else None
            if old_hash is None or not await self._passwords.verify(old_hash, old):
                await self._database.run(_note_failure, counters, signed_in.account, address)
                raise PasswordWrong("The old password is wrong. Nothing was changed.")
            new_hash = await self._passwords.hash(new)
            database, counter = self._database.of(signed_in.principal), counters.account_here
            await database.run(_change_password, signed_in.login_id, old_hash, new_hash, counter)
        log.info("password_changed", user_id=signed_in.account.user_id)

    async def _choose_first_password(self, signed_in: SignedIn, old: str | None, new: str) -> None:
        if old is not None:
            raise NoPassword("This account has no password yet. Leave `old_password` out to choose one.")
        async with self._passwords.login_slots.take():
            new_hash = await self._passwords.hash(new)
            await self._database.of(signed_in.principal).run(_set_first_password, signed_in.login_id, new_hash)
        log.info("password_changed", user_id=signed_in.account.user_id)

    async def authenticate(self, token: str) -> SignedIn:
        """Verify a token and return its account; create the account of a new external subject."""
        subject = await self._tokens.verify(token)
        expires_at = datetime.fromtimestamp(subject.expires_at, UTC)
        if isinstance(subject, LocalSubject) and subject.login_id is not None:
            signed_in, is_stale = await self._database.read_once(
                logins.signed_in_account, subject.user_id, subject.login_id
            )
            if is_stale:
                await self._record_use(signed_in.principal, subject.login_id)
            return SignedIn(signed_in, subject.login_id, expires_at)
        if isinstance(subject, LocalSubject):
            account = await self._database.read_once(accounts.account_by_id, subject.user_id)
            issued_at = subject.issued_at
        else:
            account, issued_at = await self._external_account(subject), None
        if account is None:
            raise TokenInvalid("The account of this token no longer exists.")
        logins.refuse_older_token(account, issued_at)
        return SignedIn(account, None, expires_at, issued_at)

    def token_of(self, signed_in: SignedIn) -> str:
        """Return a token for a login."""
        return self._tokens.issue(signed_in.account.user_id, signed_in.login_id, signed_in.expires_at)

    def _expiry(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._tokens.lifetime_seconds)

    async def _record_use(self, principal: Principal, login_id: str) -> None:
        if login_id in self._recording:
            return
        self._recording.add(login_id)
        try:
            await self._database.of(principal).run(logins.record_use, login_id)
        except ArtelError as failure:  # the request itself may still succeed
            log.warning("login_use_not_recorded", reason=failure.detail)
        finally:
            self._recording.discard(login_id)

    async def _external_account(self, subject: ExternalSubject) -> AccountRow | None:
        name = subject.issuer, subject.subject
        known, account = await self._database.read(accounts.account_by_subject, *name)
        if not known:
            try:
                account = await self._database.run(accounts.create_external_account, *name, subject.email)
                log.info("external_account_created", user_id=account.user_id)
            except IntegrityError:  # created by a concurrent request
                _, account = await self._database.read(accounts.account_by_subject, *name)
        return account


def _is_possible(text: str, max_characters: int) -> bool:
    return 0 < len(text) <= max_characters and is_storable(text)


def _refuse_to_register(connection: Connection, counter: throttle.Counter, first_only: bool) -> None:
    if first_only and accounts.has_accounts(connection):
        raise RegistrationClosed(REGISTRATION_CLOSED)
    throttle.refuse_if_paused(connection, (counter,))


def _register(
    connection: Connection, email: str, password_hash: str, counter: throttle.Counter, first_only: bool, address: str
) -> AccountRow:
    throttle.count(connection, (counter,))
    account = accounts.create_account(connection, email, password_hash, detail=f"registered from {address}")
    # Checked again: creating an account locks the installation's row, so of two concurrent requests one fails here.
    if first_only and not account.is_admin:
        raise RegistrationClosed(REGISTRATION_CLOSED)
    return account


def _account_to_try(
    connection: Connection, email: str, counters: throttle.LoginCounters, network: str
) -> AccountRow | None:
    account = accounts.account_by_email(connection, email)
    is_known = account is not None and logins.has_signed_in_from(connection, account.user_id, network)
    throttle.refuse_if_paused(connection, counters.of(is_known_network=is_known))
    return account


def _note_failure(
    connection: Connection, counters: throttle.LoginCounters, account: AccountRow | None, address: str
) -> None:
    """Count a wrong password. An address that has no account is not recorded: it may be a password."""
    throttle.count(connection, counters.all)
    user_id = account.user_id if account else None
    target = "" if account else "an unknown address"
    record(
        connection,
        Action.LOGIN_FAILED,
        "unknown",
        target=target,
        target_user_id=user_id,
        detail=f"from {address}",
    )


def _log_in(
    tx: Tx, account: AccountRow, new_hash: str | None, counter: throttle.Counter, device: Device, expires_at: datetime
) -> str:
    """Create a login unless the password was changed since it was verified; store `new_hash` if given."""
    locked = accounts.lock_account(tx.connection, account.user_id)
    if locked is None or locked.password_hash != account.password_hash:
        raise CredentialsWrong(WRONG_CREDENTIALS)
    if new_hash is not None:
        accounts.set_password_hash(tx, new_hash)
    throttle.forget_failures(tx.connection, counter)
    return logins.begin_login(tx, device, expires_at)


def _change_password(tx: Tx, login_id: str | None, old_hash: str, new_hash: str, counter: throttle.Counter) -> None:
    locked = accounts.lock_account(tx.connection, tx.principal.user_id)
    if locked is None or locked.password_hash != old_hash:
        raise PasswordWrong("The password was changed by another request. Nothing was changed.")
    accounts.set_password_hash(tx, new_hash, end_tokens=True)
    logins.revoke_other_logins(tx, login_id)
    throttle.forget_failures(tx.connection, counter)
    record(tx.connection, Action.PASSWORD_CHANGED, tx.principal, target_user_id=tx.principal.user_id)


def _set_first_password(tx: Tx, login_id: str | None, new_hash: str) -> None:
    locked = accounts.lock_account(tx.connection, tx.principal.user_id)
    if locked is None or locked.password_hash is not None:
        raise PasswordWrong("The password was set by another request. Nothing was changed.")
    accounts.set_password_hash(tx, new_hash, end_tokens=True)
    logins.revoke_other_logins(tx, login_id)
    record(tx.connection, Action.PASSWORD_CHANGED, tx.principal, target_user_id=tx.principal.user_id)
