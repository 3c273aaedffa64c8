"""Servers that are away, that are no MCP servers, or that speak no HTTP: an answer, and never a traceback.

The real process, whose log is looked through when it has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass

from tests.shell.running import running_proxy
from tests.shell.wire import Peer, Upstreams, serving
from tests.support.client import JSON, Answer, Client, Truncated, call, initialize
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
    "a length and chunks": SSE.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n") + b"0\r\n\r\n",
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


@dataclass
class Mad:
    """A server that says `data` to everything; `first`, if given, to `initialize`."""

    data: bytes = b""
    first: bytes | None = None

    async def __call__(self, upstreams: Upstreams, peer: Peer) -> None:
        while True:
            _, body = await upstreams.take(peer)
            if self.first is not None and b'"initialize"' in body:
                await peer.send(self.first)
            elif self.first is not None and b"notifications/initialized" in body:
                await peer.send(whole(202))
            else:
                await peer.send(self.data)
                return

    def is_passed_on(self, answer: Answer, body: bytes) -> bool:
        """Whether the answer is the one that the server gave last."""
        last = self.data[self.data.rindex(b"HTTP/1.1") :] if b"HTTP/1.1" in self.data else b""
        return last.startswith(b"HTTP/1.1 %d " % answer.status) and last.endswith(body)


FLAGS = (
    "--resume-deadline",
    "0.3s",
    "--resume-headers",
    "0.2s",
    "--heal-deadline",
    "1s",
    "--access-log",
    "all",
)


async def outcome(sent: Awaitable[Answer]) -> int | str:
    """The status of an answer that came to its end, or that it was cut."""
    with suppress(Truncated):
        answer = await sent
        await answer.read()
        return answer.status
    return "closed"


async def test_a_server_that_speaks_no_mcp_breaks_nothing() -> None:
    """Everything a client may send meets everything such a server may say; each ends, and in time."""
    mad = Mad()
    modern = ("MCP-Protocol-Version", "2026-07-28")
    async with serving(mad) as server, running_proxy(server.port, *FLAGS) as proxy:
        for name, mad.data in NONSENSE.items():
            async with Client(proxy.port) as client:
                answer = await client.post(initialize())
                body = await answer.read()
                is_error = answer.status == 200 and b'"code":-32051' in body
                assert is_error or answer.is_stream or mad.is_passed_on(answer, body), (
                    name,
                    answer.head,
                    body,
                )
                for sent in (
                    client.send("GET", "/plain", []),
                    client.get(),
                    client.post(call()),
                    client.post(b"no JSON"),
                    client.post({"jsonrpc": "2.0", "id": 1, "method": "x"}, modern),
                ):
                    await outcome(sent)
        assert await proxy.stop() == 0


async def test_a_server_that_turns_mad_inside_a_session_is_answered_for() -> None:
    """Every request gets its one answer, every notification its 202 (W4)."""
    mad = Mad(first=INITIALIZED)
    async with serving(mad) as server, running_proxy(server.port, *FLAGS, "--max-sessions", "1000") as proxy:
        for name, mad.data in NONSENSE.items():
            mad.first = INITIALIZED.replace(b": s1", b": s%d" % len(server.requests))
            async with Client(proxy.port) as client:
                await client.open()
                answer = await client.call()
                body = await answer.read()
                is_answered = answer.status == 200 and body.count(b'"id":7') == 1
                is_refused = answer.status >= 400 and mad.is_passed_on(answer, body)
                assert is_answered or is_refused, (name, answer.head, body)
                told = await client.post({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
                assert told.status == 202, name
                status = await outcome(client.get())
                assert isinstance(status, int), name
                assert status < 500 or mad.data.startswith(b"HTTP/1.1 %d" % status), name
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
    """Unreachable is not lost: PARKED (R27)."""
    server = McpServer()
    async with serving_mcp(server), running_proxy(server.port, *FLAGS) as proxy, Client(proxy.port) as client:
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

    async with (
        serving(never) as server,
        running_proxy(server.port, "--drain", "0.5s") as proxy,
        Client(proxy.port) as client,
    ):
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
