"""Which URLs and addresses web_fetch accepts."""

import ipaddress
import random
import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from artel.web_address import Address, WebRefused, WebRules, is_public, parse_url
from tests.depth import by_depth

# IANA's registries of special-purpose addresses, and multicast: the blocks that are not globally reachable, or that
# contain other addresses.
NOT_PUBLIC = [
    ipaddress.ip_network(block)
    for block in [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "255.255.255.255/32",
        "::/128",
        "::1/128",
        "::/96",
        "::ffff:0:0/96",
        "64:ff9b:1::/48",
        "100::/64",
        "100:0:0:1::/64",
        "2001::/23",
        "2001::/32",
        "2001:2::/48",
        "2001:10::/28",
        "2001:20::/28",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
        "168.63.129.16/32",
    ]
]
V4 = [block for block in NOT_PUBLIC if block.version == 4]


def in_block(block: ipaddress.IPv4Network | ipaddress.IPv6Network) -> st.SearchStrategy[Address]:
    numbers = st.integers(int(block.network_address), int(block.broadcast_address))
    return numbers.map(ipaddress.IPv4Address if block.version == 4 else ipaddress.IPv6Address)


NON_PUBLIC = st.sampled_from(NOT_PUBLIC).flatmap(in_block)
NON_PUBLIC_V4 = st.sampled_from(V4).flatmap(in_block)
PUBLIC = (
    st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)
    | in_block(ipaddress.ip_network("2000::/3"))
    | in_block(ipaddress.ip_network("64:ff9b::/96"))
).filter(lambda address: not any(part in block for part in parts_of(address) for block in NOT_PUBLIC))


def parts_of(address: Address) -> Iterator[Address]:
    """Yield an address, and the IPv4 address in it if it is one of NAT64."""
    yield address
    if address in ipaddress.ip_network("64:ff9b::/96"):
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def check(url: str) -> None:
    """Raise WebRefused if a URL with an address is not fetched; no name of this test has a public address."""
    rules, target = WebRules(), parse_url(url)
    rules.check_target(target)
    rules.check_addresses(target, [target.address] if target.address else [ipaddress.IPv4Address("127.0.0.1")])


@pytest.mark.req("AGT-02.4")
@given(address=NON_PUBLIC)
@settings(max_examples=by_depth(150, 10_000))
def test_no_special_address_is_public(address: Address) -> None:
    assert not is_public(address)
    host = f"[{address}]" if address.version == 6 else str(address)
    with pytest.raises(WebRefused):
        check(f"http://{host}/")


@given(address=PUBLIC)
@example(ipaddress.ip_address("8.8.8.8"))
@example(ipaddress.ip_address("64:ff9b::808:808"))
@example(ipaddress.ip_address("2606:4700::1111"))
@example(ipaddress.ip_address("192.175.48.6"))
@settings(max_examples=by_depth(100, 10_000))
def test_every_other_address_is_public(address: Address) -> None:
    check(f"https://[{address}]/" if address.version == 6 else f"https://{address}/")
    assert all(part.is_global or part.version == 6 for part in parts_of(address))


