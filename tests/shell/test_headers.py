"""What is done to headers between the legs."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from epochgate.core.http import Headers
from epochgate.shell.headers import (
    UNIX_PEER,
    Allowed,
    Forwarding,
    answer_headers,
    find_refusal,
    fingerprint,
    request_headers,
)
from epochgate.units import Address

FOR, PROTO, HOST = b"X-Forwarded-For", b"X-Forwarded-Proto", b"X-Forwarded-Host"


def test_hop_by_hop_headers_and_those_that_connection_names_are_removed() -> None:
    raw: Headers = (
        (b"A", b"1"),
        (b"connection", b"Keep-Alive, X-Hop"),
        (b"Connection", b"x-other"),
        (b"x-hop", b"1"),
        (b"X-Other", b"1"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Proxy-Connection", b"a"),
        (b"Upgrade", b"h2c"),
        (b"TE", b"trailers"),
        (b"Trailer", b"a"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Length", b"4"),
        (b"a", b"2"),
    )
    assert answer_headers(raw) == ((b"A", b"1"), (b"a", b"2"))
    assert request_headers(raw) == ((b"A", b"1"), (b"a", b"2"))


def test_host_and_expect_belong_to_the_request_of_one_leg() -> None:
    raw: Headers = ((b"Host", b"a"), (b"Expect", b"100-continue"), (b"Accept", b"*/*"))
    assert request_headers(raw) == ((b"Accept", b"*/*"),)
    assert answer_headers(raw) == raw


CLAIMS: Headers = (
    (FOR, b"6.6.6.6"),
    (PROTO, b"https"),
    (HOST, b"outer.example"),
    (b"Forwarded", b"for=6.6.6.6"),
    (b"X", b"1"),
)


def test_what_a_stranger_claims_of_the_way_is_replaced_by_the_truth() -> None:
    """Only peers in `trusted_proxies` keep theirs (W12)."""
    told = Forwarding().apply(CLAIMS, "10.0.0.9", b"a:80")
    assert told == ((b"X", b"1"), (FOR, b"10.0.0.9"), (PROTO, b"http"), (HOST, b"a:80"))


def test_what_a_trusted_proxy_says_of_the_way_is_kept_and_it_is_appended() -> None:
    """Overwriting `https` behind a TLS ingress breaks OAuth (W12)."""
    told = dict(Forwarding.from_texts(["10.0.0.0/8"]).apply(CLAIMS, "10.0.0.9", b"a:80"))
    assert told == {
        b"X": b"1",
        FOR: b"6.6.6.6, 10.0.0.9",
        PROTO: b"https",
        HOST: b"outer.example",
        b"Forwarded": b"for=6.6.6.6, for=10.0.0.9",
    }


def test_what_a_trusted_proxy_leaves_out_is_filled_in() -> None:
    told = dict(Forwarding.from_texts(["::1"]).apply(((b"Forwarded", b"for=a"),), "::1", b"a"))
    assert told == {FOR: b"::1", PROTO: b"http", HOST: b"a", b"Forwarded": b'for=a, for="[::1]"'}


def test_a_client_on_a_unix_socket_has_no_address_and_is_trusted_by_its_word_alone() -> None:
    told = Forwarding.from_texts(["10.0.0.0/8"]).apply(CLAIMS, UNIX_PEER, b"a:80")
    assert told == ((b"X", b"1"), (PROTO, b"http"), (HOST, b"a:80"))

    trusting = Forwarding.from_texts(["unix", "10.0.0.0/8"])
    assert dict(trusting.apply(CLAIMS, UNIX_PEER, b"a:80")) == {
        b"X": b"1",
        FOR: b"6.6.6.6",
        PROTO: b"https",
        HOST: b"outer.example",
        b"Forwarded": b"for=6.6.6.6, for=unknown",
    }
    assert dict(trusting.apply((), UNIX_PEER, b"a")) == {PROTO: b"http", HOST: b"a"}
    assert not trusting.is_trusted("")


def test_what_a_hop_calls_itself_is_no_socket() -> None:
    trusting = Forwarding.from_texts(["unix"])
    assert trusting.client(((b"X-Forwarded-For", b"192.0.2.1, unix"),), UNIX_PEER) == b"unix"
    assert trusting.client(((b"X-Forwarded-For", b"192.0.2.1"),), UNIX_PEER) == b"192.0.2.1"
    assert trusting.client(((b"X-Forwarded-For", b"192.0.2.1"),), "10.0.0.9") == b"10.0.0.9"


@pytest.mark.parametrize(
    ("peer", "is_trusted"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("11.0.0.1", False),
        ("fe80::1%eth0", False),
        ("", False),
    ],
)
def test_trust_is_by_network(peer: str, is_trusted: bool) -> None:
    assert Forwarding.from_texts(["10.0.0.0/8"]).is_trusted(peer) is is_trusted


def test_a_fingerprint_stands_for_all_credentials_and_nothing_else() -> None:
    """(c) Of `Authorization` alone, nothing would be accepted for all who send none (R32)."""
    base: Headers = ((b"Authorization", b"Bearer a"),)
    seen = fingerprint(base, b"/mcp?key=1")
    assert fingerprint((*base, (b"Accept", b"*/*")), b"/other?key=1") == seen
    assert fingerprint(((b"authorization", b"Bearer a"),), b"/mcp?key=1") == seen
    others = {
        fingerprint((), b"/mcp"),
        fingerprint(base, b"/mcp"),
        fingerprint(base, b"/mcp?key=2"),
        fingerprint(((b"Authorization", b"Bearer b"),), b"/mcp?key=1"),
        fingerprint(((b"Cookie", b"Bearer a"),), b"/mcp?key=1"),
        fingerprint(((b"X-Api-Key", b"Bearer a"),), b"/mcp?key=1"),
        fingerprint((*base, *base), b"/mcp?key=1"),
        fingerprint(((b"Cookie", b"a"), (b"Cookie", b"b")), b"/mcp"),
        fingerprint(((b"Cookie", b"ab"),), b"/mcp"),
        seen,
    }
    assert len(others) == 10
    named = fingerprint(((b"X-Token", b"a"),), b"/mcp", (b"x-token",))
    assert named != fingerprint(((b"X-Token", b"b"),), b"/mcp", (b"x-token",))


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        (b"localhost:8808", None, None),
        (b"127.0.0.1", b"http://localhost:3000", None),
        (b"[::1]:8808", b"https://127.0.0.1", None),
        (b"LOCALHOST", b"http://[::1]:1", None),
        (b"evil.example:8808", None, HTTPStatus.FORBIDDEN),
        (b"localhost.evil.example", None, HTTPStatus.FORBIDDEN),
        (b"localhost:80.evil.example", None, HTTPStatus.FORBIDDEN),
        (b"", None, HTTPStatus.FORBIDDEN),
        (b"localhost", b"http://evil.example", HTTPStatus.FORBIDDEN),
        (b"localhost", b"null", HTTPStatus.FORBIDDEN),
        (b"localhost", b"http://localhost.evil.example", HTTPStatus.FORBIDDEN),
    ],
)
def test_a_loopback_listener_serves_loopback_names_only(
    host: bytes, origin: bytes | None, status: HTTPStatus | None
) -> None:
    """A page of another site could reach it otherwise (W12)."""
    headers: Headers = ((b"Host", host),) if origin is None else ((b"Host", host), (b"Origin", origin))
    assert find_refusal(headers, Allowed.for_listener(Address("127.0.0.1", 1))) is status


def test_a_listener_on_another_loopback_address_is_reached_by_it() -> None:
    allowed = Allowed.for_listener(Address("127.0.0.9", 1))
    assert (
        find_refusal(((b"Host", b"127.0.0.9:8808"), (b"Origin", b"http://127.0.0.9:8808")), allowed) is None
    )
    assert find_refusal(((b"Host", b"127.0.0.8:8808"),), allowed) is HTTPStatus.FORBIDDEN


def test_other_listeners_serve_any_name_unless_names_are_given() -> None:
    """They stand behind names that nobody here knows (W12)."""
    headers: Headers = ((b"Host", b"any.example"), (b"Origin", b"http://any.example"))
    assert find_refusal(headers, Allowed.for_listener(Address("0.0.0.0", 1))) is None
    given = Allowed(hosts=frozenset((b"mcp.example:443",)))
    assert find_refusal(headers, given) is HTTPStatus.FORBIDDEN
    assert find_refusal(((b"Host", b"mcp.example:443"),), given) is None
    assert find_refusal(((b"Host", b"mcp.example:80"),), given) is HTTPStatus.FORBIDDEN
