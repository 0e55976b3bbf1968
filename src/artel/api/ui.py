"""The page at `/`, and the API's documentation at `/docs`: a fixed list of files, no network needed."""

from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, HTTPException, Response
from fastapi.responses import FileResponse

_HERE = Path(__file__).parent / "static"
_CONTENT_POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; {}frame-ancestors 'none'; base-uri 'none'; form-action 'none'"  # noqa: E501
_PAGE_POLICY = _CONTENT_POLICY.format("style-src 'self'; ")
# Swagger UI sets styles on its elements.
_DOCS_POLICY = _CONTENT_POLICY.format("style-src 'self' 'unsafe-inline'; ")

router = APIRouter(include_in_schema=False)


def _swagger_folder() -> Path:
    spec = find_spec("fastapi_offline")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("fastapi_offline", name="fastapi_offline")
    return Path(spec.origin).parent / "static"


_SWAGGER = _swagger_folder()
_ASSETS = {
    "app.js": _HERE / "app.js",
    "app.css": _HERE / "app.css",
    "docs.js": _HERE / "docs.js",
    "icon.svg": _HERE / "icon.svg",
    "swagger-ui-bundle.js": _SWAGGER / "swagger-ui-bundle.js",
    "swagger-ui.css": _SWAGGER / "swagger-ui.css",
}


@router.get("/")
async def index() -> Response:
    """Answer the page."""
    return _page("index.html", _PAGE_POLICY)


@router.get("/docs")
async def docs() -> Response:
    """Answer the API's documentation."""
    return _page("docs.html", _DOCS_POLICY)


@router.get("/assets/{name}")
async def asset(name: str) -> Response:
    """Answer a script, a style or a picture."""
    if name not in _ASSETS:
        raise HTTPException(404)
    return FileResponse(_ASSETS[name], headers={"Cache-Control": "no-cache"})


def _page(name: str, policy: str) -> Response:
    return FileResponse(_HERE / name, headers={"Content-Security-Policy": policy, "Cache-Control": "no-cache"})
