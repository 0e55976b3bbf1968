"""The web UI, built from `web/`, and the API documentation at `/docs`: fixed lists of local files."""

import hashlib
from functools import cache
from http import HTTPStatus
from importlib.util import find_spec
from mimetypes import guess_type
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request, Response

from artel.api.dependencies import Services
from artel.api.web_build import Asset, load_build

_HERE = Path(__file__).parent / "static"
_CONTENT_POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; {}frame-ancestors 'none'; base-uri 'none'; form-action 'none'"  # noqa: E501
_PAGE_POLICY = _CONTENT_POLICY.format("style-src 'self'; ")
_APP_POLICY = _CONTENT_POLICY.format("style-src 'self'; manifest-src 'self'; ").replace("data:", "data: blob:")
# Swagger UI uses inline styles.
_DOCS_POLICY = _CONTENT_POLICY.format("style-src 'self' 'unsafe-inline'; ")

router = APIRouter(include_in_schema=False)


def _swagger_folder() -> Path:
    spec = find_spec("fastapi_offline")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("fastapi_offline", name="fastapi_offline")
    return Path(spec.origin).parent / "static"


_SWAGGER = _swagger_folder()
_ASSETS = {
    **{name: _HERE / name for name in ("docs.js", "icon.svg")},
    **{name: _SWAGGER / name for name in ("swagger-ui-bundle.js", "swagger-ui.css")},
}


# The paths of the UI's pages: `web/src/ui/routes.ts` has the same list.
@router.get("/")
@router.get("/p/{page:path}")
@router.get("/inbox")
@router.get("/settings")
@router.get("/settings/{page:path}")
@router.get("/manage")
@router.get("/manage/{page:path}")
@router.get("/welcome")
async def app_page(request: Request, services: Services) -> Response:
    """Return the UI, which shows the page of the path."""
    return _app(request, services.settings.base_path)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """Return the API documentation."""
    return _file(request, _HERE / "docs.html", _DOCS_POLICY)


@router.get("/assets/{name}")
async def asset(name: str, request: Request) -> Response:
    """Return a script, style sheet or image."""
    build = load_build()
    if build is not None and name in build.assets and name not in _ASSETS:
        return _built_asset(request, build.assets[name])
    if name not in _ASSETS:
        raise HTTPException(404)
    return _file(request, _ASSETS[name], _PAGE_POLICY)


def _app(request: Request, base_path: str) -> Response:
    build = load_build()
    if build is None:
        return _file(request, _HERE / "no_build.html", _PAGE_POLICY, status=503)
    content = build.index_for(base_path)
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return _response(request, content, "text/html", {"Cache-Control": "no-cache", "ETag": tag}, _APP_POLICY)


def _built_asset(request: Request, found: Asset) -> Response:
    encoding = found.encoding_for(request.headers.get("accept-encoding", ""))
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if found.is_hashed else "no-cache",
        "ETag": f'"{found.tag}{encoding and "-"}{encoding}"',
        "Vary": "Accept-Encoding",
    }
    if encoding:
        headers["Content-Encoding"] = encoding
    return _response(request, found.contents[encoding], found.media_type, headers, _APP_POLICY)


def _file(request: Request, path: Path, policy: str, status: int = 200) -> Response:
    content, tag = _read(path)
    headers = {"Cache-Control": "no-cache", "ETag": tag}
    return _response(request, content, guess_type(path.name)[0], headers, policy, status)


def _response(
    request: Request, content: bytes, media_type: str | None, headers: dict[str, str], policy: str, status: int = 200
) -> Response:
    """Return a file, or 304 if the client has it."""
    headers["Content-Security-Policy"] = policy
    if status == HTTPStatus.OK and request.headers.get("if-none-match") == headers["ETag"]:
        headers.pop("Content-Encoding", None)
        return Response(status_code=304, headers=headers)
    return Response(content, status, headers, media_type)


@cache
def _read(path: Path) -> tuple[bytes, str]:
    content = path.read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'
