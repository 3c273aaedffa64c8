"""G6 transparent otherwise: an undisturbed exchange through the proxy equals a direct one byte for byte.

Each exchange is made twice, against the same server and with the same bytes; what may differ is written
out in `tests/support/comparing.py` and nowhere else.
"""

from __future__ import annotations

import pytest

from tests.support.client import JSON, PRIMED, UNPRIMED, Client, call, initialize
from tests.support.comparing import CHALLENGE, LOG, ODD, both, check_upward, chunked, closed, seen, streamed
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, serving, whole

# --- calls -----------------------------------------------------------------------------------------

RESULT = b'{ "jsonrpc" : "2.0",\t"result":{"content":[],"\xc3\xbc":"\\u00fc \\/ 1.50e+2"} , "id": @ID@ }'


PROGRESS = (
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken": @TOKEN@,"progress":1}}'
)
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
    """Less what G6 lists (R43)."""
    async with serving(CALLS[name].server()) as server:
        direct, through = await both(server, lambda client: client.call(), version)
        assert through[0] == direct[0]
        check_upward(direct[1], through[1], is_guarded=True)


REFUSALS = {
    "a challenge": CHALLENGE,
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


async def test_without_the_list_the_comparison_fails() -> None:
    """The test can fail: cursors are a difference, and G6 lists them (R43)."""
    async with serving(CALLS["ids of the server"].server()) as server, guarding(server.port) as proxy:
        bodies = []
        for port in (server.port, proxy.port):
            async with Client(port) as client:
                await client.open()
                bodies.append(await (await client.call()).read())
        assert bodies[0] != bodies[1]
