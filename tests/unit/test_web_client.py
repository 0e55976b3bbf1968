"""web_fetch against hostile URLs, redirects, name servers and web servers."""

import asyncio
import contextlib
import datetime
import gzip
import ipaddress
import os
import socket
import ssl
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from artel.tools.http_response import BodyDecoder, WebFailed
from artel.tools.web_client import WebClient, WebLimits, _look_up
from artel.web_address import WebRefused, WebRules
from tests.web_site import Internet, Site, internet, redirect, response, web_site

__all__ = ["internet"]
pytestmark = pytest.mark.anyio

SITE = "93.184.216.34"
# On a slow machine, too, the tests see what they are about.
PATIENT = WebLimits(seconds=120, idle_seconds=120, lookup_seconds=120, connect_seconds=120)

# URLs that lead to this machine, its network or a metadata service; {port} is that of a server on this machine. All
# names in them have the address 127.0.0.1.
HOSTILE = r"""
http://127.0.0.1/
http://127.0.0.1:{port}/
https://127.0.0.1:{port}/
http://127.0.0.1:{port}/?x=http://example.com/
http://127.1:{port}/
http://127.0.1:{port}/
http://127.127.127.127:{port}/
http://127.0.0.1.:{port}/
http://127.0.0.1..:{port}/
http://127.0.0.1:0{port}/
http://0:{port}/
http://0/
http://0.0.0.0:{port}/
http://0.0.0.0/
http://00000000000:{port}/
http://2130706433:{port}/
http://2130706433./
http://4294967296/
http://017700000001:{port}/
http://0x7f000001:{port}/
http://0X7F000001:{port}/
http://0x7f.0.0.1:{port}/
http://0x7f.0x0.0x0.0x1:{port}/
http://0177.0.0.1:{port}/
http://0177.0.0.01:{port}/
http://127.000.000.001:{port}/
http://0x7f.1:{port}/
http://0x/
http://1.2.3.0x7f/
http://localhost/
http://localhost:{port}/
http://LOCALHOST:{port}/
http://LocalHost.:{port}/
http://localhost.localdomain:{port}/
http://foo.localhost:{port}/
http://ip6-localhost:{port}/
http://localhost%00.example.com:{port}/
http://local%68ost:{port}/
http://%6c%6f%63%61%6c%68%6f%73%74:{port}/
http://127.0.0.1%2f@example.com/
http://127%2e0%2e0%2e1:{port}/
http://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460:{port}/
http://\uff11\uff12\uff17.0.0.1:{port}/
http://127\u30020\u30020\u30021:{port}/
http://127\uff0e0\uff0e0\uff0e1:{port}/
http://127\uff610\uff610\uff611:{port}/
http://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3:{port}/
http://loc\u00adalhost:{port}/
http://local\u200bhost:{port}/
http://\uff4cocalhost:{port}/
http://loca\u217chost:{port}/
http://\u00df.example:{port}/
http://[::1]:{port}/
http://[::1]/
http://[0:0:0:0:0:0:0:1]:{port}/
http://[0000::0001]:{port}/
http://[::]:{port}/
http://[::ffff:127.0.0.1]:{port}/
http://[::ffff:7f00:1]:{port}/
http://[::FFFF:127.0.0.1]:{port}/
http://[::127.0.0.1]:{port}/
http://[0:0:0:0:0:ffff:127.0.0.1]:{port}/
http://[::ffff:0:127.0.0.1]:{port}/
http://[64:ff9b::127.0.0.1]:{port}/
http://[64:ff9b::7f00:1]:{port}/
http://[64:ff9b::a9fe:a9fe]/
http://[64:ff9b:1::127.0.0.1]:{port}/
http://[2002:7f00:1::]:{port}/
http://[2002:a9fe:a9fe::1]/
http://[2001:0:7f00:1::]/
http://[2001::80ff:fffe]/
http://[fe80::1]:{port}/
http://[fe80::1%25lo]:{port}/
http://[fe80::1%lo]:{port}/
http://[::1%25lo]:{port}/
http://[fec0::1]/
http://[fc00::1]/
http://[fd00:ec2::254]/latest/meta-data/
http://[fd20:ce::254]/
http://[ff02::1]/
http://[2001:db8::1]/
http://[3fff::1]/
http://[100::1]/
http://[5f00::1]/
http://[v1.fe80::1]/
http://[127.0.0.1]:{port}/
http://[::1/
http://::1:{port}/
http://[]/
http://169.254.169.254/latest/meta-data/
http://169.254.169.254./
http://169.254.43518/
http://2852039166/
http://0xa9fea9fe/
http://0251.0376.0251.0376/
http://[::ffff:169.254.169.254]/
http://metadata.google.internal/computeMetadata/v1/
http://metadata/
http://100.100.100.200/latest/meta-data/
http://192.0.0.192/opc/v1/instance/
http://168.63.129.16/machine
http://169.254.170.2/v2/credentials
http://10.0.0.1/
http://10.255.255.255/
http://172.16.0.1/
http://172.31.255.254/
http://192.168.0.1/
http://192.168.65.2/
http://100.64.0.1/
http://100.127.255.255/
http://198.18.0.1/
http://198.19.255.255/
http://192.0.2.1/
http://198.51.100.1/
http://203.0.113.1/
http://192.88.99.1/
http://224.0.0.1/
http://239.255.255.250:{port}/
http://240.0.0.1/
http://255.255.255.255/
http://router.local/
http://printer.lan/
http://wiki.corp/
http://nas.home/
http://vault.internal:{port}/
http://intranet:{port}/
http://example.onion/
http://localtest.example:{port}/
http://127.0.0.1.nip.example:{port}/
http://user:password@127.0.0.1:{port}/
http://example.com@127.0.0.1:{port}/
http://example.com:80@127.0.0.1:{port}/
http://127.0.0.1:{port}@example.com/
http://example.com%40127.0.0.1:{port}/
http://example.com#@127.0.0.1:{port}/
http://127.0.0.1:{port}#@example.com/
http://127.0.0.1:{port}?@example.com/
http://127.0.0.1:{port}\\@example.com/
http://example.com\\@127.0.0.1:{port}/
http:\\\\127.0.0.1:{port}\\
http:/127.0.0.1:{port}/
http:127.0.0.1:{port}/
http:///127.0.0.1:{port}/
http:////127.0.0.1:{port}/
//127.0.0.1:{port}/
127.0.0.1:{port}
http://127.0.0.1:{port}:80/
http://127.0.0.1:80:{port}/
http://127.0.0.1 :{port}/
http://127.0.0.1\t:{port}/
http://127.0.0.1\r\nHost: example.com:{port}/
http://127.0.0.1:{port}/\r\nX-Injected: yes
http://localhost\r:{port}/
http://example.com\x00.127.0.0.1:{port}/
http://127.0.0.1:{port}\u2028/
http://127.0.0.1:22/
http://127.0.0.1:6379/
http://example.com:22/
http://example.com:25/
http://example.com:0/
http://example.com:65536/
http://example.com:99999999999/
http://example.com:-80/
http://example.com:+80/
http://example.com:8_0/
http://example.com:\uff18\uff10/
file:///etc/passwd
file://127.0.0.1/etc/passwd
ftp://127.0.0.1:{port}/
gopher://127.0.0.1:{port}/_GET
dict://127.0.0.1:{port}/
ldap://127.0.0.1:{port}/
ws://127.0.0.1:{port}/
unix:///var/run/docker.sock
http+unix://%2Fvar%2Frun%2Fdocker.sock/
jar:http://127.0.0.1:{port}!/
data:text/html,hello
javascript:fetch('http://127.0.0.1:{port}')
view-source:http://127.0.0.1:{port}/
http://
http://.
http://..
http://./
http://-/
http://a..b:{port}/
http://-a.example:{port}/
"""


