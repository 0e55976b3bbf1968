"""Accounts and tokens."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, status
from fastapi.security import OAuth2PasswordRequestForm

from artel.api.dependencies import CurrentUser, Parts
from artel.api.problems import documented
from artel.auth.accounts import account_by_id
from artel.auth.login import REGISTRATION_CLOSED
from artel.contract.http import Account, Registered, Registration, Token
from artel.errors import NotAuthenticated, RegistrationClosed

router = APIRouter(prefix="/auth", tags=["accounts"])


@router.post("/register", status_code=status.HTTP_201_CREATED, responses=documented(400, 403, 409, 413, 422, 429, 503))
async def register(body: Registration, request: Request, parts: Parts) -> Registered:
    """Make an account. The first one of a server is its administrator."""
    if parts.settings.registration_open is False:
        raise RegistrationClosed(REGISTRATION_CLOSED)
    account = await parts.login.register(
        body.email,
        body.password.get_secret_value(),
        _address(request),
        first_only=parts.settings.registration_open is None,
    )
    return Registered(
        user_id=account.user_id,
        access_token=parts.tokens.issue(account.user_id),
        expires_in=parts.tokens.lifetime_seconds,
    )


@router.post("/token", responses=documented(400, 401, 413, 422, 429, 503))
async def token(form: Annotated[OAuth2PasswordRequestForm, Depends()], request: Request, parts: Parts) -> Token:
    """Log in with e-mail address (as `username`) and password."""
    account = await parts.login.log_in(form.username, form.password, _address(request))
    return Token(access_token=parts.tokens.issue(account.user_id), expires_in=parts.tokens.lifetime_seconds)


@router.get("/me", responses=documented(401, 503))
async def me(user: CurrentUser, parts: Parts) -> Account:
    """Say whom the token speaks for."""
    account = await parts.database.read(account_by_id, user.user_id)
    if account is None:
        raise NotAuthenticated("The account of this token does not exist any more.")
    return Account(
        user_id=account.user_id, email=account.email, is_admin=account.is_admin, created_at=account.created_at
    )


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"
