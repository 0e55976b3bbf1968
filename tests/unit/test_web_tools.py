"""web_search and web_fetch as tools: what they return, and what they do with hostile pages."""

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from artel.brain.brain import ToolCall
from artel.errors import ConfigurationInvalid
from artel.settings import load_settings
from artel.tools.charset import PIECE_BYTES, decoded
from artel.tools.page_text import PageReader
from artel.tools.policy import Level
from artel.tools.search_engines import Ddgs, Searxng
from artel.tools.tool import ToolResult
from artel.tools.toolbox import Toolbox
from artel.tools.web import WebFetch, WebSearch
from artel.tools.web_client import WebClient, WebLimits, WebPage
from artel.web_address import WebRules
from tests.web_site import Site, redirect, response, web_site

pytestmark = pytest.mark.anyio

ARTICLE = """<!doctype html><html><head><meta charset="windows-1251"><title>Новости
 дня</title><script>var hidden = 1</script></head><body><nav><ul><li><a href="/">Menu</a></li></ul></nav>
<article><h1>Заголовок</h1><p>{}</p><p>Второй абзац, и в нём есть ещё несколько слов.</p></article>
<footer>Imprint</footer></body></html>"""


async def call(tool: WebSearch | WebFetch, **arguments: Any) -> ToolResult:
    toolbox = Toolbox([tool], [tool.name])
    return await toolbox.call(ToolCall("1", tool.name, json.dumps(arguments)), time.monotonic() + 300)


def fetch_from(site: Site, **more: Any) -> WebFetch:
    client = WebClient(WebRules(private_hosts=[f"127.0.0.1:{site.port}"]), limits=WebLimits(seconds=120))
    return WebFetch(client, **{"reader": PageReader(120)} | more)


@pytest.mark.req("AGT-02.1", "AGT-02.2", "AGT-02.3", "AGT-02.4")
async def test_a_page_is_read_as_text_with_title_and_final_url() -> None:
    sentence = "Это главный абзац статьи, в котором достаточно много слов, чтобы его нашли. " * 5
    page = ARTICLE.format(sentence.strip()).encode("cp1251")
    async with web_site() as site:
        site.pages = {"/": redirect("/article"), "/article": response(page, kind="text/html")}
        tool = fetch_from(site)
        result = await call(tool, url=f"http://127.0.0.1:{site.port}/")
        cut = await call(tool, url=f"http://127.0.0.1:{site.port}/", max_characters=100, start=10)

    assert tool.level is Level.SAFE
    assert isinstance(result.data, dict)
    assert isinstance(cut.data, dict)
    text = str(result.data.pop("text"))
    assert result.data == {"url": f"http://127.0.0.1:{site.port}/article", "title": "Новости дня"}
    assert sentence.strip() in text
    assert "Второй абзац" in text
    assert "Menu" not in text
    assert "hidden" not in text
    assert cut.data["text"] == text[10:110]
    assert cut.data["cut"] == (
        f"This is from character 10 to 110 of {len(text)}. Call web_fetch again with start=110 to read on."
    )


async def test_other_texts_are_read_as_they_are() -> None:
    async with web_site() as site:
        site.pages = {
            "/a.json": response(b'{"a": "<b>"}', kind="application/vnd.x+json"),
            "/feed": response("<rss>ü</rss>".encode("latin-1"), kind="application/rss+xml; charset=ISO-8859-1"),
            "/b.txt": response("\ufeffüber".encode(), kind="text/markdown"),
        }
        tool = fetch_from(site)
        results = [await call(tool, url=f"http://127.0.0.1:{site.port}{path}") for path in site.pages]

    assert [result.data["text"] for result in results if isinstance(result.data, dict)] == [
        '{"a": "<b>"}',
        "<rss>ü</rss>",
        "über",
    ]


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("ä".encode(), None, "ä"),
        ("ä".encode("cp1252"), None, "ä"),
        ("ä".encode(), "no-such-charset", "ä"),
        (b"ab", "punycode", "ab"),
        (b"7869", "hex", "7869"),
        (b"a\x80", "ascii", "a€"),
        ("ä".encode("utf-16"), "utf-8", "ä"),
        (b"\xff\xfe\x00\xd8", None, "\ufffd"),
        ("ä".encode("utf-16-le"), "utf-16", "ä"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
    ],
)
def test_the_charset_is_the_one_that_browsers_take(body: bytes, charset: str | None, text: str) -> None:
    assert decoded(body, charset) == text


