"""Which web addresses may be fetched: the syntax of URLs, names of hosts, and addresses of the public internet."""

import ipaddress
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import quote, urljoin

MAX_URL_CHARACTERS = 4_000
MAX_HOST_CHARACTERS = 253
MAX_RULES = 1_000
DEFAULT_PORTS = {"http": 80, "https": 443}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Of IPv4, what is not the public internet: the blocks of IANA's special-purpose registry that are not globally
# reachable, and multicast. All of 192.0.0.0/24 and of the former 6to4 relays: no web server is there.
_RESERVED_V4 = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, with the metadata services of clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # former 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
# Of IPv6, only global unicast addresses are public (so not ::1, IPv4 as ::ffff:0:0/96 or ::/96, fc00::/7, fe80::/10,
# fec0::/10, ff00::/8, 64:ff9b:1::/48), without the special blocks in them.
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_RESERVED_V6 = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, with Teredo (2001::/32), benchmarks and ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which contains an IPv4 address
        "3fff::/20",  # documentation
    )
)
# What a network with only IPv6 uses for public IPv4 addresses, which are the last 32 bits.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Services for virtual machines that give credentials to whoever asks; some have addresses that look public or private.
_METADATA = frozenset(
    ipaddress.ip_address(address)
    for address in (
        "100.100.100.200",
        "168.63.129.16",
        "169.254.169.254",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
    )
)
# What a host may have that the operator names as private.
_PRIVATE = tuple(
    ipaddress.ip_network(block)
    for block in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "::1/128",
        "fc00::/7",
    )
)

# Endings of names that only mean something inside a network.
_LOCAL_NAMES = (
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "lan",
    "home",
    "home.arpa",
    "corp",
    "private",
    "onion",
)
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[^\[\]:@%]{1,300})(?::(?P<port>[0-9]{1,5}))?")
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?){0,126}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_GLOB = re.compile(r"[a-z0-9_.*?-]{1,253}")
_DOTS = "\u3002\uff0e\uff61"  # other characters that programs take for a dot
_DEVIATIONS = "\u00df\u03c2"  # letters that two versions of IDNA translate differently
# What may stand in a path and query as it is; everything else is percent-encoded.
_SAFE = "%/?:@!$&'()*+,;=~-._[]"


class WebRefused(Exception):
    """A URL, host or address may not be fetched; the message is for the model and says why."""


@dataclass(frozen=True, slots=True)
class WebTarget:
    """What a URL names: scheme, host in ASCII and lower case, port, path with query. Never credentials."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def address(self) -> Address | None:
        """The address, if the host is one and not a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def authority(self) -> str:
        """Host and port as in the URL, without the port if it is the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL in canonical form."""
        return f"{self.scheme}://{self.authority}{self.path}"

    def redirected(self, location: str) -> "WebTarget":
        """Return the target of a redirect, which may be relative; raise WebRefused."""
        _require_plain(location)
        try:
            return parse_url(urljoin(self.url, location))
        except ValueError:
            raise WebRefused(f"It redirects to {location[:200]!r}, which is not a valid URL.") from None


def parse_url(text: str) -> WebTarget:
    """Parse a URL strictly: what programs understand in different ways is refused with WebRefused."""
    url = text.strip(" \t\r\n")
    if len(url) > MAX_URL_CHARACTERS:
        raise WebRefused(f"The URL is longer than {MAX_URL_CHARACTERS} characters.")
    _require_plain(url)
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in DEFAULT_PORTS:
        raise WebRefused("Only URLs that begin with http:// or https:// can be fetched.")
    end = min((found for mark in "/?#" if (found := rest.find(mark)) >= 0), default=len(rest))
    host, port = _parse_authority(rest[:end])
    path = rest[end:].partition("#")[0]
    path = quote(path if path.startswith("/") else f"/{path}", safe=_SAFE)
    return WebTarget(scheme, host, port or DEFAULT_PORTS[scheme], path)


def is_public(address: Address) -> bool:
    """Return whether an address belongs to the public internet."""
    if address in _METADATA:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in block for block in _RESERVED_V4)
    if address.scope_id is not None:
        return False
    if address in _NAT64:
        return all(is_public(part) for part in _parts(address)[1:])
    return address in _GLOBAL_V6 and not any(address in block for block in _RESERVED_V6)


