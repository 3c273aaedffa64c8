"""An exchange made twice, directly and through the proxy, and the list of what may differ."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.support.client import UNPRIMED, Answer, Client
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, Request, chunk

# --- what may differ -------------------------------------------------------------------------------

FRAMING = {"connection", "keep-alive", "transfer-encoding", "content-length"}  # made for each leg
# On the way up: whom the request came through, and no coding that would have to be undone (guarded only).
ADDED_UPWARDS = {"host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"}
ADDED_WHEN_GUARDED = {"accept-encoding"}
# On event streams of the guard, where the server says nothing of it: nobody on the way keeps or gathers them.
ADDED_TO_STREAMS = {("Cache-Control", "no-cache, no-transform"), ("X-Accel-Buffering", "no")}
EVENT_ID = re.compile(rb"(?m)^id: ?[^\r\n]*(\r\n|\n|\r)")
PRIMING = re.compile(rb"id: ?[^\r\n]*\ndata:\s*\n\n")  # for clients that asked for 2025-11-25 or later
KEEPALIVE = re.compile(rb"(?m)^: keepalive\r?\n\r?\n")
STAMP = re.compile(rb'(?<="id":)\d{14}|(?<="id": )\d{14}|(?<="progressToken": )\d{14}|"eg[0-9a-f]{32}"')

# --- the comparison --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """An answer less what may differ."""

    status: int
    status_line: bytes = field(compare=False)
    headers: tuple[tuple[str, str], ...]
    body: bytes


def end_to_end(headers: list[tuple[str, str]], dropped: set[str]) -> tuple[tuple[str, str], ...]:
    named = [value for name, value in headers if name.lower() == "connection"]
    also = {token.strip().lower() for value in named for token in value.split(",")}
    return tuple((name, value) for name, value in headers if name.lower() not in dropped | also)


async def seen(answer: Answer) -> Seen:
    body = await answer.read()
    if answer.is_stream:
        body = EVENT_ID.sub(b"", KEEPALIVE.sub(b"", PRIMING.sub(b"", body)))
    status_line = answer.head.partition(b"\r\n")[0]
    headers = end_to_end(answer.headers, FRAMING)
    if answer.is_stream:
        headers = tuple(pair for pair in headers if pair not in ADDED_TO_STREAMS)
    return Seen(answer.status, status_line, headers, body)


Exchange = tuple[Seen, list[Request]]


@dataclass(frozen=True)
class Fixed:
    """An answer of fixed bytes, but for the id and token that the server must echo.

    Events go out in chunks; without any the body ends with the connection, or at its stated length.
    """

    head: bytes
    body: bytes = b""
    events: tuple[bytes, ...] = ()

    async def play(self, leg: Leg) -> None:
        number, token = json.dumps(leg.run.id).encode(), json.dumps(leg.run.token).encode()
        parts = [
            part.replace(b"@ID@", number).replace(b"@TOKEN@", token) for part in (*self.events, self.body)
        ]
        await leg.peer.send(self.head + b"\r\n")
        if self.events:
            await leg.peer.send(b"".join(chunk(part) for part in parts if part) + b"0\r\n\r\n")
        else:
            await leg.peer.send(parts[-1])
            await leg.cut()

    def server(self) -> McpServer:
        server = McpServer(self.play)
        server.make_id = lambda: "fixed-session"
        return server

    @property
    def whole(self) -> bytes:
        """For exchanges without an id to echo."""
        chunks = b"".join(map(chunk, self.events)) + b"0\r\n\r\n" if self.events else self.body
        return self.head + b"\r\n" + chunks


async def both(
    server: McpServer, exchange: Callable[[Client], Awaitable[Answer]], version: str = UNPRIMED
) -> tuple[Exchange, Exchange]:
    """The exchange made directly, and through the proxy; with what the server saw of each."""
    found = []
    async with guarding(server.port) as proxy:
        for port in (server.port, proxy.port):
            async with Client(port, version=version) as client:
                await client.open()
                before = len(server.requests)
                answer = await exchange(client)
                found.append((await seen(answer), server.requests[before:]))
    return found[0], found[1]


def check_upward(direct: list[Request], through: list[Request], *, is_guarded: bool) -> None:
    """The server saw the same requests."""
    dropped = FRAMING | ADDED_UPWARDS | (ADDED_WHEN_GUARDED if is_guarded else set())
    assert len(direct) == len(through)
    for one, other in zip(direct, through, strict=True):
        assert (one.method, one.target) == (other.method, other.target)
        mine = sorted(end_to_end(one.headers, dropped))
        assert mine == sorted(end_to_end(other.headers, dropped))
        if is_guarded:
            assert STAMP.sub(b"?", other.body) == re.sub(
                rb'(?<="id": )7|(?<="progressToken": )"t"', b"?", one.body
            )
        else:
            assert one.body == other.body


# --- answers of fixed bytes ------------------------------------------------------------------------

ODD = (
    b"Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
    b"server: odd/1\r\n"
    b"X-Twice: one\r\nX-Twice: two\r\nX-TWICE: three\r\n"
    b"Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\n"
    b"X-Empty:\r\n"
    b"Vary: Origin\r\nAccess-Control-Allow-Origin: *\r\n"
)


def closed(kind: bytes, body: bytes) -> Fixed:
    return Fixed(b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%bConnection: close\r\n" % (kind, ODD), body)


def chunked(kind: bytes, body: bytes) -> Fixed:
    start = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%bTransfer-Encoding: chunked\r\n" % (kind, ODD)
    return Fixed(start, events=(body,))


def streamed(*events: bytes, extra: bytes = b"") -> Fixed:
    start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    return Fixed(start + ODD + extra + b"Transfer-Encoding: chunked\r\n", events=events)


CHALLENGE = (
    b'HTTP/1.1 401 Who are you\r\nWWW-Authenticate: Bearer realm="a, b", error="x"\r\n'
    b"WWW-Authenticate: Basic\r\nContent-Length: 2\r\n" + ODD + b"\r\nno"
)
LOG = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"\xc3\xa4"}}'