@pytest.mark.parametrize(
    "charset", ["utf-8", "utf-16-le", "utf-16-be", "gb18030", "shift_jis", "iso-2022-jp", "cp1251"]
)
def test_characters_across_the_pieces_of_a_large_text_are_kept(charset: str) -> None:
    letter = {"gb18030": "😀", "shift_jis": "日", "iso-2022-jp": "日", "cp1251": "я"}.get(charset, "😀")
    text = "x" + letter * PIECE_BYTES
    body = text.encode(charset)
    assert len(body) > PIECE_BYTES

    assert decoded(body, charset) == text
    assert decoded(body[:-1] + b"\xff", charset) == (body[:-1] + b"\xff").decode(charset, errors="replace")


def test_nonsense_at_the_end_of_a_piece_is_replaced() -> None:
    begin = b"x" * (PIECE_BYTES - 10)

    assert decoded(begin + b"\x1b$\x1b+\x0e\xb4\x0fr\xcf\x0frend", "iso-2022-jp") == f"{begin.decode()}\ufffdrend"


@pytest.mark.req("AGT-02.4")
async def test_others_are_served_while_a_page_is_decoded() -> None:
    seen: list[int] = []
    body = b"\x00\xd8" * PIECE_BYTES  # lone surrogates: each is an error

    async def serve() -> None:
        while True:
            seen.append(1)
            await asyncio.sleep(0)

    serving = asyncio.create_task(serve())
    read = await PageReader().read(WebPage("http://127.0.0.1/", "text/plain", "utf-16-le", body))
    serving.cancel()

    assert read.text == "\ufffd" * PIECE_BYTES
    assert seen


@pytest.mark.req("AGT-02.1")
async def test_a_page_made_to_crash_a_parser_is_read_or_refused() -> None:
    deep = b"<html><title>Deep</title><p>Begin</p>" + b"<div>" * 200_000 + b"<p>End</p>"
    many = b"<html><title>Many</title>" + b"<p>x" * 100_000
    async with web_site() as site:
        site.pages = {"/deep": response(deep, kind="text/html"), "/many": response(many, kind="text/html")}
        site.pages["/empty"] = response(b"", kind="text/html")
        tool = fetch_from(site)
        results = [await call(tool, url=f"http://127.0.0.1:{site.port}{path}") for path in ("/deep", "/many", "/empty")]
        slow = await call(fetch_from(site, reader=PageReader(0.001)), url=f"http://127.0.0.1:{site.port}/many")

    data = [result.data for result in results if isinstance(result.data, dict)]
    assert [page["title"] for page in data] == ["Deep", "Many", ""]
    assert (data[0]["text"], str(data[1]["text"])[:5], data[2]["text"]) == ("Begin", "x\nx\nx", "")
    length = int(str(data[1]["cut"]).split("of ")[1].split(".")[0])
    assert 90_000 < length < 100_000  # of its first 50,000 elements
    assert slow.error == (f"The text of http://127.0.0.1:{site.port}/many could not be extracted in 0.001 seconds.")


@pytest.mark.req("AGT-02.4")
async def test_an_agent_gets_no_page_of_this_machine() -> None:
    async with web_site() as site:
        for url in (f"http://127.0.0.1:{site.port}/", f"http://localhost:{site.port}/", "http://169.254.169.254/"):
            result = await call(WebFetch(WebClient(WebRules(ports=[80, site.port]))), url=url)
            assert "not of the public internet" in str(result.error)

    assert site.accepted == 0


@pytest.mark.req("AGT-02.11", "AGT-02.2")
async def test_a_searxng_server_is_asked_if_there_is_one() -> None:
    found: list[dict[str, Any]] = [
        {"title": f"Title {n}", "url": f"https://example.com/{n}", "content": "About\nit. " * 100} for n in range(9)
    ]
    found[1:1] = [{"title": "Twice", "url": "https://example.com/0"}, {"url": "javascript:x"}, {}, {"url": 5}]
    async with web_site() as site:
        site.pages["/searx/search?q=two+w%C3%B6rds&format=json"] = response(
            json.dumps({"results": found}).encode(), kind="application/json"
        )
        tool = WebSearch(f"http://127.0.0.1:{site.port}/searx/")
        usual = await call(tool, query=" two \n wörds ")
        two = await call(tool, query="two wörds", max_results=2)
        refused = [await call(tool, **arguments) for arguments in ({"query": "a", "max_results": 21}, {"query": " "})]

    assert isinstance(usual.data, list)
    assert isinstance(two.data, list)
    assert [hit["url"] for hit in usual.data if isinstance(hit, dict)] == [f"https://example.com/{n}" for n in range(5)]
    assert two.data == usual.data[:2]
    first = usual.data[0]
    assert isinstance(first, dict)
    assert (first["title"], str(first["snippet"])[:12]) == ("Title 0", "About it. Ab")
    assert len(str(first["snippet"])) == 500
    assert [result.success for result in refused] == [False, False]
    assert parse_qs(urlsplit(site.requests[0].split()[1]).query)["q"] == ["two wörds"]


