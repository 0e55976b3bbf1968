"""The built UI over HTTP: index.html for its paths, hashed assets, compressed forms, a path prefix."""

import gzip
import re
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError
from starlette.requests import Request

from artel.api import ui
from artel.api.web_build import load_build
from artel.settings import Settings
from tests.conftest import StartServer
from tests.running import Server

pytestmark = pytest.mark.any_database
PAGES = ["/", "/p/7/c/new", "/p/7/agents/3", "/inbox", "/settings/account", "/manage", "/manage/users", "/welcome"]


def get(server: Server, path: str, **headers: str) -> httpx.Response:
    # Without Accept-Encoding, which httpx would add.
    with httpx.Client(base_url=server.url, timeout=30) as client:
        client.headers.pop("accept-encoding")
        return client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})


def script_of(server: Server, page: str = "/") -> str:
    found = re.search(r'src="([^"]+/assets/index-[^"]+\.js|/assets/index-[^"]+\.js)"', get(server, page).text)
    assert found
    return found[1]


def raw(server: Server, path: str, encoding: str) -> tuple[httpx.Headers, bytes]:
    """Return headers and body as they were sent."""
    with httpx.stream("GET", f"{server.url}{path}", headers={"Accept-Encoding": encoding}, timeout=30) as response:
        return response.headers, b"".join(response.iter_raw())


@pytest.mark.parametrize("path", PAGES)
def test_every_page_of_the_ui_is_index_html_with_a_strict_policy(server: Server, path: str) -> None:
    page = get(server, path)

    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["cache-control"] == "no-cache"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; connect-src 'self';" in policy
    assert "unsafe" not in policy
    assert '<div id="root">' in page.text
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style| style=| on\w+=|https?://", page.text) == []
    again = get(server, path, If_None_Match=page.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")


def test_hashed_asset_is_immutable_and_sent_in_the_best_accepted_form(server: Server) -> None:
    path = script_of(server)
    plain_headers, plain = raw(server, path, "identity")
    zipped_headers, zipped = raw(server, path, "gzip, deflate")
    brotli_headers, brotli = raw(server, path, "gzip, deflate, br, zstd")
    refused_headers, refused = raw(server, path, "br;q=0, gzip;q=0")

    assert "content-encoding" not in plain_headers
    assert (refused, "content-encoding" in refused_headers) == (plain, False)
    assert (zipped_headers["content-encoding"], brotli_headers["content-encoding"]) == ("gzip", "br")
    assert gzip.decompress(zipped) == plain
    assert len(brotli) < len(zipped) < len(plain) / 2
    for headers in (plain_headers, zipped_headers, brotli_headers):
        assert headers["cache-control"] == "public, max-age=31536000, immutable"
        assert headers["content-type"].startswith("text/javascript")
        assert headers["vary"] == "Accept-Encoding"
    assert len({headers["etag"] for headers in (plain_headers, zipped_headers, brotli_headers)}) == 3
    again = get(server, path, If_None_Match=plain_headers["etag"])
    assert (again.status_code, again.content) == (304, b"")


def test_only_files_of_the_build_are_served(server: Server) -> None:
    manifest = get(server, "/assets/app.webmanifest")
    assert manifest.headers["content-type"] == "application/manifest+json"
    assert manifest.headers["cache-control"] == "no-cache"
    for path in (f"{script_of(server)}.br", "/assets/index.html", "/assets/manifest.json", "/assets/..%2findex.html"):
        assert get(server, path).status_code == 404, path


def test_path_prefix_of_a_proxy_is_in_the_page_and_removed_from_requests(start_shared_server: StartServer) -> None:
    server = start_shared_server(ARTEL_BASE_PATH="/tools/artel/")

    for page in ("/tools/artel/", "/", "/tools/artel/p/1/c/new"):
        assert '<meta name="artel-base" content="/tools/artel" />' in get(server, page).text
        script = script_of(server, page)
        assert script.startswith("/tools/artel/assets/")
        assert get(server, script).content == get(server, script.removeprefix("/tools/artel")).content
    assert get(server, "/tools/artel/healthz").json()["status"] == "ok"
    assert get(server, "/tools/artel/my/projects").status_code == 401
    assert get(server, "/tools/artelx/healthz").status_code == 404


@pytest.mark.parametrize("prefix", ["artel", "/a b", "/a//b", "/../x", '/"><script>'])
def test_path_prefix_must_be_a_plain_path(prefix: str) -> None:
    with pytest.raises(ValidationError, match="must be a path such as /artel"):
        Settings(base_path=prefix)


def test_missing_build_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_build(tmp_path) is None
    monkeypatch.setattr(ui, "load_build", lambda: None)

    page = ui._app(Request({"type": "http", "headers": []}), "")

    assert page.status_code == 503
    assert b"make setup" in bytes(page.body)
    assert "script-src 'self'" in page.headers["content-security-policy"]
