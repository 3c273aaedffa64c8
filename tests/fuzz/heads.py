"""HTTP headers: what is passed on, who the caller is, and who is refused, by the plainest readings."""

from __future__ import annotations

import ipaddress

from epochgate.core import epoch, http
from epochgate.core.http import Headers
from epochgate.shell.headers import (
    HOP_BY_HOP,
    Allowed,
    Forwarding,
    answer_headers,
    find_refusal,
    fingerprint,
    request_headers,
)
from epochgate.units import Address
from tests.fuzz.spelling import Choices, spelled

WORDS = (
    b"Connection: ",
    b"Connection: close\n",
    b"connection: X-Api-Key, \n",
    b"Keep-Alive: ",
    b"Transfer-Encoding: chunked\n",
    b"Content-Length: 5\n",
    b"Host: localhost:80\n",
    b"Host: ",
    b"Origin: ",
    b"Origin: http://localhost:1\n",
    b"http://[::1]:80\n",
    b"127.0.0.1",
    b"evil.example\n",
    b"Authorization: ",
    b"AUTHORIZATION: a\n",
    b"Cookie: ",
    b"Cookie: a=1; b=2\n",
    b"Set-Cookie: a=2; Path=/\n",
    b"X-Api-Key: ",
    b"Api-Key: b\n",
    b"X-Forwarded-For: 1.2.3.4\n",
    b"x-forwarded-proto: https\n",
    b"X-Forwarded-Host: ",
    b"Forwarded: for=1.2.3.4\n",
    b"Mcp-Session-Id: s\n",
    b"Mcp-Session-Epoch: 7\n",
    b"Mcp-Session-Epoch: ",
    b"Content-Type: text/event-stream; charset=utf-8\n",
    b"Expect: 100-continue\n",
    b": ",
    b":",
    b", ",
    b"=",
    b"\xff",
    b"?key=1",
)
_PEERS = ("", "127.0.0.1", "10.1.2.3", "::1", "fe80::1%eth0", "::ffff:10.1.2.3", "2001:db8::1")
_PROXIES: tuple[tuple[str, ...], ...] = (
    (),
    ("10.0.0.0/8",),
    ("::1", "fe80::/10", "127.0.0.1/32"),
    ("0.0.0.0/0",),
)
_ALLOWED = (
    Allowed(),
    Allowed.for_listener(Address("127.0.0.1", 1)),
    Allowed(frozenset((b"a:80",)), frozenset()),
)
_CREDENTIALS = (b"authorization", b"cookie", b"x-api-key", b"api-key")


def one(data: bytes) -> None:
    choices = Choices(data)
    peer, proxies, allowed = choices.one_of(_PEERS), choices.one_of(_PROXIES), choices.one_of(_ALLOWED)
    target = b"/mcp" + spelled(choices.some(4), WORDS).replace(b"\n", b"")
    at = choices.number(256)
    headers = _headers(spelled(choices.rest(), WORDS))
    _asked(headers)
    _passed_on(headers)
    _cookies(headers)
    _forwarded(headers, peer, proxies)
    _told_apart(headers, target, at)
    _refused(headers, allowed)


def _headers(text: bytes) -> Headers:
    """Lines as a parser of HTTP lets them through: a name, and a value without white space around it."""
    pairs = [line.partition(b":") for line in text.split(b"\n")]
    return tuple(
        (name.strip(), value.strip(b" \t")) for name, colon, value in pairs if name.strip() and colon
    )


def _values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for key, value in headers if key.lower() == name]


def _asked(headers: Headers) -> None:
    for name in (b"host", b"cookie", b"mcp-session-id", b"absent"):
        values = _values(headers, name)
        assert http.find(headers, name) == (values[0] if values else None)
        assert not _values(http.without(headers, (name,)), name)
        changed = http.with_value(headers, name, b"new")
        assert _values(changed, name) == [b"new"]
        assert http.without(changed, (name,)) == http.without(headers, (name,))
    types = _values(headers, b"content-type")
    assert http.media_type(headers) == (types[0].split(b";")[0].strip().lower() if types else b"")
    stated = {value.strip() for value in _values(headers, b"mcp-session-epoch")} - {b""}
    wanted = None if not stated else epoch.CONFLICT if len(stated) > 1 else next(iter(stated))
    assert epoch.stated_in_headers(headers, b"mcp-session-epoch") == wanted