async def test_a_searxng_server_that_fails_is_named_with_what_to_do() -> None:
    replies = {
        "403": response(status="403 Forbidden"),
        "HTML": response(b"<html>", kind="text/html"),
        "list": response(b"[]", kind="application/json"),
        "elsewhere": redirect("http://127.0.0.1:1/"),
    }
    errors = {}
    async with web_site() as site:
        for name, reply in replies.items():
            site.pages["/search?q=a&format=json"] = reply
            errors[name] = (await call(WebSearch(f"http://127.0.0.1:{site.port}"), query="a")).error

    assert "403 Forbidden" in str(errors["403"])
    assert "search.formats" in str(errors["403"])
    assert "does not answer in JSON" in str(errors["HTML"])
    assert errors["list"] is None
    assert "redirects to another address" in str(errors["elsewhere"])


@pytest.mark.parametrize("url", ["searx.example", "ftp://searx.example", "http://a:b@searx.example", ""])
def test_a_search_server_must_have_a_usable_url(url: str) -> None:
    with pytest.raises(ValueError, match="SearXNG"):
        Searxng(url)


@pytest.mark.req("AGT-02.11")
async def test_ddgs_searches_without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from ddgs.base import BaseSearchEngine
    from ddgs.engines import ENGINES
    from ddgs.results import TextResult

    class Local(BaseSearchEngine[TextResult]):
        """An engine whose pages lie on this machine."""

        name, category, provider, search_method = "local", "text", "local", "GET"
        items_xpath, elements_xpath = "//li", {"title": ".//b/text()", "href": ".//a/@href", "body": ".//p/text()"}

        def build_payload(self, query: str, *_rest: Any, **_more: Any) -> dict[str, Any]:
            return {"q": query}

    async with web_site() as site:
        page = '<li><b>Found</b><a href="https://example.com/a">x</a><p>Some text.</p></li>'
        site.pages["/?q=words"] = response(f"<ul>{page}</ul>".encode(), kind="text/html")
        site.pages["/?q=none"] = response(b"<ul></ul>", kind="text/html")
        Local.search_url = f"http://127.0.0.1:{site.port}/"
        monkeypatch.setitem(ENGINES, "text", {"local": Local})
        tool = WebSearch()
        found = await call(tool, query="words")
        nothing = await call(tool, query="none")
    failed = await call(tool, query="words")

    assert found.data == [{"title": "Found", "url": "https://example.com/a", "snippet": "Some text."}]
    assert (nothing.success, nothing.data) == (True, [])
    assert failed.error is not None
    assert failed.error.startswith("The web search failed: no engine could be reached, or all of them refuse.")
    assert "searxng_url" in failed.error


async def test_a_search_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.tools.search_engines.SEARCH_SECONDS", 0.01)
    engine, given_up = Ddgs(), threading.Event()
    monkeypatch.setattr(engine, "_search", lambda *_: given_up.wait(30))

    failed = await call(WebSearch(engine=engine), query="words")
    given_up.set()
    await engine.close()

    assert "no engine answered within 0.01 seconds" in str(failed.error)


async def test_a_user_with_many_slow_searches_does_not_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, go_on = Ddgs(), threading.Event()
    monkeypatch.setattr(engine, "_search", lambda query, _most: go_on.wait(30) and [] if query == "slow" else [])
    slow = [asyncio.create_task(call(WebSearch(engine=engine, user_id=1), query="slow")) for _ in range(20)]
    await asyncio.sleep(0)  # they wait before the other one begins

    assert (await call(WebSearch(engine=engine, user_id=2), query="words")).data == []
    assert not any(task.done() for task in slow)
    go_on.set()
    assert [result.data for result in await asyncio.gather(*slow)] == [[]] * 20
    await engine.close()


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("web_denied_hosts", ["10.0.0.1/8"], "'10.0.0.1/8' is not a network"),
        ("web_allowed_hosts", ["https://example.com"], "is not a host: write a name or a glob"),
        ("web_private_hosts", ["*.example.com"], "is not a host: write a name, maybe with a port"),
        ("web_ports", [0], "0 is not a port"),
        ("searxng_url", "searx.example", "is not the URL of a SearXNG server"),
    ],
)
def test_a_setting_that_can_not_be_used_is_named(tmp_path: Path, field: str, value: object, reason: str) -> None:
    with pytest.raises(ConfigurationInvalid) as invalid:
        load_settings(data_dir=tmp_path, **{field: value})

    assert invalid.value.detail.startswith(f"{field} (ARTEL_{field.upper()}): ")
    assert reason in invalid.value.detail
