"""Dependencies of endpoints: the server's services, the principal, paging, and path ids."""

from typing import Annotated

from fastapi import Depends, Path, Query, Request

from artel.auth.login import SignedIn
from artel.auth.principal import Principal
from artel.container import Container
from artel.contract.http import MAX_ID, PageRequest
from artel.errors import AdministratorOnly, NotAuthenticated
from artel.logs import log_context


# Coroutines although they await nothing: FastAPI runs plain functions in a thread pool, which is slower.
async def _container(request: Request) -> Container:
    container: Container = request.app.state.container
    return container


async def _principal(request: Request) -> Principal:
    principal = getattr(request.state, "principal", None)
    if not isinstance(principal, Principal):  # fail closed if the middleware did not run
        raise NotAuthenticated("Send a token in the header: Authorization: Bearer …")
    # Every log line of the request has the ids of its path.
    texts = {name: str(value) for name, value in request.path_params.items()}
    ids = {name: int(text) if _is_id(text) else text[:64] for name, text in texts.items()}
    log_context.bind_contextvars(**ids)
    return principal


async def _administrator(principal: Annotated[Principal, Depends(_principal)]) -> Principal:
    if not principal.is_admin:
        raise AdministratorOnly("Only an administrator of this server may do this.")
    return principal


async def _signed_in(request: Request, _: Annotated[Principal, Depends(_principal)]) -> SignedIn:
    signed_in: SignedIn = request.state.signed_in
    return signed_in


async def _page_request(
    limit: Annotated[int, Query(ge=1, le=100, description="Maximum number of items.")] = 50,
    offset: Annotated[int, Query(ge=0, le=MAX_ID, description="Number of items to skip.")] = 0,
) -> PageRequest:
    return PageRequest(limit, offset)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_ID))


Services = Annotated[Container, Depends(_container)]
CurrentUser = Annotated[Principal, Depends(_principal)]
Administrator = Annotated[Principal, Depends(_administrator)]
CurrentLogin = Annotated[SignedIn, Depends(_signed_in)]
Paging = Annotated[PageRequest, Depends(_page_request)]
ProjectId = Annotated[int, Path(ge=0, le=MAX_ID, examples=[1])]
SessionId = Annotated[
    str, Path(max_length=64, pattern=r"^[0-9a-zA-Z-]+$", examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
]
TurnId = SessionId
MessageId = SessionId
LoginId = SessionId
ArchiveId = SessionId
OfSession = Annotated[
    str | None, Query(max_length=64, pattern=r"^[0-9a-zA-Z-]+$", description="Only items of this session.")
]
UserId = Annotated[int, Path(ge=0, le=MAX_ID, examples=[2])]
AgentId = UserId
ProviderId = UserId
