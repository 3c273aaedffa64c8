"""Time, pressure and closing of an upstream leg."""

from __future__ import annotations

import asyncio

from epochgate.core.events import LegEnd
from epochgate.shell.leg import LegState
from tests.shell.wire import Heard, Peer, Upstreams, call, on_each_loop, sending_to, serving, until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CLEAN = (LegEnd.CLEAN, "")


async def _echo(upstreams: Upstreams, peer: Peer) -> None:
    """Answer every request with OK."""
    while True:
        await upstreams.take(peer)
        await peer.send(OK)


@on_each_loop
async def test_headers_that_do_not_come_in_time_are_silence() -> None:
    """Of a resume, or of a request of our own (W6)."""

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.wait_gone()

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard = Heard()
        upstream.send(call(headers_within=0.02), heard)
        assert await heard.wait_end() == (LegEnd.SILENT, "headers_timeout")
        await until(lambda: not server.playing)


@on_each_loop
async def test_the_limit_for_headers_does_not_end_a_body() -> None:
    """It is none of the whole (W6)."""
    goes_on = asyncio.Event()

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(CHUNKED)
        await goes_on.wait()
        await peer.send(b"0\r\n\r\n")

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard = Heard()
        upstream.send(call(headers_within=0.05), heard)
        await until(lambda: heard.status is not None)
        asyncio.get_running_loop().call_later(0.1, goes_on.set)
        assert await heard.wait_end() == CLEAN


@on_each_loop
async def test_a_paused_leg_is_not_read_and_goes_on_where_it_stopped() -> None:
    total = 20_000_000
    sent = 0

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        nonlocal sent
        await upstreams.take(peer)
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        while sent < total:
            await peer.send(bytes(100_000))
            sent += 100_000

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard = Heard()
        leg = upstream.send(call(), heard)
        await until(lambda: heard.status is not None)
        leg.pause()
        read = len(heard.body)
        stuck = -1
        while stuck != sent:  # the server's buffers fill until nothing moves for a while
            stuck = sent
            for _ in range(500):
                await asyncio.sleep(0)
        assert len(heard.body) == read
        assert sent < total
        leg.resume()
        assert await heard.wait_end() == CLEAN
        assert len(heard.body) == total


@on_each_loop
async def test_nothing_is_told_after_close_and_the_server_sees_it_at_once() -> None:
    gone = asyncio.Event()

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(CHUNKED + b"1\r\na\r\n")
        await peer.wait_gone()
        gone.set()

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard = Heard()
        leg = upstream.send(call(), heard)
        await until(lambda: heard.body == b"a")
        leg.close()
        await gone.wait()
        assert (heard.end, leg.state) == (None, LegState.OVER)
        leg.close()


@on_each_loop
async def test_a_leg_closed_while_it_connects_sends_nothing() -> None:
    async with serving(_echo) as server, sending_to(server.port) as upstream:
        heard, other = Heard(), Heard()
        upstream.send(call(1), heard).close()
        upstream.send(call(2, target=b"/other"), other)
        assert await other.wait_end() == CLEAN
        assert heard.end is None
        assert [head.split()[1] for head in server.requests] == [b"/other"]


@on_each_loop
async def test_a_drained_leg_is_read_to_its_end_and_its_connection_used_again() -> None:
    """Behind the last answer (W7)."""
    drained = asyncio.Event()

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(CHUNKED + b"1\r\na\r\n")
        await drained.wait()
        await peer.send(b"1\r\nb\r\n0\r\n\r\n")
        await _echo(upstreams, peer)

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard, other = Heard(), Heard()
        leg = upstream.send(call(), heard)
        await until(lambda: heard.body == b"a")
        leg.pause()
        leg.drain()
        drained.set()
        await until(lambda: leg.state is LegState.OVER)
        assert (heard.body, heard.end) == (b"a", None)
        upstream.send(call(), other)
        assert await other.wait_end() == CLEAN
        assert server.connections == 1


@on_each_loop
async def test_a_drained_leg_that_does_not_end_is_closed() -> None:
    """After a second at most (W7)."""

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(CHUNKED + b"1\r\na\r\n")
        await peer.wait_gone()

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard = Heard()
        leg = upstream.send(call(), heard)
        await until(lambda: heard.body == b"a")
        leg.drain(0.02)
        await until(lambda: not server.playing)
        assert leg.state is LegState.OVER