def is_this_machine(host: str) -> bool:
    """Return whether a host is `localhost` or a loopback address; names such as `127.example.com` are not."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


class WebRules:
    """What an operator allows: hosts by glob, ports, and hosts that may have private addresses."""

    def __init__(
        self,
        *,
        allowed_hosts: Sequence[str] = ("*",),
        denied_hosts: Sequence[str] = (),
        private_hosts: Sequence[str] = (),
        ports: Iterable[int] = tuple(DEFAULT_PORTS.values()),
    ) -> None:
        """`denied_hosts` are globs or networks such as 203.0.113.0/24, `private_hosts` names, maybe with a port.

        Raise ValueError for one that can't be used.
        """
        self._ports = frozenset(ports)
        self._allowed = tuple(_checked_glob(host) for host in _bounded(allowed_hosts))
        self._private = frozenset(_checked_host(host) for host in _bounded(private_hosts))
        self._denied_networks = tuple(_checked_network(host) for host in _bounded(denied_hosts) if "/" in host)
        self._denied = tuple(_checked_glob(host) for host in denied_hosts if "/" not in host)

    def check_target(self, target: WebTarget) -> None:
        """Raise WebRefused if the host or the port is not allowed, whatever its address is."""
        host = target.host
        if _matches(host, self._denied):
            raise WebRefused(f"{host} is blocked by the operator of this server.")
        if self.is_private(target):
            return
        if target.port not in self._ports:
            ports = ", ".join(str(port) for port in sorted(self._ports))
            raise WebRefused(f"Port {target.port} can't be used. Ports that can: {ports}.")
        if not _matches(host, self._allowed):
            raise WebRefused(f"{host} is not among the hosts that the operator of this server allows.")
        if target.address is None and _is_local_name(host):
            raise self.not_public(target)

    def check_addresses(self, target: WebTarget, addresses: Sequence[Address]) -> None:
        """Raise WebRefused unless there are addresses and each of them is allowed for the target."""
        is_private = self.is_private(target)
        for address in addresses:
            is_allowed = is_public(address) or (is_private and _is_private_address(address))
            if not is_allowed or any(part in network for part in _parts(address) for network in self._denied_networks):
                raise self.not_public(target)
        if not addresses:
            raise self.not_public(target)

    @staticmethod
    def not_public(target: WebTarget) -> WebRefused:
        """Return the refusal of a host; the same if it does not exist, so that nobody can list a network's names."""
        return WebRefused(
            f"{target.host} can't be fetched: it does not exist, or it has an address that is not of the public "
            "internet. Addresses of this machine and its network are never fetched."
        )

    def is_private(self, target: WebTarget) -> bool:
        """Return whether the operator allows private addresses for the host of a target."""
        return (target.host, target.port) in self._private or (
            (target.host, None) in self._private and target.port in self._ports
        )


def _require_plain(url: str) -> None:
    if "\\" in url or any(unicodedata.category(character)[0] in "CZ" for character in url):
        raise WebRefused(
            "The URL contains a backslash, a space or an invisible character. Write it percent-encoded, as in %20."
        )


def _parse_authority(authority: str) -> tuple[str, int | None]:
    """Return the host in canonical form, and the port if there is one; raise WebRefused."""
    if "@" in authority:
        raise WebRefused("The URL contains a user name or password before the host. Leave it out.")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise WebRefused(f"{authority[:100]!r} is not a host, or a host with a port.")
    host, port = found["host"], found["port"]
    if port is not None and not 0 < int(port) <= 65_535:  # noqa: PLR2004 - the highest port
        raise WebRefused(f"{port} is not a port.")
    return _parse_host(host), None if port is None else int(port)


def _parse_host(host: str) -> str:
    try:
        if host.startswith("["):
            return str(ipaddress.IPv6Address(host[1:-1]))
        name = (host if host.isascii() else _to_ascii(host)).lower().removesuffix(".")
        if not _NAME.fullmatch(name) or len(name) > MAX_HOST_CHARACTERS:
            raise WebRefused(f"{host[:100]!r} is not a host name.")
        if _NUMBER.fullmatch(name.rpartition(".")[2]):
            return str(ipaddress.IPv4Address(name))
    except ValueError:  # also UnicodeError
        raise WebRefused(
            f"{host[:100]!r} is not a host. Write IPv4 addresses as four decimal numbers, and other names in ASCII "
            "(xn--…) if they don't work."
        ) from None
    return name


def _to_ascii(host: str) -> str:
    """Return an international name in ASCII; raise ValueError for one that only imitates another."""
    is_imitation = unicodedata.normalize("NFKC", host).isascii()
    if is_imitation or any(character in host for character in _DOTS + _DEVIATIONS):
        raise ValueError(host)
    return host.encode("idna").decode("ascii")


def _parts(address: Address) -> list[Address]:
    """Return an address, and the IPv4 address that it contains if it is one of NAT64."""
    return [address, ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)] if address in _NAT64 else [address]


def _is_local_name(host: str) -> bool:
    return "." not in host or any(host.endswith(f".{ending}") for ending in _LOCAL_NAMES)


def _is_private_address(address: Address) -> bool:
    return address not in _METADATA and any(address in block for block in _PRIVATE)


def _matches(host: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(host, glob) for glob in globs)


def _bounded(rules: Sequence[str]) -> Sequence[str]:
    if len(rules) > MAX_RULES:
        raise ValueError(f"more than {MAX_RULES} hosts")
    return rules


def _checked_glob(glob: str) -> str:
    glob = glob.lower().removeprefix("[").removesuffix("]")
    try:
        return str(ipaddress.IPv6Address(glob))
    except ValueError:
        if not _GLOB.fullmatch(glob):
            raise ValueError(
                f"{glob[:100]!r} is not a host: write a name or a glob such as *.example.com, without a port"
            ) from None
    return glob


def _checked_network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as invalid:
        raise ValueError(f"{text[:100]!r} is not a network: {invalid}") from None


def _checked_host(text: str) -> tuple[str, int | None]:
    try:
        return _parse_authority(text)
    except WebRefused:
        raise ValueError(
            f"{text[:100]!r} is not a host: write a name, maybe with a port, as in wiki.local:8080"
        ) from None