def hostile_urls(port: int) -> list[str]:
    lines = HOSTILE.strip("\n").split("\n")
    return [line.encode().decode("unicode_escape").format(port=port) for line in lines]


async def always_this_machine(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.mark.req("AGT-02.1", "AGT-02.4")
async def test_no_hostile_url_makes_a_connection(internet: Internet) -> None:
    async with web_site() as here, web_site("::1") as here6:
        accepted = []
        for site in (here, here6):
            internet.add("127.0.0.1", here)
            internet.add("::1", here6)
            urls = hostile_urls(site.port)
            client = WebClient(WebRules(ports=(80, 443, site.port)), resolve=always_this_machine)
            for url in urls:
                try:
                    await client.fetch(url)
                except WebRefused:
                    continue
                accepted.append(url)

    assert len(set(urls)) >= 150
    assert accepted == []
    assert internet.dialled == []
    assert (here.accepted, here6.accepted) == (0, 0)


async def test_the_systems_resolver_leads_to_no_connection_either(internet: Internet) -> None:
    async with web_site() as here:
        internet.add("127.0.0.1", here)
        client = WebClient(WebRules(ports=(80, here.port)))
        for host in ("localhost", "127.1", "2130706433", "0x7f.1", socket.gethostname().split(".")[0]):
            with pytest.raises(WebRefused):
                await client.fetch(f"http://{host}:{here.port}/")
        # A name that the resolver itself understands as an address, should the rules let it pass.
        found = await client._lookups.run(0, _look_up, "2130706433", 80)
        await client.close()

    assert found == ["127.0.0.1"]
    assert here.accepted == 0


@asynccontextmanager
async def public_site(internet: Internet, *names: str) -> AsyncIterator[Site]:
    """A site at a public address."""
    async with web_site() as site:
        internet.add(SITE, site, "site.example", *names)
        yield site


def public_client(internet: Internet, **limits: float) -> WebClient:
    return WebClient(limits=replace(PATIENT, **limits), resolve=internet.resolve)  # type: ignore[arg-type]


async def failure(client: WebClient, url: str = "http://site.example/") -> str:
    with pytest.raises((WebFailed, WebRefused)) as failed:
        await client.fetch(url)
    return str(failed.value)


@pytest.mark.req("AGT-02.1")
async def test_a_page_is_fetched_without_cookies_credentials_and_proxies(
    internet: Internet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            monkeypatch.setenv(variable, "http://127.0.0.1:1/")
    async with public_site(internet) as site:
        site.pages["/a?b=%C3%A4"] = response("grüß".encode(), Set_Cookie="a=b", kind="Text/Plain; charset=UTF-8")
        client = public_client(internet)
        pages = [await client.fetch("http://site.example/a?b=ä#part") for _ in range(2)]

    assert {page.url for page in pages} == {"http://site.example/a?b=%C3%A4"}
    assert (pages[1].content_type, pages[1].charset, pages[1].body.decode()) == ("text/plain", "UTF-8", "grüß")
    assert internet.dialled == [SITE, SITE]
    first, second = site.requests
    assert first == second
    assert first.startswith("GET /a?b=%C3%A4 HTTP/1.1\r\nHost: site.example\r\n")
    names = {line.partition(":")[0].lower() for line in first.strip().split("\r\n")[1:]}
    assert names == {"host", "user-agent", "accept", "accept-encoding", "connection"}


REDIRECTS = [
    "http://127.0.0.1/",
    "http://127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    "//2130706433/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://169.254.169.254/latest/meta-data/",
    "http://localhost/",
    "http://rebound.example/",
    "http://site.example@127.0.0.1/",
    "http://127.0.0.1\\@site.example/",
    "\\\\127.0.0.1\\",
    "/\\127.0.0.1/",
    "http:\\\\127.0.0.1/",
    "https://10.0.0.1/",
    "http://site.example:22/",
    "file:///etc/passwd",
    "gopher://127.0.0.1/",
    "javascript:alert(1)",
    "data:text/plain,hello",
    "http://[::1",
    "http://192.168.0.1/\tx",
    "http://metadata.google.internal/",
]


@pytest.mark.req("AGT-02.1", "AGT-02.4")
@pytest.mark.parametrize("hops", [1, 2, 5])
async def test_no_redirect_leads_to_this_machine_or_its_network(internet: Internet, hops: int) -> None:
    async with public_site(internet) as site, web_site() as here:
        internet.add("127.0.0.1", here, "rebound.example")
        client = public_client(internet)
        for location in REDIRECTS:
            for hop in range(1, hops):
                site.pages[f"/{hop}"] = redirect(f"/{hop + 1}", "301 Moved Permanently")
            site.pages[f"/{hops}"] = redirect(location.format(port=here.port))
            assert "redirects to" in await failure(client, "http://site.example/1"), location

    assert set(internet.dialled) == {SITE}
    assert (here.accepted, site.accepted) == (0, hops * len(REDIRECTS))


@pytest.mark.req("AGT-02.1")
async def test_changing_answers_of_a_name_server_lead_nowhere(internet: Internet) -> None:
    async with public_site(internet) as site, web_site() as here:
        internet.add("127.0.0.1", here)
        site.pages["/"] = redirect("/again")
        site.pages["/again"] = response(b"never")
        client = public_client(internet)
        internet.names["site.example"] = [[SITE], ["127.0.0.1"]]
        redirected = await failure(client)
        internet.names["site.example"] = [["203.0.114.9"], ["127.0.0.1"]]
        unreachable = await failure(client)
        internet.names["site.example"] = [[SITE, "127.0.0.1"]]
        mixed = await failure(client)
        internet.names["site.example"] = [["::ffff:127.0.0.1"], ["fe80::1%1"], ["0.0.0.0"]]  # noqa: S104
        odd = [await failure(client) for _ in range(3)]

    assert "redirects to another address" in redirected
    assert unreachable == "site.example can't be reached on port 80."
    assert all("not of the public internet" in text for text in (mixed, *odd))
    assert internet.dialled == [SITE, "203.0.114.9"]
    assert (site.requests[0].split()[1], site.accepted, here.accepted) == ("/", 1, 0)


@pytest.mark.req("AGT-02.1")
async def test_nothing_is_sent_over_a_connection_with_another_address(internet: Internet) -> None:
    async with web_site() as here:
        internet.add(SITE, here, "site.example", is_honest=False)

        assert "can't be reached" in await failure(public_client(internet))

    assert here.requests == []


@pytest.mark.req("AGT-02.1")
async def test_nothing_is_sent_to_this_machine_at_a_public_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.web_address.is_public", lambda _address: True)
    async with web_site() as here:
        failed = await failure(WebClient(WebRules(ports=[here.port])), f"http://127.0.0.1:{here.port}/")

    assert "can't be reached" in failed
    assert here.requests == []


@pytest.mark.req("AGT-02.1")
async def test_only_a_private_host_redirects_to_a_private_host(internet: Internet) -> None:
    async with public_site(internet) as site, web_site() as wiki:
        internet.add("10.0.0.1", wiki, "wiki", "files")
        site.pages["/"] = redirect("http://wiki/delete?page=1")
        wiki.pages |= {"/": redirect("//files/page"), "/page": response(b"internal")}
        client = WebClient(WebRules(private_hosts=["wiki", "files"]), resolve=internet.resolve)
        page = await client.fetch("http://wiki/")
        refused = await failure(client)

    assert (page.url, page.body) == ("http://files/page", b"internal")
    assert "Pages of the public internet can't redirect to wiki." in refused
    assert len(wiki.requests) == 2


async def test_the_next_address_is_tried_but_not_without_end(internet: Internet) -> None:
    async with public_site(internet) as site:
        site.pages["/"] = response(b"hello")
        dead = [f"203.0.114.{number}" for number in range(10)]
        internet.names["site.example"] = [[dead[0], SITE]]
        assert (await public_client(internet).fetch("http://site.example")).body == b"hello"
        internet.names["site.example"] = [[*dead, SITE]]
        assert "can't be reached" in await failure(public_client(internet))

    assert internet.dialled == [dead[0], SITE, *dead[:3]]


async def test_redirects_are_followed_up_to_a_limit(internet: Internet) -> None:
    async with public_site(internet, "www.site.example") as site:
        site.pages |= {f"/{number}": redirect(str(number + 1), "307 Temporary Redirect") for number in range(10)}
        site.pages["/5"] = redirect("//www.site.example/end%20?q=ü", "303 See Other")
        site.pages["/end%20?q=%C3%BC"] = response(b"arrived")
        site.pages["/loop"] = redirect("/back")
        site.pages["/back"] = redirect("/loop")
        client = public_client(internet)
        page = await client.fetch("http://site.example/1")
        too_many = await failure(client, "http://site.example/0")
        circle = await failure(client, "http://site.example/loop")

    assert (page.url, page.body) == ("http://www.site.example/end%20?q=%C3%BC", b"arrived")
    assert too_many == "http://site.example/0 redirects more than 5 times."
    assert circle == "http://site.example/loop redirects in a circle."


async def test_a_page_at_an_ipv6_address_is_fetched(internet: Internet) -> None:
    async with web_site("::1") as site:
        site.pages["/"] = response(b"six")
        internet.add("2606:4700::1111", site, "six.example")
        client = public_client(internet)
        by_name = await client.fetch("http://six.example/")
        by_address = await client.fetch("http://[2606:4700::1111]/")

    assert (by_name.body, by_address.body) == (b"six", b"six")
    assert "Host: [2606:4700::1111]\r\n" in site.requests[1]


def chunked(*pieces: bytes) -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))
    return response(Transfer_Encoding="chunked", Content_Length="") + chunks


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


