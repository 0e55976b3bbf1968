"""The web page at `/` and the API documentation at `/docs`: a fixed list of local files."""

import hashlib
from functools import cache
from importlib.util import find_spec
from mimetypes import guess_type
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request, Response

_HERE = Path(__file__).parent / "static"
_CONTENT_POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; {}frame-ancestors 'none'; base-uri 'none'; form-action 'none'"  # noqa: E501
_PAGE_POLICY = _CONTENT_POLICY.format("style-src 'self'; ")
# Swagger UI uses inline styles.
_DOCS_POLICY = _CONTENT_POLICY.format("style-src 'self' 'unsafe-inline'; ")

router = APIRouter(include_in_schema=False)


def _swagger_folder() -> Path:
    spec = find_spec("fastapi_offline")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("fastapi_offline", name="fastapi_offline")
    return Path(spec.origin).parent / "static"


_SWAGGER = _swagger_folder()
_SCRIPTS = ("app", "basics", "chat", "consent", "plan_card", "plans", "space", "text", "undo", "visible", "docs")
_ASSETS = {
    **{name: _HERE / name for name in (*(f"{script}.js" for script in _SCRIPTS), "app.css", "icon.svg")},
    **{name: _SWAGGER / name for name in ("swagger-ui-bundle.js", "swagger-ui.css")},
}


@router.get("/")
async def index(request: Request) -> Response:
    """Return the web page."""
    return _file(request, _HERE / "index.html", _PAGE_POLICY)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """Return the API documentation."""
    return _file(request, _HERE / "docs.html", _DOCS_POLICY)


@router.get("/assets/{name}")
async def asset(name: str, request: Request) -> Response:
    """Return a script, style sheet or image."""
    if name not in _ASSETS:
        raise HTTPException(404)
    return _file(request, _ASSETS[name], _PAGE_POLICY)


def _file(request: Request, path: Path, policy: str) -> Response:
    content, tag = _read(path)
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-cache", "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=guess_type(path.name)[0])


@cache
def _read(path: Path) -> tuple[bytes, str]:
    content = path.read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'
