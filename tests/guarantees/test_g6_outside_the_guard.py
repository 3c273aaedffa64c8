"""G6 transparent otherwise: traffic outside the guard, of the stateless era or of no session at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.shell.wire import Peer
from tests.support.client import BOTH, Answer, Client
from tests.support.comparing import CHALLENGE, FRAMING, LOG, ODD, Seen, check_upward, end_to_end, streamed
from tests.support.proxy import guarding
from tests.support.server import McpServer, chunk, head, serving

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
    "a challenge": CHALLENGE,
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


async def plainly(server: McpServer, exchange: Callable[[Client], Awaitable[Answer]]) -> None:
    found = []
    async with guarding(server.port) as proxy:
        for port in (server.port, proxy.port):
            async with Client(port) as client:
                answer = await exchange(client)
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
