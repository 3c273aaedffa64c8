"""What is done to headers between the legs: framing, forwarding, fingerprints, allow-lists.

All pure. Names keep the case they came in, repeated headers stay repeated and in order.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2s
from http import HTTPStatus

from epochgate.core.http import Headers, fields, find, without
from epochgate.units import Place, UnixPath

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
# Made anew on each leg, or answered by this proxy itself.
_FRAMING = frozenset((b"content-length",))
_REQUEST_ONLY = frozenset((b"host", b"expect"))
_LOCATION = b"location"
_ANSWER_DROPS = HOP_BY_HOP | _FRAMING | {_LOCATION}  # which is put back
_REQUEST_DROPS = HOP_BY_HOP | _FRAMING | _REQUEST_ONLY
_FORWARDED = frozenset((b"forwarded", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"))

UNIX_PEER = "unix"  # a client on a Unix socket, which has no address

FINGERPRINT_BYTES = 16
CREDENTIAL_HEADERS = (b"x-api-key", b"api-key")
LOOPBACK_NAMES = frozenset((b"localhost", b"127.0.0.1", b"[::1]"))


def answer_headers(raw: Headers, localised: Callable[[bytes], bytes] | None = None) -> Headers:
    """The end-to-end headers of an upstream answer; `localised` says how its `Location` is told."""
    return _end_to_end(raw, _ANSWER_DROPS, localised)


def request_headers(raw: Headers) -> Headers:
    """The end-to-end headers of a client's request, less `Host`, `Expect` and framing."""
    return _end_to_end(raw, _REQUEST_DROPS)


def _end_to_end(
    raw: Headers, drops: frozenset[bytes], localised: Callable[[bytes], bytes] | None = None
) -> Headers:
    kept = []
    named: list[bytes] = []
    for pair in raw:
        name = pair[0].lower()
        if name not in drops:
            kept.append(pair)
        elif name == b"connection":
            named += (token.strip().lower() for token in pair[1].split(b","))
        elif name == _LOCATION:
            kept.append(pair if localised is None else (pair[0], localised(pair[1])))
    headers = tuple(kept)
    also = frozenset(named).difference((b"close", b"keep-alive", b""))
    return headers if not also else tuple(pair for pair in headers if pair[0].lower() not in also)


@dataclass(frozen=True, slots=True)
class Forwarding:
    """The `X-Forwarded-*` policy (W12): `trusted` peers keep theirs, everybody else gets the truth."""

    trusted: tuple[Network, ...] = ()
    trusts_unix: bool = False

    @classmethod
    def from_texts(cls, proxies: Iterable[str]) -> Forwarding:
        """`proxies` are addresses, networks, or `unix`; a bad one raises ValueError."""
        texts = set(proxies)
        networks = tuple(ipaddress.ip_network(text, strict=False) for text in texts - {UNIX_PEER})
        return cls(networks, UNIX_PEER in texts)

    def is_trusted(self, peer: str) -> bool:
        if peer == UNIX_PEER:
            return self.trusts_unix
        if not self.trusted or not peer:
            return False
        address = ipaddress.ip_address(peer.partition("%")[0])
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return any((mapped or address) in network for network in self.trusted)

    def apply(self, headers: Headers, peer: str, host: bytes, proto: bytes = b"http") -> Headers:
        """`headers` with the forwarding headers that the upstream may believe.

        `peer` is the client's address, or `UNIX_PEER`; `host` the `Host` it sent.
        """
        address = b"" if peer == UNIX_PEER else peer.encode()
        if self.is_trusted(peer):
            return _append_hop(headers, address, host, proto)
        if not _FORWARDED.isdisjoint(fields(headers)):
            headers = without(headers, _FORWARDED)
        return headers + _truth(address, host, proto)

    def client(self, headers: Headers, peer: str) -> bytes:
        """The first address in front of the trusted proxies, as the nearest of them says."""
        hops = [value for name, value in headers if name.lower() == b"x-forwarded-for"]
        way = [hop.strip() for hop in b",".join(hops).split(b",") if hop.strip()]
        found, is_believed = peer.encode(), self.is_trusted(peer)
        while way and is_believed:
            found = way.pop()
            is_believed = found != UNIX_PEER.encode() and self._trusts(found)
        return found

    def _trusts(self, peer: bytes) -> bool:
        try:
            return self.is_trusted(peer.decode("latin-1"))
        except ValueError:
            return False  # no address: whoever wrote it may call a client as it likes