# Other ways to write an IPv4 address, which some programs understand.
SPELLINGS: list[Callable[[ipaddress.IPv4Address], str]] = [
    lambda a: str(int(a)),
    lambda a: hex(int(a)),
    lambda a: f"0{int(a):o}",
    lambda a: ".".join(f"0x{byte:x}" for byte in a.packed),
    lambda a: ".".join(f"0{byte:o}" for byte in a.packed),
    lambda a: ".".join(f"{byte:03}" for byte in a.packed),
    lambda a: f"{a.packed[0]}.{int(a) & 0xFFFFFF}",
    lambda a: f"{a.packed[0]}.{a.packed[1]}.{int(a) & 0xFFFF}",
    lambda a: f"0x{a.packed[0]:X}.{a.packed[1]}.{int(a) & 0xFFFF}",
    lambda a: f"{a}.",
    lambda a: f"{a}..",
    lambda a: str(a).replace(".", "\u3002"),
    lambda a: str(a).replace(".", "\uff0e"),
    lambda a: str(a).translate({ord("0") + digit: 0xFF10 + digit for digit in range(10)}),
    lambda a: str(a).replace(".", "%2e"),
    lambda a: "".join(f"%{ord(character):02x}" for character in str(a)),
    lambda a: f"[::ffff:{a}]",
    lambda a: f"[::{a}]",
    lambda a: f"[::ffff:0:{a}]",
    lambda a: f"[64:ff9b::{a}]",
    lambda a: f"[64:ff9b:1::{a}]",
    lambda a: f"[2002:{a.packed[:2].hex()}:{a.packed[2:].hex()}::]",
    lambda a: f"[2001:0:{a.packed[:2].hex()}:{a.packed[2:].hex()}::]",
    lambda a: f"[2001::{ipaddress.IPv4Address(int(a) ^ 0xFFFFFFFF)}]",
    lambda a: f"{a}%00.example.com",
    lambda a: f"{a} .example.com",
    lambda a: f"example.com@{a}",
    lambda a: f"{a}\\@example.com",
    lambda a: f"{a}#@example.com",
    lambda a: f"{a}:80@example.com",
    lambda a: f"{a}:80:80",
]


@pytest.mark.req("AGT-02.4")
@given(address=NON_PUBLIC_V4, spelling=st.sampled_from(SPELLINGS))
@example(ipaddress.IPv4Address("127.0.0.1"), SPELLINGS[0])
@settings(max_examples=by_depth(200, 20_000))
def test_no_spelling_of_a_special_address_is_accepted(
    address: ipaddress.IPv4Address, spelling: Callable[[ipaddress.IPv4Address], str]
) -> None:
    with pytest.raises(WebRefused):
        check(f"http://{spelling(address)}/")


@given(text=st.text(max_size=60) | st.from_regex(r"https?://[0-9a-fx.:@%\[\]\\/#?-]{0,30}", fullmatch=True))
@settings(max_examples=by_depth(100, 20_000))
def test_any_text_is_refused_or_understood_in_one_way(text: str) -> None:
    try:
        target = parse_url(text)
    except WebRefused:
        return
    assert parse_url(target.url) == target
    assert re.fullmatch(r"https?://[a-z0-9_.:\[\]-]+/[\x21-\x7e]*", target.url)
    assert target.address is None or str(target.address) == target.host


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("HTTP://Example.COM", "http://example.com/"),
        (" https://example.com:443/a?b=c#d ", "https://example.com/a?b=c"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com./x", "http://example.com/x"),
        ("http://example.com?q=1", "http://example.com/?q=1"),
        ("http://example.com#part", "http://example.com/"),
        ("http://b\u00fccher.example/\u00e4?q=\u4f60", "http://xn--bcher-kva.example/%C3%A4?q=%E4%BD%A0"),
        ("http://\u4f8b\u3048.jp/", "http://xn--r8jz45g.jp/"),
        ("http://93.184.216.34/", "http://93.184.216.34/"),
        ("http://[2606:4700:0:0::1111]:80/", "http://[2606:4700::1111]/"),
        ('http://example.com/a"b<c>{d}', "http://example.com/a%22b%3Cc%3E%7Bd%7D"),
        ("http://example.com/%7Ea/../b", "http://example.com/%7Ea/../b"),
        ("http://a_b.example.com/@x:y", "http://a_b.example.com/@x:y"),
    ],
)
def test_an_ordinary_url_is_accepted(url: str, canonical: str) -> None:
    target = parse_url(url)

    assert target.url == canonical
    WebRules().check_target(target)


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/b", "http://example.com/b"),
        ("b?c", "http://example.com/a/b?c"),
        ("//other.example/x", "http://other.example/x"),
        ("https://other.example", "https://other.example/"),
        ("?q", "http://example.com/a/?q"),
    ],
)
def test_a_redirect_may_be_relative(location: str, target: str) -> None:
    assert parse_url("http://example.com/a/").redirected(location).url == target


