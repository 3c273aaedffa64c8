"""Servers that are away, that are no MCP servers, or that speak no HTTP: an answer, and never a traceback.

The real process, whose log is looked through when it has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from tests.shell.running import running_proxy
from tests.shell.wire import Peer, Upstreams, serving
from tests.support.client import JSON, Client, Truncated, call, initialize
from tests.support.server import McpServer, chunk, head, whole
from tests.support.server import serving as serving_mcp

INITIALIZED = whole(
    200,
    [("content-type", JSON), ("mcp-session-id", "s1")],
    b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{}}}',
)
SSE = head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])
BIG_HEADER = b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000 + b"\r\n\r\n"
MANY_HEADERS = b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 5_000 + b"\r\n"

# What a server says to anything, before it closes.
NONSENSE: dict[str, bytes] = {
    "nothing": b"",
    "no HTTP": b"220 mail.example ESMTP\r\n",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x28",
    "zeros": b"\x00" * 4096,
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "a bad status": b"HTTP/1.1 xyz OK\r\n\r\n",
    "a bad length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a huge header": BIG_HEADER,
    "too many headers": MANY_HEADERS,
    "a bad chunk": SSE + b"xx\r\n",
    "a short body": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{",
    "a page": whole(200, [("content-type", "text/html")], b"<html>It works</html>"),
    "not found": whole(404, [("content-type", "text/html")], b"<html>no</html>"),
    "a bad gateway": whole(502, [("content-type", "text/html")], b"<html>502</html>"),
    "no JSON": whole(200, [("content-type", JSON)], b"[1, 2"),
    "other JSON": whole(200, [("content-type", JSON)], b'{"hello": "world"}'),
    "a number": whole(200, [("content-type", JSON)], b"17"),
    "deep JSON": whole(200, [("content-type", JSON)], b"[" * 100_000),
    "no UTF-8": whole(200, [("content-type", JSON)], b'{"jsonrpc":"2.0","id":7,"result":"\xff\xfe"}'),
    "odd events": SSE + chunk(b"data: {\n\ndata: 17\n\nid\n\n\xff\xfe: x\n\ndata: \xff\n\n") + b"0\r\n\r\n",
    "a blank stream": SSE + chunk(b"\n\n\n\n: x\n\n") + b"0\r\n\r\n",
    "an early answer": b"HTTP/1.1 100 Continue\r\n\r\n" + whole(204),
    "an upgrade": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello",
}


def saying(data: bytes, *, first: bytes | None = None) -> Callable[[Upstreams, Peer], Awaitable[None]]:
    """A server that says `data` to everything; `first` to `initialize`."""

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        while True:
            _, body = await upstreams.take(peer)
            if first is not None and b'"initialize"' in body:
                await peer.send(first)
                continue
            if first is not None and b"notifications/initialized" in body:
                await peer.send(whole(202))
                continue
            await peer.send(data)
            return

    return script


FLAGS = ("--resume-deadline", "0.3s", "--resume-headers", "0.2s", "--heal-deadline", "1s", "--access-log", "all")


async def outcome(sent: Awaitable[object]) -> object:
    """The status of an answer that came to its end, or what cut it."""
    with suppress(Truncated):
        answer = await sent
        await answer.read()  # type: ignore[attr-defined]  # an Answer
        return answer.status  # type: ignore[attr-defined]
    return "closed"


async def test_a_server_that_speaks_no_mcp_breaks_nothing() -> None:
    """Everything a client may send meets everything such a server may say; each ends, and in time."""
    for name, data in NONSENSE.items():
        async with serving(saying(data)) as server, running_proxy(server.port, *FLAGS) as proxy:
            async with Client(proxy.port) as client:
                answer = await client.post(initialize())
                body = await answer.read()
                assert answer.status == 200 or body == data.partition(b"\r\n\r\n")[2], name
                assert answer.status != 200 or name in ("a page", "no JSON", "other JSON", "a number", "deep JSON",
                    "no UTF-8", "odd events", "a blank stream") or b"-32051" in body, name
                for sent in (
                    client.send("GET", "/plain", []),
                    client.get(),
                    client.post(call()),
                    client.post(b"no JSON"),
                    client.post({"jsonrpc": "2.0", "id": 1, "method": "x"}, ("MCP-Protocol-Version", "2026-07-28")),
                ):
                    await outcome(sent)
            assert await proxy.stop() == 0, name


@pytest.mark.parametrize("name", NONSENSE)
async def test_a_server_that_turns_mad_inside_a_session_is_answered_for(name: str) -> None:
    """Every request gets its one answer, every notification its 202 (W4)."""
    data = NONSENSE[name]
    async with serving(saying(data, first=INITIALIZED)) as server:
        async with running_proxy(server.port, *FLAGS) as proxy, Client(proxy.port) as client:
            await client.open()
            answer = await client.call()
            body = await answer.read()
            is_passed = answer.status >= 400 and body == data.partition(b"\r\n\r\n")[2]
            assert is_passed or (answer.status == 200 and body.count(b'"id":7') == 1), (answer.status, body)
            told = await client.post({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
            assert told.status == 202
            assert await outcome(client.get()) != 500
            assert await proxy.stop() == 0


async def test_a_server_out_of_reach_is_an_error_where_it_is_guarded_and_a_close_elsewhere() -> None:
    server = McpServer()
    async with serving_mcp(server):
        pass
    async with running_proxy(server.port, *FLAGS) as proxy, Client(proxy.port) as client:
        answer = await client.post(initialize())
        assert (answer.status, (await answer.json())["error"]["code"]) == (200, -32051)
        assert await outcome(client.send("GET", "/", [])) == "closed"
        assert await outcome(client.post(call())) == "closed"  # no session: plain
        assert await proxy.ready() == 503
        assert await proxy.stop() == 0


async def test_a_session_outlives_an_absence_of_its_server() -> None:
    server = McpServer()
    async with serving_mcp(server):
        async with running_proxy(server.port, *FLAGS) as proxy, Client(proxy.port) as client:
            await client.open()
            await server.stop()
            (answer,) = await (await client.call()).messages()
            assert answer["error"]["code"] == -32051
            assert (await client.post({"jsonrpc": "2.0", "method": "notifications/x"})).status == 202
            await server.start()
            assert (await (await client.call()).messages())[-1]["result"]
            assert await proxy.stop() == 0


async def test_a_server_that_accepts_and_never_answers_an_initialize_is_not_waited_for_by_the_exit() -> None:
    async def never(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.wait_gone()

    async with serving(never) as server, running_proxy(server.port, "--drain", "0.5s") as proxy:
        async with Client(proxy.port) as client:
            asked = asyncio.ensure_future(outcome(client.post(initialize())))
            async with asyncio.timeout(20):
                while not server.requests:  # noqa: ASYNC110  # a socket's fact, which sets no event
                    await asyncio.sleep(0)
            assert await proxy.stop() == 0
            await asked


async def test_a_name_that_does_not_resolve_is_an_error_too() -> None:
    async with running_proxy(1, "--upstream", "http://name.invalid:1", *FLAGS) as proxy:
        async with Client(proxy.port) as client:
            answer = await client.post(initialize())
            assert (answer.status, (await answer.json())["error"]["code"]) == (200, -32051)
        assert await proxy.stop() == 0
