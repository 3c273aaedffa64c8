"""G6 transparent otherwise: an undisturbed exchange through the proxy equals a direct one byte for byte.

Each exchange is made twice, against the same server and with the same bytes; what may differ is written
out below and nowhere else.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

import pytest

from tests.shell.wire import Peer
from tests.support.client import BOTH, JSON, PRIMED, UNPRIMED, Answer, Client, call, initialize
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, Request, chunk, head, serving, whole

# --- what may differ -------------------------------------------------------------------------------

FRAMING = {"connection", "keep-alive", "transfer-encoding", "content-length"}  # made for each leg
# On the way up: whom the request came through, and no coding that would have to be undone (guarded only).
ADDED_UPWARDS = {"host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"}
ADDED_WHEN_GUARDED = {"accept-encoding"}
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
    return Seen(answer.status, status_line, end_to_end(answer.headers, FRAMING), body)


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


async def both(server: McpServer, exchange: object, version: str = UNPRIMED) -> tuple[Exchange, Exchange]:
    """The exchange made directly, and through the proxy; with what the server saw of each."""
    found = []
    async with guarding(server.port) as proxy:
        for port in (server.port, proxy.port):
            async with Client(port, version=version) as client:
                await client.open()
                before = len(server.requests)
                answer = await exchange(client)  # type: ignore[operator]  # a coroutine function
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


# --- calls -----------------------------------------------------------------------------------------

ODD = (
    b"Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
    b"server: odd/1\r\n"
    b"X-Twice: one\r\nX-Twice: two\r\nX-TWICE: three\r\n"
    b"Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\n"
    b"X-Empty:\r\n"
    b"Vary: Origin\r\nAccess-Control-Allow-Origin: *\r\n"
)
RESULT = b'{ "jsonrpc" : "2.0",\t"result":{"content":[],"\xc3\xbc":"\\u00fc \\/ 1.50e+2"} , "id": @ID@ }'


def closed(kind: bytes, body: bytes) -> Fixed:
    return Fixed(b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%bConnection: close\r\n" % (kind, ODD), body)


def chunked(kind: bytes, body: bytes) -> Fixed:
    start = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%bTransfer-Encoding: chunked\r\n" % (kind, ODD)
    return Fixed(start, events=(body,))


def streamed(*events: bytes, extra: bytes = b"") -> Fixed:
    start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    return Fixed(start + ODD + extra + b"Transfer-Encoding: chunked\r\n", events=events)


PROGRESS = (
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken": @TOKEN@,"progress":1}}'
)
LOG = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"\xc3\xa4"}}'
ANSWER = b'{"jsonrpc":"2.0","id": @ID@,"result":{"content":[ ]}}'


CALLS = {
    "JSON until the connection closes": closed(b"application/json", RESULT),
    "JSON in chunks": chunked(b"application/json", RESULT),
    "a charset on JSON": chunked(b"application/json; charset=utf-8", RESULT),
    "JSON with the id first": chunked(b"application/json", b'{"id": @ID@,"jsonrpc":"2.0","result":{}}'),
    "an error": chunked(
        b"application/json", b'{"jsonrpc":"2.0","id": @ID@,"error":{"code":-1,"message":""}}'
    ),
    "one event": streamed(b"data: " + ANSWER + b"\n\n"),
    "events with names and unknown fields": streamed(
        b"event: message\ndata: " + PROGRESS + b"\n\n",
        b"event: message\nx-field: 1\ndata: " + LOG + b"\n\n",
        b"data: " + ANSWER + b"\nevent: message\n\n",
    ),
    "CRLF": streamed(b"event: message\r\ndata: " + LOG + b"\r\n\r\n", b"data: " + ANSWER + b"\r\n\r\n"),
    "data in several lines": streamed(b'data: {"jsonrpc":"2.0",\ndata: "id": @ID@,\ndata: "result":{}}\n\n'),
    "data without a space": streamed(b"data:" + LOG + b"\n\n", b"data:" + ANSWER + b"\n\n"),
    "ids of the server": streamed(b"id: 17\ndata: " + LOG + b"\n\n", b"id: 18\ndata: " + ANSWER + b"\n\n"),
    "headers of streams": streamed(
        b"data: " + ANSWER + b"\n\n", extra=b"Cache-Control: no-store\r\nX-Accel-Buffering: yes\r\n"
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("version", [UNPRIMED, PRIMED])
async def test_a_call_is_the_same(name: str, version: str) -> None:
    async with serving(CALLS[name].server()) as server:
        direct, through = await both(server, lambda client: client.call(), version)
        assert through[0] == direct[0]
        check_upward(direct[1], through[1], is_guarded=True)


REFUSALS = {
    "a challenge": b'HTTP/1.1 401 Who are you\r\nWWW-Authenticate: Bearer realm="a, b", error="x"\r\n'
    b"WWW-Authenticate: Basic\r\nContent-Length: 2\r\n" + ODD + b"\r\nno",
    "a scope challenge": b'HTTP/1.1 403 Forbidden\r\nWWW-Authenticate: Bearer error="insufficient_scope",'
    b' scope="a b"\r\nContent-Length: 0\r\n' + ODD + b"\r\n",
    "a long challenge": b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer x="'
    + b"y" * 20_000
    + b'"\r\nContent-Length: 0\r\n\r\n',
    "a bad request": b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n"
    + ODD
    + b"\r\nbad",
    "a teapot": b"HTTP/1.1 418 I'm a teapot\r\nContent-Length: 0\r\n\r\n",
    "too many": b"HTTP/1.1 429 Slow down\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n",
    "an internal error": b"HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p/>",
    "a redirect": b"HTTP/1.1 307 Elsewhere\r\nLocation: http://example.invalid/\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_is_the_same(name: str) -> None:
    server = McpServer(lambda leg: _send(leg, REFUSALS[name]))
    server.make_id = lambda: "fixed-session"
    async with serving(server):
        direct, through = await both(server, lambda client: client.call())
        assert through[0] == direct[0]
        check_upward(direct[1], through[1], is_guarded=True)


@pytest.mark.parametrize("status", [400, 401, 403, 500, 503])
async def test_a_refusal_that_ends_with_the_connection_is_the_same(status: int) -> None:
    answer = b"HTTP/1.1 %d No\r\nX-A: b\r\nConnection: close\r\n\r\nnot today" % status

    async def play(leg: Leg) -> None:
        await leg.peer.send(answer)
        await leg.cut()

    async with serving(McpServer(play)) as server:
        direct, through = await both(server, lambda client: client.call())
        assert through[0] == direct[0]
        assert server.executions == 2  # one for each


async def _send(leg: Leg, answer: bytes) -> None:
    await leg.peer.send(answer)


async def test_the_words_behind_a_status_are_the_same() -> None:
    async with serving(McpServer(lambda leg: _send(leg, REFUSALS["too many"]))) as server:
        direct, through = await both(server, lambda client: client.call())
        assert direct[0].status_line == b"HTTP/1.1 429 Slow down"
        assert through[0].status_line == direct[0].status_line


# --- the rest of a session -------------------------------------------------------------------------


INITIALIZED = (
    b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"%b","capabilities":{},"serverInfo":{"name":"s"}}}'
)


@pytest.mark.parametrize("version", ["2025-03-26", UNPRIMED, PRIMED, "2099-01-01"])
@pytest.mark.parametrize("kind", ["JSON", "JSON until the connection closes", "SSE"])
async def test_initialize_is_the_same(version: str, kind: str) -> None:
    body = INITIALIZED % version.encode()
    session = b"Mcp-Session-Id: fixed\r\n"
    if kind == "JSON":
        answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%b%bContent-Length: %d\r\n\r\n%b"
        answer %= (session, ODD, len(body), body)
    elif kind != "SSE":
        answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%b%b\r\n%b" % (session, ODD, body)
    else:
        answer = streamed(b"event: message\ndata: " + body + b"\n\n", extra=session).whole
    server = McpServer()
    server.override = answer
    async with serving(server), guarding(server.port) as proxy:
        found = []
        for port in (server.port, proxy.port):
            async with Client(port) as client:
                found.append(await seen(await client.post(initialize(version))))
        assert found[1] == found[0]
        check_upward(server.requests[:1], server.requests[1:], is_guarded=True)
        # The one request that is not stamped (R45).
        assert server.requests[0].body == server.requests[1].body


async def test_an_initialize_without_a_session_is_the_same() -> None:
    body = INITIALIZED % UNPRIMED.encode()
    server = McpServer()
    server.override = whole(200, [("content-type", JSON), ("x-a", "b")], body)
    async with serving(server), guarding(server.port) as proxy:
        found = []
        for port in (server.port, proxy.port):
            async with Client(port) as client:
                found.append(await seen(await client.post(initialize())))
        assert found[1] == found[0]


async def test_a_notification_is_the_same() -> None:
    async with serving(McpServer()) as server:
        note = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        direct, through = await both(server, lambda client: client.post(note))
        assert through[0] == direct[0]
        assert (through[0].status, through[0].body) == (202, b"")
        assert direct[1][0].body == through[1][0].body


async def test_a_202_has_neither_body_nor_type() -> None:
    async with serving(McpServer()) as server, guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.post({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        assert (answer.status, await answer.read(), answer.header("content-type")) == (202, b"", None)


async def test_a_delete_and_a_get_without_stream_are_the_same() -> None:
    async with serving(McpServer()) as server:
        direct, through = await both(server, lambda client: client.get())
        assert through[0] == direct[0]
    async with serving(McpServer()) as server:
        direct, through = await both(server, lambda client: client.delete())
        assert through[0] == direct[0]


async def test_a_request_whose_body_is_signed_goes_up_byte_for_byte() -> None:
    """R36: a body that must not be changed is not stamped."""
    async with serving(CALLS["one event"].server()) as server:
        digest = ("Content-Digest", "sha-256=:abc:")
        direct, through = await both(server, lambda client: client.post(call(), digest))
        assert through[0] == direct[0]
        assert direct[1][0].body == through[1][0].body


# --- outside the guard -----------------------------------------------------------------------------

MODERN = ("MCP-Protocol-Version", "2026-07-28")
PLAIN = {
    "JSON": b"HTTP/1.1 200 Alright\r\nContent-Type: application/json\r\nContent-Length: 8\r\n"
    + ODD
    + b'\r\n{"a": 1}',
    "an event stream with ids": streamed(
        b": hello\n\n", b"id: 1\nretry: 5\ndata: x\n\n", b"id: 2\ndata: y\r\n\r\n"
    ).whole,
    "until the connection closes": b"HTTP/1.1 200 OK\r\nX-A: b\r\n" + ODD + b"\r\nrest",
    "not modified": b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n' + ODD + b"\r\n",
    "no content": b"HTTP/1.1 204 None\r\n" + ODD + b"\r\n",
    "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
    "a redirect": b"HTTP/1.1 302 There\r\nLocation: http://127.0.0.1:1/x?y=%2F\r\nContent-Length: 0\r\n\r\n",
    "a challenge": REFUSALS["a challenge"],
    "an error": b"HTTP/1.1 503 Later\r\nRetry-After: 9\r\nContent-Length: 5\r\n\r\nlater",
    "an unknown status": b"HTTP/1.1 299 Odd One\r\nContent-Length: 0\r\n\r\n",
}
TARGETS = [
    "/mcp",
    "/a%2Fb",
    "/a%2fb/../c/./d//e",
    "/?q=a%20b+c&q=&q",
    "/%C3%A4",
    "/mcp?x=%2F%3f#no",
    "/;p=1",
    "/a|b\\c",
]


async def plainly(server: McpServer, client_of: object) -> None:
    found = []
    async with guarding(server.port) as proxy:
        for port in (server.port, proxy.port):
            async with Client(port) as client:
                answer = await client_of(client)  # type: ignore[operator]  # a coroutine function
                body = await answer.read()
                status_line = answer.head.partition(b"\r\n")[0]
                found.append(Seen(answer.status, status_line, end_to_end(answer.headers, FRAMING), body))
    assert found[1] == found[0]
    assert found[1].status_line == found[0].status_line
    direct, through = server.requests
    check_upward([direct], [through], is_guarded=False)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("era", ["modern", "plain"])
async def test_traffic_outside_the_guard_is_the_same(name: str, era: str) -> None:
    server = McpServer()
    server.override = PLAIN[name]
    async with serving(server):
        if era == "modern":
            message = b'{ "jsonrpc":"2.0", "id":1,"method":"tools/call", "params":{"name":"x"} }'
            await plainly(server, lambda client: client.post(message, MODERN))
        else:
            await plainly(server, lambda client: client.send("GET", "/other", [("Accept-Encoding", "gzip")]))


@pytest.mark.parametrize("target", TARGETS)
async def test_targets_pass_byte_for_byte(target: str) -> None:
    server = McpServer()
    server.override = PLAIN["JSON"]
    async with serving(server):
        await plainly(server, lambda client: client.send("GET", target.partition("#")[0], []))
        assert server.requests[1].target == target.partition("#")[0]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "POST", "PROPFIND"])
async def test_methods_and_repeated_headers_pass(method: str) -> None:
    server = McpServer()
    server.override = PLAIN["JSON"]
    twice = [("X-Twice", "one"), ("x-twice", "two"), ("Cookie", "a=1"), ("X-Bytes", "ä"), ("Accept", BOTH)]
    hop = [("Connection", "x-hop, close"), ("X-Hop", "gone"), ("TE", "trailers")]
    body = b"\x00\xff not JSON" if method in ("PUT", "PATCH", "POST") else None
    async with serving(server):
        found = []
        async with guarding(server.port) as proxy:
            for port, sent in ((server.port, twice), (proxy.port, [*twice, *hop])):
                async with Client(port) as client:
                    answer = await client.send(method, "/x", sent, body)
                    found.append((answer.status, await answer.read()))
        assert found[0] == found[1]
        direct, through = server.requests
        check_upward([direct], [through], is_guarded=False)
        assert [value for name, value in through.headers if name.lower() == "x-twice"] == ["one", "two"]


async def test_head_is_the_same() -> None:
    server = McpServer()
    server.override = b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n" + ODD + b"\r\n"
    async with serving(server), guarding(server.port) as proxy:
        heads = []
        for port in (server.port, proxy.port):
            async with Client(port) as client:
                answer = await client.send("HEAD", "/x", [])
                heads.append((answer.status, sorted(answer.headers)))
        assert heads[0] == heads[1]


async def test_the_old_transport_passes() -> None:
    """HTTP+SSE of 2024-11-05: `endpoint` and messages on one GET, POSTs answered 202."""
    server = McpServer()
    server.override = streamed(
        b"event: endpoint\ndata: /messages?id=1\n\n", b"event: message\ndata: " + LOG + b"\n\n"
    ).whole
    async with serving(server):
        await plainly(server, lambda client: client.send("GET", "/sse", [("Accept", "text/event-stream")]))


async def test_a_modern_client_that_leaves_cancels_at_once() -> None:
    """There a disconnect is the cancellation."""
    server = McpServer()
    is_gone = False

    async def watch(peer: Peer) -> None:
        nonlocal is_gone
        await peer.send(head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]))
        await peer.send(chunk(b"data: {}\n\n"))
        await peer.wait_gone()
        is_gone = True

    server.on_request = watch
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        answer = await client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call"}, MODERN)
        await answer.next_event()
        answer.reset()
        await server.until(lambda: is_gone)


async def test_without_the_list_the_comparison_fails() -> None:
    """The test can fail: cursors are a difference."""
    async with serving(CALLS["ids of the server"].server()) as server, guarding(server.port) as proxy:
        bodies = []
        for port in (server.port, proxy.port):
            async with Client(port) as client:
                await client.open()
                bodies.append(await (await client.call()).read())
        assert bodies[0] != bodies[1]
