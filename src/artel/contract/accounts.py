"""Accounts, logins and limits of users in the HTTP API."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SecretStr,
    model_validator,
)

from artel.contract.http import (
    MAX_EMAIL_CHARACTERS,
    MAX_JSON_INTEGER,
    MAX_PASSWORD_CHARACTERS,
    Email,
    Password,
    RequestBody,
    ResponseBody,
    unset,
    whole,
)


class Registration(RequestBody):
    """A new account."""

    email: Email = Field(examples=["ada@example.org"])
    password: Password = Field(examples=["correct horse battery staple"])


class Token(ResponseBody):
    """A bearer token."""

    access_token: str
    token_type: Literal["bearer"] = "bearer"  # noqa: S105 - the kind of token, not a secret
    expires_in: int = Field(description="Seconds from now.", examples=[604800])


class Registered(Token):
    """The new account and its first token."""

    user_id: int = Field(examples=[1])


class BrowserSignIn(RequestBody):
    """Credentials of a browser: a one-time code, a token, or e-mail address and password."""

    code: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")] | None = Field(
        default=None, description="One-time code from a link of `artel up` or `artel link`."
    )
    token: SecretStr | None = Field(default=None, min_length=1, max_length=8192)
    email: Annotated[str, Field(max_length=MAX_EMAIL_CHARACTERS)] | None = Field(
        default=None, examples=["ada@example.org"]
    )
    password: SecretStr | None = Field(default=None, examples=["correct horse battery staple"])
    replace: bool = Field(default=False, description="Whether to sign out another account that is signed in here.")

    @model_validator(mode="after")
    def _one_proof(self) -> Self:
        given = {name for name in ("code", "token", "email", "password") if getattr(self, name) is not None}
        if given not in ({"code"}, {"token"}, {"email", "password"}):
            raise ValueError("needs either code, or token, or email and password")
        return self


class PasswordChange(RequestBody):
    """The old and the new password of an account."""

    old_password: Annotated[SecretStr, Field(max_length=MAX_PASSWORD_CHARACTERS)] | None = Field(
        default=None,
        description="Left out only for the first password of an account that was created with a link.",
        examples=["an old passphrase of mine"],
    )
    new_password: Password = Field(examples=["seven green bottles on the wall"])


class SignInCode(ResponseBody):
    """A one-time code that signs a browser in at `/#code=…`."""

    code: str
    expires_in: int = Field(description="Seconds from now.", examples=[60])


class NewApiKey(RequestBody):
    """An API key for a program of yours."""

    name: str = Field(
        min_length=1,
        max_length=100,
        pattern=r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$",
        description="What the list of logins shows.",
        examples=["Nightly report"],
    )
    expires_in: Annotated[int, Field(ge=60, le=31_536_000)] | None = Field(
        default=None,
        description="Seconds from now, at most `login_seconds` of `GET /auth/me`, which is the default.",
        examples=[86_400],
    )


class ApiKey(ResponseBody):
    """An API key. It is shown only once."""

    id: str = Field(
        description="`DELETE /auth/sessions/{id}` ends the key.", examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"]
    )
    access_token: str = Field(description="Send it as `Authorization: Bearer …`.")
    expires_at: datetime


class LoginSession(ResponseBody):
    """A login of the account."""

    id: str = Field(examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
    kind: Literal["browser", "cli", "token"]
    label: str = Field(description="User-Agent of the client, or the name of an API key.", examples=["artel/0.1.0"])
    created_at: datetime
    last_used_at: datetime = Field(description="Updated at most once a minute.")
    expires_at: datetime
    is_current: bool = Field(description="Whether it is the login of this request.")


class Account(ResponseBody):
    """An account."""

    user_id: int = Field(examples=[1])
    email: str | None = Field(examples=["ada@example.org"])
    is_admin: bool
    created_at: datetime
    password_state: Literal["set", "missing", "external"] = Field(
        description="`missing`: created with a link, and may choose a password; `external`: signs in with a link on "
        "the server's machine, or through an identity provider."
    )
    demo: bool = Field(False, description="Whether the demo brain answers, because no model is configured.")


class SignedInAccount(Account):
    """The account of a request."""

    login_seconds: int = Field(description="How long a new login or API key is valid at most.", examples=[604_800])


class BrowserState(ResponseBody):
    """The account that is signed in with the browser's cookie, if any."""

    account: SignedInAccount | None
    registration_open: bool = Field(description="Whether anybody may register with `POST /auth/register`.")


class UserLimits(RequestBody):
    """Limits of a user. Omitted fields do not change; null is the server's default."""

    monthly_budget_usd: Annotated[float, Field(ge=-1, le=1_000_000_000, allow_inf_nan=False)] | None = Field(
        default_factory=unset, description="Monthly budget over all projects; -1 is no limit.", examples=[20]
    )
    storage_bytes: Annotated[int, Field(ge=-1, le=MAX_JSON_INTEGER), BeforeValidator(whole)] | None = Field(
        default_factory=unset,
        description="Storage for messages, memories and task workspaces; -1 is no limit.",
        examples=[1_000_000_000],
    )


class UserAccount(Account):
    """An account as administrators see it."""

    monthly_budget_usd: float | None = Field(description="null is the server's default, -1 is no limit.")
    storage_bytes: int | None = Field(description="null is the server's default, -1 is no limit.")
    spent_usd: float = Field(description="Amount spent this month; counted only while the user has a limit.")