def _passed_on(headers: Headers) -> None:
    named = {
        token.strip().lower() for value in _values(headers, b"connection") for token in value.split(b",")
    } - {b"close", b"keep-alive"}
    kept = tuple(
        pair
        for pair in headers
        if pair[0].lower() not in HOP_BY_HOP | named and pair[0].lower() != b"content-length"
    )
    assert answer_headers(headers) == kept
    assert request_headers(headers) == tuple(
        pair for pair in kept if pair[0].lower() not in (b"host", b"expect")
    )


def _cookies(headers: Headers) -> None:
    own = http.set_cookies(headers)
    changed = http.with_cookies(headers, own)
    (line,) = _values(changed, b"cookie")
    crumbs = [crumb.strip() for crumb in line.split(b";")]
    for name, value in own.items():
        assert b"%b=%b" % (name, value) in crumbs or b";" in name or not (name or value)
    assert http.without(changed, (b"cookie",)) == http.without(headers, (b"cookie",))


def _forwarded(headers: Headers, peer: str, proxies: tuple[str, ...]) -> None:
    forwarding = Forwarding.from_texts(proxies)
    told = forwarding.apply(headers, peer, b"mcp.example")
    names = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"forwarded")
    assert http.without(told, names) == http.without(headers, names)
    if not _is_in(peer, proxies):
        assert _values(told, b"x-forwarded-for") == ([peer.encode()] if peer else [])
        assert _values(told, b"x-forwarded-proto") == [b"http"]
        assert _values(told, b"x-forwarded-host") == [b"mcp.example"]
        assert _values(told, b"forwarded") == []
        return
    (hops,) = _values(told, b"x-forwarded-for")
    assert hops == b", ".join([*_values(headers, b"x-forwarded-for"), peer.encode()])
    for name in (b"x-forwarded-proto", b"x-forwarded-host"):
        assert _values(told, name) == _values(headers, name) or not _values(headers, name)
    assert bool(_values(told, b"forwarded")) == bool(_values(headers, b"forwarded"))


def _is_in(peer: str, proxies: tuple[str, ...]) -> bool:
    if not peer:
        return False
    address = ipaddress.ip_address(peer.split("%")[0].removeprefix("::ffff:"))
    return any(address in ipaddress.ip_network(text) for text in proxies)


def _told_apart(headers: Headers, target: bytes, at: int) -> None:
    """Whoever differs in a credential is somebody else, and only they are."""
    one = fingerprint(headers, target)
    assert one == fingerprint((*headers, (b"Accept", b"x")), target)
    assert one == fingerprint(tuple((name.upper(), value) for name, value in headers), target)
    assert one != fingerprint((*headers, (b"Authorization", b"other")), target)
    assert one != fingerprint(headers, target + b"?other=1")
    if headers:
        at %= len(headers)
        name, value = headers[at]
        changed = (*headers[:at], (name, value + b"x"), *headers[at + 1 :])
        assert (fingerprint(changed, target) == one) == (name.lower() not in _CREDENTIALS)


def _refused(headers: Headers, allowed: Allowed) -> None:
    hosts, origins = _values(headers, b"host"), _values(headers, b"origin")
    host_is_served = allowed.hosts is None or _is_listed(hosts[0] if hosts else b"", allowed.hosts)
    origin_is_served = allowed.origins is None or not origins or _is_listed(origins[0], allowed.origins)
    assert (find_refusal(headers, allowed) is None) == (host_is_served and origin_is_served)


def _is_listed(value: bytes, names: frozenset[bytes]) -> bool:
    value = value.strip().lower()
    at = value.rfind(b":")
    with_port = at >= 0 and value[at + 1 :] != b"" and not value[at + 1 :].strip(b"0123456789")
    return value in names or (with_port and value[:at] in names)
