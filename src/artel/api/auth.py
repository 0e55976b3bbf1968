"""Endpoints for accounts and logins."""

import time
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response, status
from fastapi.security import OAuth2PasswordRequestForm

from artel.api.dependencies import CurrentLogin, CurrentUser, LoginId, Paging, Services
from artel.api.problems import documented
from artel.auth import accounts
from artel.auth.logins import CODE_LIFETIME, Device, LoginKind, list_logins, make_code, revoke_login
from artel.auth.middleware import cookie_name, login_cookie
from artel.auth.throttle import network_key
from artel.container import Container
from artel.contract.accounts import (
    ApiKey,
    BrowserSignIn,
    BrowserState,
    LoginSession,
    NewApiKey,
    PasswordChange,
    Registered,
    Registration,
    SignedInAccount,
    SignInCode,
    Token,
)
from artel.contract.http import Page
from artel.errors import TokenInvalid

COMMAND_LINE = "artel/"  # start of the User-Agent of the command line

router = APIRouter(prefix="/auth", tags=["accounts"])


@router.post("/register", status_code=status.HTTP_201_CREATED, responses=documented(400, 403, 409, 413, 422, 429, 503))
async def register(body: Registration, request: Request, services: Services) -> Registered:
    """Create an account. The first account of a server is its administrator."""
    password = body.password.get_secret_value()
    signed_in = await services.login.register(body.email, password, _address(request), _device(request))
    return Registered(
        user_id=signed_in.account.user_id,
        access_token=services.login.token_of(signed_in),
        expires_in=services.tokens.lifetime_seconds,
    )


@router.post("/token", responses=documented(400, 401, 413, 422, 429, 503))
async def token(form: Annotated[OAuth2PasswordRequestForm, Depends()], request: Request, services: Services) -> Token:
    """Log in with e-mail address (as `username`) and password."""
    signed_in = await services.login.log_in(form.username, form.password, _address(request), _device(request))
    return Token(access_token=services.login.token_of(signed_in), expires_in=services.tokens.lifetime_seconds)


@router.get("/browser", responses=documented(503))
async def show_browser(request: Request, services: Services) -> BrowserState:
    """Show which account is signed in with this browser's cookie, and whether registration is open."""
    account = await _cookie_account(request, services)
    is_open = await services.login.is_registration_open()
    return BrowserState(account=account and _account(account, services), registration_open=is_open)


@router.post("/browser", responses=documented(400, 401, 403, 409, 413, 422, 429, 503))
async def sign_in_browser(
    body: BrowserSignIn, request: Request, response: Response, services: Services
) -> SignedInAccount:
    """Sign a browser in; the response sets a cookie. 409 if another account is signed in and `replace` is not set."""
    device = _device(request, LoginKind.BROWSER)
    before, own, sent = (
        await _cookie_account(request, services),
        cookie_name(request.scope),
        login_cookie(request.scope),
    )
    signed_in = await services.login.sign_in_browser(body, _address(request), device, None if body.replace else before)
    seconds = int(signed_in.expires_at.timestamp() - time.time())
    _set_cookie(response, request, own, services.login.token_of(signed_in), seconds)
    if before is not None and sent is not None and sent[0] != own:
        _set_cookie(response, request, sent[0], "", 0)  # of an older version of this server
    return _account(signed_in.account, services)


@router.post("/codes", status_code=status.HTTP_201_CREATED, responses=documented(401, 403, 503))
async def create_code(signed_in: CurrentLogin, services: Services) -> SignInCode:
    """Create a one-time code that signs a browser in at `/#code=…`. Earlier codes become invalid."""
    code = await services.database.of(signed_in.principal).run(make_code, signed_in.expires_at, signed_in.proof)
    return SignInCode(code=code, expires_in=int(CODE_LIFETIME.total_seconds()))


@router.post("/logout", status_code=status.HTTP_204_NO_CONTENT, responses=documented(401, 403, 404, 409, 503))
async def log_out(signed_in: CurrentLogin, request: Request, response: Response, services: Services) -> None:
    """End the login of this request: its token, its cookie, and streams opened with them."""
    await services.login.log_out(signed_in)
    if "authorization" not in request.headers and (sent := login_cookie(request.scope)):
        _set_cookie(response, request, sent[0], "", 0)


@router.post(
    "/password",
    status_code=status.HTTP_204_NO_CONTENT,
    responses=documented(400, 401, 403, 409, 413, 422, 429, 503),
)
async def change_password(body: PasswordChange, signed_in: CurrentLogin, request: Request, services: Services) -> None:
    """Change the password, or choose the first one. Ends every other login of the account."""
    old = body.old_password.get_secret_value() if body.old_password is not None else None
    new = body.new_password.get_secret_value()
    await services.login.change_password(signed_in, old, new, _address(request))


@router.get("/sessions", responses=documented(401, 422, 503))
async def list_sessions(signed_in: CurrentLogin, services: Services, paging: Paging) -> Page[LoginSession]:
    """List your logins, most recently used first."""
    total, found = await services.database.read(list_logins, signed_in.account.user_id, paging)
    items = [LoginSession.of(login, is_current=login.id == signed_in.login_id) for login in found]
    return paging.page(items, total)


@router.post("/sessions", status_code=status.HTTP_201_CREATED, responses=documented(400, 401, 403, 413, 422, 503))
async def create_key(body: NewApiKey, signed_in: CurrentLogin, request: Request, services: Services) -> ApiKey:
    """Create an API key. It stays when you sign out; changing the password or deleting it under your logins ends it.

    One that is made with a token, such as another key, ends with that token at the latest.
    """
    device = Device(LoginKind.TOKEN, body.name, network_key(_address(request)))
    created = await services.login.create_key(signed_in, device, body.expires_in)
    token = services.login.token_of(created)
    return ApiKey(id=created.login_id or "", access_token=token, expires_at=created.expires_at)


@router.delete(
    "/sessions/{login_id}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(401, 403, 404, 422, 503)
)
async def end_session(login_id: LoginId, user: CurrentUser, services: Services) -> None:
    """End a login. Streams opened with it end within seconds."""
    await services.database.of(user).run(revoke_login, login_id)


@router.get("/me", responses=documented(401, 503))
async def me(signed_in: CurrentLogin, services: Services) -> SignedInAccount:
    """Show the account of the token."""
    return _account(signed_in.account, services)


async def _cookie_account(request: Request, services: Container) -> accounts.AccountRow | None:
    found = login_cookie(request.scope)
    with suppress(TokenInvalid):
        return (await services.login.authenticate(found[1])).account if found is not None else None
    return None


def _set_cookie(response: Response, request: Request, name: str, value: str, seconds: int) -> None:
    response.set_cookie(
        name,
        value,
        max_age=max(seconds, 0),
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.scope["scheme"] == "https",
    )


def _account(account: accounts.AccountRow, services: Container) -> SignedInAccount:
    return SignedInAccount.of(
        account, login_seconds=services.tokens.lifetime_seconds, demo=not services.brain.configured
    )


def _device(request: Request, kind: LoginKind | None = None) -> Device:
    label = request.headers.get("user-agent", "")
    default = LoginKind.CLI if label.startswith(COMMAND_LINE) else LoginKind.TOKEN
    return Device(kind or default, label, network_key(_address(request)))


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"
