"""Traffic outside the guard passes byte for byte, and both legs live and die together (G6, W4)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from epochgate.shell.exchange import Exchange
from epochgate.shell.headers import request_headers
from epochgate.shell.relay import Relayed, relay
from tests.shell.wire import (
    Peer,
    Relaying,
    Script,
    Upstreams,
    connected,
    listening,
    on_each_loop,
    relaying,
    sending_to,
    serving,
    until,
)

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def _answering(*writes: bytes) -> Script:
    """A script that takes a request, writes, and closes."""

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        for data in writes:
            await peer.send(data)

    return script


async def _relayed(request: bytes, *writes: bytes) -> tuple[bytes, Relayed, Upstreams]:
    """All that a client reads which closes its connection after one answer, and how it went."""
    async with (
        serving(_answering(*writes)) as server,
        relaying(server.port) as proxy,
        connected(proxy.port) as client,
    ):
        proxy.server.begin_drain()
        await client.send(request)
        read = await client.read_rest()
        await until(lambda: bool(proxy.finished))
        return read, proxy.finished[0], server


@on_each_loop
async def test_a_request_passes_byte_for_byte_less_what_belongs_to_a_leg() -> None:
    request = (
        b"PATCH /a%2F..//b?c=%20 HTTP/1.1\r\nHost: a\r\nuser-agent: X\r\nX-A: 1\r\nX-B: 2\r\nx-a: 3\r\n"
        b"Cookie: a=b\r\nConnection: close, x-hop\r\nX-Hop: 1\r\nTE: trailers\r\n"
        b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    )
    _, _, server = await _relayed(request, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    (head,) = server.requests
    assert head.split(b"\r\n") == [
        b"PATCH /a%2F..//b?c=%20 HTTP/1.1",
        b"Host: 127.0.0.1:%d" % server.port,
        b"user-agent: X",
        b"X-A: 1",
        b"X-B: 2",
        b"x-a: 3",
        b"Cookie: a=b",
        b"Content-Length: 2",
        b"",
        b"",
    ]


@on_each_loop
async def test_an_answer_passes_byte_for_byte_whatever_its_framing() -> None:
    end_to_end = b"HTTP/1.1 299 All Fine\r\nServer: x\r\nDate: then\r\nSet-Cookie: 1\r\nset-cookie: 2\r\n"
    sized = end_to_end + b"Connection: close\r\nContent-Length: 4\r\n\r\nbody"
    cases = {
        "length": (GET, end_to_end + b"Content-Length: 4\r\n\r\nbody", sized),
        "chunks": (
            GET,
            end_to_end + b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
            end_to_end + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        ),
        "close": (GET, end_to_end + b"\r\nbody", end_to_end + b"Connection: close\r\n\r\nbody"),
        "nothing": (
            GET.replace(b"GET", b"HEAD"),
            end_to_end + b"Content-Length: 4\r\n\r\n",
            sized.removesuffix(b"body"),
        ),
        "204": (
            GET,
            b"HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n",
            b"HTTP/1.1 204 No Content\r\nX: 1\r\nConnection: close\r\n\r\n",
        ),
        "no reason": (
            GET,
            b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 \r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        ),
        "1.0": (
            GET.replace(b"1.1", b"1.0"),
            CHUNKED + b"4\r\nbody\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody",
        ),
    }
    for name, (request, written, expected) in cases.items():
        read, relayed, _ = await _relayed(request, written)
        assert (name, read, relayed.error) == (name, expected, "")


@on_each_loop
async def test_the_head_of_a_quiet_stream_is_passed_at_once() -> None:
    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(CHUNKED)
        await peer.wait_gone()

    async with (
        serving(script) as server,
        relaying(server.port) as proxy,
        connected(proxy.port) as client,
    ):
        await client.send(GET)
        assert await client.read_head() == CHUNKED


@on_each_loop
async def test_a_client_that_leaves_closes_the_upstream_leg_at_once() -> None:
    """In the stateless revision the disconnect *is* the cancellation."""

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(CHUNKED)
        await peer.wait_gone()

    async with serving(script) as server, relaying(server.port) as proxy:
        for leave in (Peer.reset, lambda client: client.writer.close()):
            async with connected(proxy.port) as client:
                await client.send(GET)
                await client.read_head()
                leave(client)
                await until(lambda: not server.playing)
        await until(lambda: len(proxy.finished) == 2)
        assert proxy.finished == [Relayed(200, ""), Relayed(200, "")]  # no failure of the upstream


@on_each_loop
async def test_an_upstream_that_fails_before_its_first_byte_leaves_no_answer() -> None:
    """A status of ours would be taken for the server's (W4)."""
    assert (await _relayed(GET, b""))[:2] == (b"", Relayed(None, "reset"))
    async with serving(_answering()) as server:
        port = server.port
    async with relaying(port) as proxy, connected(proxy.port) as client:
        await client.send(GET)
        assert await client.read_rest() == b""
        await until(lambda: proxy.finished == [Relayed(None, "connect")])