def refusal(rules: WebRules, url: str, *addresses: str) -> str:
    """Return why a URL is refused, "" if it is allowed."""
    target = parse_url(url)
    try:
        rules.check_target(target)
        rules.check_addresses(target, [ipaddress.ip_address(address) for address in addresses])
    except WebRefused as refused:
        return str(refused)
    return ""


@pytest.mark.req("AGT-02.1")
def test_an_operator_can_allow_and_deny_hosts_and_networks() -> None:
    rules = WebRules(
        allowed_hosts=["example.com", "*.example.com"], denied_hosts=["bad.example.com", "8.8.4.0/24", "2606:4700::/32"]
    )

    assert refusal(rules, "http://example.com", "8.8.8.8") == ""
    assert refusal(rules, "http://a.b.example.com", "8.8.8.8") == ""
    assert "is blocked by the operator" in refusal(rules, "http://BAD.example.com.", "8.8.8.8")
    assert "not among the hosts" in refusal(rules, "http://example.org", "8.8.8.8")
    assert "not among the hosts" in refusal(rules, "http://notexample.com", "8.8.8.8")
    assert refusal(rules, "http://example.com", "8.8.8.8", "8.8.4.4")
    assert refusal(rules, "http://example.com", "2606:4700::1")
    assert refusal(rules, "http://example.com", "64:ff9b::8.8.8.8") == ""
    assert refusal(rules, "http://example.com", "64:ff9b::8.8.4.4")


def test_only_named_hosts_may_have_private_addresses_and_other_ports() -> None:
    rules = WebRules(private_hosts=["wiki", "Intranet.Example.com:8080", "[fd00::1]:81", "10.0.0.5"])

    for url, address in (
        ("http://wiki", "192.168.1.2"),
        ("http://intranet.example.com:8080", "10.1.1.1"),
        ("http://[fd00::1]:81", "fd00::1"),
        ("http://10.0.0.5", "10.0.0.5"),
        ("https://wiki", "127.0.0.1"),
    ):
        assert refusal(rules, url, address) == "", url
    for url, address in (
        ("http://wiki:8080", "192.168.1.2"),
        ("http://intranet.example.com", "10.1.1.1"),
        ("http://x.wiki.example", "192.168.1.2"),
        ("http://other.example.com:8080", "8.8.8.8"),
        ("http://[fd00::2]:81", "fd00::2"),
        ("http://10.0.0.6", "10.0.0.6"),
        # Never: metadata, link-local, unspecified, multicast.
        ("http://wiki", "169.254.169.254"),
        ("http://wiki", "fe80::1"),
        ("http://wiki", "0.0.0.0"),  # noqa: S104 - not to bind to
        ("http://wiki", "fd00:ec2::254"),
        ("http://wiki", "224.0.0.1"),
    ):
        assert refusal(rules, url, address), url


@pytest.mark.parametrize(
    ("field", "host"),
    [
        ("allowed_hosts", "http://example.com"),
        ("allowed_hosts", "example.com:80"),
        ("denied_hosts", "a b"),
        ("denied_hosts", "10.0.0.1/8"),
        ("denied_hosts", "example.com/x"),
        ("private_hosts", "*.example.com"),
        ("private_hosts", "http://wiki"),
        ("private_hosts", "wiki:99999"),
        ("private_hosts", "a@b"),
    ],
)
def test_a_rule_that_can_not_be_meant_is_refused(field: str, host: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        WebRules(**{field: [host]})  # type: ignore[arg-type]


def test_a_name_that_does_not_exist_and_a_private_one_are_refused_alike() -> None:
    assert refusal(WebRules(), "http://db.example.com") == refusal(WebRules(), "http://db.example.com", "10.0.0.1")


def test_every_spelling_is_different() -> None:
    address = ipaddress.IPv4Address(random.Random(1).getrandbits(32))
    assert len({spelling(address) for spelling in SPELLINGS}) == len(SPELLINGS)