async def test_ordinary_ways_to_send_a_page_are_understood(internet: Internet) -> None:
    text = b"hello " * 10_000
    async with public_site(internet) as site:
        site.pages = {
            "/plain": response(text),
            "/chunked": chunked(text[:7], text[7:]),
            "/until-closed": response(text, Content_Length=""),
            "/gzip": response(gzip.compress(text), Content_Encoding="gzip"),
            "/zlib": response(zlib.compress(text), Content_Encoding="Deflate"),
            "/raw": response(raw_deflate(text), Content_Encoding="deflate"),
            "/early-hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + response(text),
            "/two-responses": response(text) + response(b"not asked for", status="500 Internal Server Error"),
            "/http-1.0": response(text).replace(b"HTTP/1.1", b"HTTP/1.0", 1),
        }
        client = public_client(internet)
        bodies = {path: (await client.fetch(f"http://site.example{path}")).body for path in site.pages}

    assert bodies == dict.fromkeys(site.pages, text)


BOMB = b"\0" * 5_100_000

HOSTILE_REPLIES = {
    "longer than the limit": (response(BOMB), "larger than 5 MB"),
    "says that it is long": (response(b"x", Content_Length=str(10**12)), "larger than 5 MB"),
    "long until closed": (response(BOMB, Content_Length=""), "larger than 5 MB"),
    "long chunks": (chunked(BOMB[:3_000_000], BOMB[:3_000_000]), "larger than 5 MB"),
    "gzip bomb": (response(gzip.compress(BOMB), Content_Encoding="gzip"), "larger than 5 MB"),
    "zlib bomb": (response(zlib.compress(BOMB), Content_Encoding="deflate"), "larger than 5 MB"),
    "deflate bomb": (response(raw_deflate(BOMB), Content_Encoding="deflate"), "larger than 5 MB"),
    "chunked bomb": (
        chunked(gzip.compress(BOMB)).replace(b"Content-Type", b"Content-Encoding: gzip\r\nContent-Type", 1),
        "larger than 5 MB",
    ),
    "compressed twice": (response(b"x", Content_Encoding="gzip, gzip"), "not supported: 'gzip, gzip'"),
    "compressed with brotli": (response(b"x", Content_Encoding="br"), "not supported: 'br'"),
    "not gzip": (response(b"hello", Content_Encoding="gzip"), "damaged"),
    "gzip cut off": (response(gzip.compress(b"hello" * 99)[:-9], Content_Encoding="gzip"), "damaged"),
    "gzip and more": (response(gzip.compress(b"a") + gzip.compress(b"b"), Content_Encoding="gzip"), "damaged"),
    "shorter than it says": (response(b"hello", Content_Length="50"), "before the page was complete"),
    "chunks cut off": (chunked(b"hello")[:-9], "before the page was complete"),
    "two lengths": (response(b"hello").replace(b"Content-L", b"Content-Length: 3\r\nContent-L", 1), "not valid HTTP"),
    "length and chunks": (response(b"0\r\n\r\n", Transfer_Encoding="chunked"), "not valid HTTP"),
    "other transfer": (response(b"x", Transfer_Encoding="gzip", Content_Length=""), "not supported"),
    "HTTP/0.9": (b"<html>hello</html>", "not valid HTTP"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not valid HTTP"),
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n", "not valid HTTP"),
    "upgrade": (
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\nx",
        "not valid HTTP",
    ),
    "nothing": (b"", "without an answer"),
    "half a header": (b"HTTP/1.1 200 OK\r\nContent-Ty", "without an answer"),
    "a long header": (response(b"", X=("a" * 60_000)), "headers of the server's answer are too long"),
    "many headers": (response(b"", **{f"X{n}": "a" for n in range(200)}), "headers of the server's answer are too"),
    "many announcements": (b"HTTP/1.1 102 Processing\r\n\r\n" * 3_000, "headers of the server's answer are too long"),
    "PDF": (response(b"%PDF", kind="application/pdf"), "is a PDF document"),
    "image": (response(b"x", kind="image/png"), "is of the type 'image/png'"),
    "no type": (response(b"x", kind=""), "is without a type"),
    "missing": (response(b"x", status="404 Not Found"), "answers 404 Not Found."),
    "redirect without target": (response(b"x", status="302 Found"), "answers 302 Found."),
    "odd status": (response(b"x", status="799 Me"), "answers 799."),
}


@pytest.mark.req("AGT-02.1", "AGT-02.3")
@pytest.mark.parametrize("name", HOSTILE_REPLIES)
async def test_an_answer_that_is_hostile_or_useless_is_refused(internet: Internet, name: str) -> None:
    reply, reason = HOSTILE_REPLIES[name]
    async with public_site(internet) as site:
        site.pages["/"] = reply

        assert reason in await failure(public_client(internet))


@pytest.mark.req("AGT-02.1")
def test_a_compressed_page_never_takes_more_memory_than_the_limit() -> None:
    bomb = zlib.compress(b"\0" * 40_000_000, 1)
    tracemalloc.start()
    body = BodyDecoder("deflate", 1_000_000)
    with pytest.raises(WebFailed):
        body.add(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 5_000_000


async def drip(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while True:
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(0.01)


async def drip_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    await drip(writer)


async def drip_body(writer: asyncio.StreamWriter) -> None:
    writer.write(response(Content_Length=""))
    await drip(writer)


async def be_silent(_writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


@pytest.mark.req("AGT-02.1")
async def test_a_slow_server_can_not_hold_a_fetch(internet: Internet) -> None:
    async def never(_host: str, _port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with public_site(internet) as site:
        site.pages = {"/drip": drip_body, "/silent": be_silent, "/head": drip_head}
        dripping = [
            await failure(public_client(internet, seconds=0.2), f"http://site.example{path}")
            for path in ("/drip", "/head")
        ]
        silent = await failure(public_client(internet, idle_seconds=0.05), "http://site.example/silent")
    lost = await failure(WebClient(limits=replace(PATIENT, lookup_seconds=0.05), resolve=never))

    assert dripping == [f"http://site.example{path} was not fetched within 0.2 seconds." for path in ("/drip", "/head")]
    assert silent == "site.example sent nothing for 0.05 seconds."
    assert lost == "The name site.example could not be looked up in time."


async def test_a_user_with_many_slow_fetches_does_not_hold_up_others(internet: Internet) -> None:
    async with public_site(internet) as site:
        site.pages = {"/silent": be_silent, "/": response(b"hello")}
        client = public_client(internet)
        slow = [asyncio.create_task(client.fetch("http://site.example/silent", 1)) for _ in range(30)]
        while len(site.requests) < 4:  # noqa: ASYNC110 - the site has no event
            await asyncio.sleep(0.001)

        assert (await client.fetch("http://site.example/", 2)).body == b"hello"
        assert [request.split()[1] for request in site.requests] == ["/silent"] * 4 + ["/"]
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


def certificate_for(host: str, folder: Path) -> tuple[Path, Path]:
    """Write a certificate for a host that it signs itself, and its key; return the two files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    names = x509.SubjectAlternativeName([x509.DNSName(host), x509.IPAddress(ipaddress.ip_address("2606:4700::1111"))])
    builder = x509.CertificateBuilder().issuer_name(name).subject_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
    signed = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(signed.public_bytes(pem))
    encoded = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private.write_bytes(encoded)
    return certificate, private


@pytest.mark.req("AGT-02.1")
async def test_tls_is_verified_for_the_name_in_the_url(internet: Internet, tmp_path: Path) -> None:
    certificate, key = certificate_for("site.example", tmp_path)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    named: list[str | None] = []
    serving.sni_callback = lambda _socket, name, _context: named.append(name)
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with web_site(tls=serving) as site:
        site.pages["/"] = response(b"secret")
        internet.add(SITE, site, "site.example", "other.example")
        client = WebClient(limits=PATIENT, resolve=internet.resolve, tls=trusting)
        page = await client.fetch("https://site.example/")
        wrong_name = await failure(client, "https://other.example/")
        wrong_address = await failure(client, f"https://{SITE}/")
        untrusted = await failure(WebClient(limits=PATIENT, resolve=internet.resolve), "https://site.example/")
        plain = await failure(
            WebClient(WebRules(ports=[443]), limits=PATIENT, resolve=internet.resolve), "http://site.example:443/"
        )

    assert page.body == b"secret"
    assert named[:2] == ["site.example", "other.example"]
    assert len(site.requests) == 1
    assert "The certificate of other.example is not valid" in wrong_name
    assert "is not valid" in wrong_address
    assert "The certificate of site.example is not valid" in untrusted
    assert plain


async def test_lookups_that_hang_count_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[str] = []
    read_end, write_end = os.pipe()

    def hang(host: str, *_rest: object, **_more: object) -> list[object]:
        waiting.append(host)
        os.read(read_end, 1)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    client = WebClient(limits=replace(PATIENT, lookup_seconds=0.02))
    while len(waiting) < 4:
        await failure(client, "http://slow.example/")
    for _ in range(3):
        assert "could not be looked up in time" in await failure(client, "http://more.example/")
    while len(waiting) < 5:
        with pytest.raises(WebFailed):
            await client.fetch("http://other.example/", 2)
    assert waiting == ["slow.example"] * 4 + ["other.example"]
    os.write(write_end, b"12345")
    while client._lookups._slots.users:  # noqa: ASYNC110 - threads end when they do
        await asyncio.sleep(0.001)
    await client.close()
    os.close(read_end)
    os.close(write_end)