@on_each_loop
async def test_an_upstream_that_fails_inside_its_body_breaks_the_answer() -> None:
    cut = await _relayed(GET, CHUNKED + b"4\r\nbody\r\n")
    bad = await _relayed(GET, CHUNKED, b"4\r\nbody\r\n", b"zz\r\n")
    short = await _relayed(GET, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody")
    assert not cut[0].endswith(b"0\r\n\r\n")
    assert not bad[0].endswith(b"0\r\n\r\n")
    assert len(short[0].partition(b"\r\n\r\n")[2]) < 9
    assert (cut[1].error, bad[1].error, short[1].error) == ("truncated", "protocol", "truncated")


@on_each_loop
async def test_a_client_that_stops_reading_stops_the_upstream_and_loses_nothing() -> None:
    total = 30_000_000
    sent = 0

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        nonlocal sent
        await upstreams.take(peer)
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        while sent < total:
            await peer.send(bytes(100_000))
            sent += 100_000

    async with (
        serving(script) as server,
        relaying(server.port) as proxy,
        connected(proxy.port, small_window=True) as client,
    ):
        await client.send(GET)
        await client.read_head()
        await _stuck(lambda: sent)
        assert sent < total // 2
        assert _waiting(proxy) < 2_000_000
        assert len(await client.reader.readexactly(total)) == total


async def _stuck(read: Callable[[], int]) -> None:
    """Return when a number has not moved for many turns of the loop."""
    seen = -1
    while seen != read():
        seen = read()
        for _ in range(1_000):
            await asyncio.sleep(0)


def _waiting(proxy: Relaying) -> int:
    """Bytes that wait in the proxy to be written to clients."""
    transports = [connection.transport for connection in proxy.server.live]
    return sum(transport.get_write_buffer_size() for transport in transports if transport is not None)


@on_each_loop
async def test_connections_are_kept_on_both_sides() -> None:
    async def script(upstreams: Upstreams, peer: Peer) -> None:
        while True:
            await upstreams.take(peer)
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with (
        serving(script) as server,
        relaying(server.port) as proxy,
        connected(proxy.port) as client,
    ):
        for _ in range(3):
            await client.send(GET)
            assert (await client.read_message())[1] == b"ok"
        assert (server.connections, len(server.requests)) == (1, 3)


@on_each_loop
async def test_a_relay_that_is_cancelled_breaks_both_sides() -> None:
    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(CHUNKED)
        await peer.wait_gone()

    async with serving(script) as server, sending_to(server.port) as upstream:
        relays: list[asyncio.Task[Relayed]] = []

        async def handler(exchange: Exchange) -> None:
            relays.append(asyncio.create_task(relay(exchange, (upstream,), (), exchange.id)))

        async with listening(handler) as (_, port), connected(port) as client:
            await client.send(GET)
            await client.read_head()
            relays[0].cancel()
            assert await client.read_rest() == b""
            await until(lambda: not server.playing)


@on_each_loop
async def test_a_search_passes_by_a_server_that_has_left_its_place() -> None:
    """It went while it was connected to."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        script = _answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        async with sending_to(port) as gone, serving(script) as server, sending_to(server.port) as alive:
            gone.has_left = True

            async def search(exchange: Exchange) -> None:
                headers = request_headers(exchange.raw_headers)
                await relay(exchange, (gone, alive), headers, 1, is_gone=lambda status, body: True)

            async with listening(search) as (_, own_port), connected(own_port) as client:
                await client.send(GET)
                assert (await client.read_message())[1] == b"ok"