def _truth(peer: bytes, host: bytes, proto: bytes) -> Headers:
    said = [(b"X-Forwarded-Proto", proto)]
    if peer:
        said.insert(0, (b"X-Forwarded-For", peer))
    if host:
        said.append((b"X-Forwarded-Host", host))
    return tuple(said)


def _append_hop(headers: Headers, peer: bytes, host: bytes, proto: bytes) -> Headers:
    kept = [pair for pair in headers if pair[0].lower() not in (b"x-forwarded-for", b"forwarded")]
    named = {pair[0].lower() for pair in kept}
    hops = [value for name, value in headers if name.lower() == b"x-forwarded-for"]
    if peer:
        hops.append(peer)
    if hops:
        kept.append((b"X-Forwarded-For", b", ".join(hops)))
    forwarded = [value for name, value in headers if name.lower() == b"forwarded"]
    if forwarded:
        node = b'"[%b]"' % peer if b":" in peer else peer
        kept.append((b"Forwarded", b", ".join([*forwarded, b"for=" + (node or b"unknown")])))
    if b"x-forwarded-proto" not in named:
        kept.append((b"X-Forwarded-Proto", proto))
    if b"x-forwarded-host" not in named and host:
        kept.append((b"X-Forwarded-Host", host))
    return tuple(kept)


_ANONYMOUS = blake2s(digest_size=FINGERPRINT_BYTES).digest()


def fingerprint(
    headers: Headers, target: bytes, credential_headers: Iterable[bytes] = CREDENTIAL_HEADERS
) -> bytes:
    """What stands for a caller's credentials; equal bytes mean the same caller (R32).

    `Authorization`, `Cookie`, the query of `target` and `credential_headers` (lower case).
    """
    wanted = (b"authorization", b"cookie", *credential_headers)
    if b"?" not in target and fields(headers).keys().isdisjoint(wanted):
        return _ANONYMOUS
    found = sorted(
        (wanted.index(lowered), value) for name, value in headers if (lowered := name.lower()) in wanted
    )
    digest = blake2s(target.partition(b"?")[2], digest_size=FINGERPRINT_BYTES)
    for at, value in found:
        digest.update(b"\0%b\0%d\0%b" % (wanted[at], len(value), value))
    return digest.digest()


@dataclass(frozen=True, slots=True)
class Allowed:
    """The names and Origins a request may carry; None allows any (W12).

    `hosts` are lower-case host names, with a port only if that port alone is meant; `origins` are
    lower-case serialised Origins, likewise.
    """

    hosts: frozenset[bytes] | None = None
    origins: frozenset[bytes] | None = None

    @classmethod
    def for_listener(cls, place: Place) -> Allowed:
        """The default for a listener: loopback is reached by loopback names only.

        No page in a browser reaches a Unix socket, and what `Host` its clients send is theirs to choose.
        """
        if isinstance(place, UnixPath) or not place.is_loopback:
            return cls()
        host = place.host
        names = LOOPBACK_NAMES if ":" in host else LOOPBACK_NAMES | {host.lower().encode()}
        schemes = (b"http://", b"https://")
        return cls(names, frozenset(scheme + name for scheme in schemes for name in names))


def find_refusal(headers: Headers, allowed: Allowed) -> HTTPStatus | None:
    """The status that refuses a request by its `Host` or its `Origin`, or None (W12)."""
    if allowed.hosts is not None and not _is_listed(find(headers, b"host") or b"", allowed.hosts):
        return HTTPStatus.FORBIDDEN
    origin = find(headers, b"origin")
    if allowed.origins is None or origin is None or _is_listed(origin, allowed.origins):
        return None
    return HTTPStatus.FORBIDDEN


def _is_listed(value: bytes, names: frozenset[bytes]) -> bool:
    lowered = value.strip().lower()
    if lowered in names:
        return True
    name, colon, port = lowered.rpartition(b":")
    return bool(colon) and port.isdigit() and name in names
