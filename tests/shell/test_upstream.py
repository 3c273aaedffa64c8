"""The upstream leg over real sockets: what is sent, what is told, and what is never sent twice."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from epochgate.core.events import LegEnd
from epochgate.shell.connection import LegConnection
from epochgate.shell.leg import Delimiter, Framing, LegState
from epochgate.shell.upstream import Origin, Upstream, UpstreamLimits
from tests.shell.wire import Heard, Peer, Script, Upstreams, call, on_each_loop, sending_to, serving, until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CLEAN = (LegEnd.CLEAN, "")


async def _echo(upstreams: Upstreams, peer: Peer) -> None:
    """Answer every request with OK."""
    while True:
        await upstreams.take(peer)
        await peer.send(OK)


def _answering(*writes: bytes) -> Script:
    """A script that takes a request, writes, and closes."""

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        for data in writes:
            await peer.send(data)

    return script


async def _ask(*writes: bytes, method: bytes = b"POST") -> Heard:
    """What is told of an answer that consists of `writes` and then ends."""
    async with serving(_answering(*writes)) as server, sending_to(server.port) as upstream:
        heard = Heard()
        upstream.send(call(method=method), heard)
        await heard.wait_end()
        return heard


# --- what is sent -------------------------------------------------------------------------------


@on_each_loop
async def test_a_request_goes_out_as_it_was_given_with_host_first_and_a_length() -> None:
    async with serving(_echo) as server, sending_to(server.port) as upstream:
        heard = Heard()
        headers = ((b"X-A", b"1"), (b"x-a", b"2"), (b"Accept", b"*/*"))
        upstream.send(call(target=b"/a%2Fb;c?d=%20&e", headers=headers, body=b"[1]"), heard)
        assert await heard.wait_end() == CLEAN
        assert server.requests == [
            b"POST /a%%2Fb;c?d=%%20&e HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-A: 1\r\nx-a: 2\r\nAccept: */*\r\n"
            b"Content-Length: 3\r\n\r\n" % server.port
        ]


@on_each_loop
async def test_a_request_without_a_body_has_no_length_and_another_host_can_be_named() -> None:
    async with serving(_echo) as server, sending_to(server.port) as upstream:
        heard = Heard()
        upstream.send(call(method=b"DELETE"), heard, host=b"mcp.example")
        await heard.wait_end()
        assert server.requests == [b"DELETE /mcp HTTP/1.1\r\nHost: mcp.example\r\n\r\n"]


@on_each_loop
async def test_a_large_body_arrives_whole() -> None:
    bodies: list[bytes] = []

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        bodies.append((await upstreams.take(peer))[1])
        await peer.send(OK)

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard = Heard()
        upstream.send(call(body=bytes(3_000_000)), heard)
        assert await heard.wait_end() == CLEAN
        assert bodies == [bytes(3_000_000)]


# --- what is told -------------------------------------------------------------------------------


@on_each_loop
async def test_an_answer_is_told_with_its_end_to_end_headers() -> None:
    heard = await _ask(
        b"HTTP/1.1 299 Fine By Me\r\nA: 1\r\na: 2\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\n"
        b"Keep-Alive: timeout=5\r\nContent-Length: 2\r\nVary: b \r\n\r\nok"
    )
    assert (heard.status, heard.reason) == (299, b"Fine By Me")
    assert heard.headers == ((b"A", b"1"), (b"a", b"2"), (b"Vary", b"b"))
    assert (heard.body, heard.end) == (b"ok", CLEAN)


@on_each_loop
async def test_the_chunks_of_one_read_are_told_at_once() -> None:
    heard = await _ask(CHUNKED + b"1\r\na\r\n2\r\nbc\r\n1\r\nd\r\n0\r\n\r\n")
    assert (heard.reads, heard.end) == ([b"abcd"], CLEAN)


@on_each_loop
async def test_each_end_of_an_answer_is_told_apart() -> None:
    sized = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
    cases = {
        "chunks cut": (CHUNKED + b"4\r\nhalf\r\n", b"half", (LegEnd.BROKEN, "truncated")),
        "inside a chunk": (CHUNKED + b"9\r\nhalf", b"half", (LegEnd.BROKEN, "truncated")),
        "length cut": (sized, b"half", (LegEnd.BROKEN, "truncated")),
        "close-delimited": (b"HTTP/1.0 200 OK\r\n\r\nhalf", b"half", (LegEnd.BROKEN, "")),
        "no answer": (b"", b"", (LegEnd.BROKEN, "reset")),
        "half a head": (b"HTTP/1.1 200 OK\r\nA", b"", (LegEnd.BROKEN, "reset")),
        "no HTTP": (b"+OK hello\r\n", b"", (LegEnd.BROKEN, "protocol")),
        "bad first chunk": (CHUNKED + b"zz\r\n", b"", (LegEnd.BROKEN, "protocol")),
        "upgrade": (
            b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
            b"",
            (LegEnd.BROKEN, "protocol"),
        ),
    }
    for name, (data, body, end) in cases.items():
        heard = await _ask(data)
        assert (name, heard.body, heard.end) == (name, body, end)


async def _end_after_a_read(then: Callable[[Peer], Awaitable[None]]) -> Heard:
    """What is told of an answer that was read up to an `a` when `then` happens."""
    is_read = asyncio.Event()

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(CHUNKED + b"1\r\na\r\n")
        await is_read.wait()
        await then(peer)

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard = Heard()
        upstream.send(call(), heard)
        await until(lambda: heard.body == b"a")
        is_read.set()
        await heard.wait_end()
        return heard


@on_each_loop
async def test_a_reset_inside_a_body_is_no_truncation() -> None:
    async def reset(peer: Peer) -> None:
        peer.reset()

    heard = await _end_after_a_read(reset)
    assert heard.end == (LegEnd.BROKEN, "reset")


@on_each_loop
async def test_what_came_before_a_bad_chunk_is_told_before_the_end() -> None:
    heard = await _end_after_a_read(lambda peer: peer.send(b"1\r\nb\r\nzz\r\n"))
    assert (heard.body, heard.end) == (b"ab", (LegEnd.BROKEN, "protocol"))


@on_each_loop
async def test_answers_without_a_body_end_with_their_head_and_keep_the_connection() -> None:
    heads = [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 700\r\n\r\n", Framing(Delimiter.NOTHING, 700)),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", Framing(Delimiter.NOTHING, 9)),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n", Framing(Delimiter.NOTHING)),
        (b"POST", b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", Framing(Delimiter.LENGTH, 0)),
    ]

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        for _, head, _ in heads:
            await upstreams.take(peer)
            await peer.send(head)
        await peer.wait_gone()

    async with serving(script) as server, sending_to(server.port) as upstream:
        for method, _, framing in heads:
            heard = Heard()
            leg = upstream.send(call(method=method), heard)
            assert await heard.wait_end() == CLEAN
            assert (heard.body, leg.framing) == (b"", framing)
        assert server.connections == 1


@on_each_loop
async def test_interim_answers_are_skipped() -> None:
    heard = await _ask(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: a\r\n\r\n" + OK)
    assert (heard.status, heard.headers, heard.body) == (200, (), b"ok")


@on_each_loop
async def test_no_header_of_an_answer_can_smuggle_a_line_end() -> None:
    heard = await _ask(b"HTTP/1.1 200 OK\r\nA: b\r\n Set-Cookie: c\r\nB: d\re\r\nContent-Length: 0\r\n\r\n")
    assert all(b"\r" not in value and b"\n" not in value for _, value in heard.headers)


@on_each_loop
async def test_headers_above_the_limit_are_a_protocol_error() -> None:
    fits = await _ask(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: " + b"a" * 60_000 + b"\r\n\r\n")
    large = await _ask(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: " + b"a" * 70_000 + b"\r\n\r\n")
    assert (fits.end, large.end) == (CLEAN, (LegEnd.BROKEN, "protocol"))


# --- the pool (W2) ------------------------------------------------------------------------------


@on_each_loop
async def test_a_connection_is_used_again_even_by_the_call_that_its_end_brings() -> None:
    async with serving(_echo) as server, sending_to(server.port) as upstream:
        first, second = Heard(), Heard()
        first.on_end = partial(upstream.send, call(2), second)
        upstream.send(call(1), first)
        assert await second.wait_end() == CLEAN
        assert (server.connections, len(server.requests)) == (1, 2)


@on_each_loop
async def test_a_post_never_goes_out_on_a_connection_that_idled_too_long_and_a_get_may() -> None:
    limits = UpstreamLimits(reuse_s=0.0)
    async with serving(_echo) as server, sending_to(server.port, limits) as upstream:
        for method, connections in ((b"POST", 1), (b"POST", 2), (b"GET", 2)):
            heard = Heard()
            upstream.send(call(method=method), heard)
            assert await heard.wait_end() == CLEAN
            assert server.connections == connections


@on_each_loop
async def test_idle_connections_are_closed_when_the_pool_forgets_them() -> None:
    gone = asyncio.Event()

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(OK)
        await peer.wait_gone()
        gone.set()

    limits = UpstreamLimits(pool_s=0.02)
    async with serving(script) as server, sending_to(server.port, limits) as upstream:
        heard = Heard()
        upstream.send(call(), heard)
        await heard.wait_end()
        await gone.wait()
        assert "0 idle" in repr(upstream)


@on_each_loop
async def test_a_connection_that_the_server_ended_carries_nothing_more() -> None:
    """Even when the end has arrived and the loop has not looked yet."""

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(OK)

    async with serving(script) as server, sending_to(server.port) as upstream:
        for _ in range(20):
            heard = Heard()
            upstream.send(call(), heard)
            assert await heard.wait_end() == CLEAN
            await until(lambda: not server.playing)
        assert server.connections == len(server.requests) == 20


@on_each_loop
async def test_bytes_that_nobody_asked_for_end_an_idle_connection() -> None:
    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(OK)
        await peer.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await peer.wait_gone()

    async with serving(script) as server, sending_to(server.port) as upstream:
        for _ in range(2):
            heard = Heard()
            upstream.send(call(), heard)
            assert (await heard.wait_end(), heard.status) == (CLEAN, 200)
            await until(lambda: not server.playing)
        assert server.connections == 2


@on_each_loop
async def test_what_stands_behind_an_answer_in_one_read_keeps_its_connection_from_being_used_again() -> None:
    for behind in (b"no HTTP\r\n\r\n", OK):
        first, second = Heard(), Heard()

        async def script(
            upstreams: Upstreams, peer: Peer, heard: Heard = first, behind: bytes = behind
        ) -> None:
            if upstreams.connections == 2:
                await _echo(upstreams, peer)
            await upstreams.take(peer)
            await peer.send(CHUNKED)
            await until(lambda: heard.status is not None)
            await peer.send(b"2\r\nok\r\n0\r\n\r\n" + behind)
            await peer.wait_gone()

        async with serving(script) as server, sending_to(server.port) as upstream:
            first.on_end = partial(upstream.send, call(2), second)
            upstream.send(call(1), first)
            assert await second.wait_end() == first.end == CLEAN
            assert (first.body, second.body, server.connections) == (b"ok", b"ok", 2)


@on_each_loop
async def test_a_leg_paused_in_its_last_read_does_not_silence_the_next_one() -> None:
    async with serving(_echo) as server, sending_to(server.port) as upstream:
        first, second = Heard(), Heard()
        leg = upstream.send(call(1), first)
        first.on_read = leg.pause
        assert await first.wait_end() == CLEAN
        upstream.send(call(2), second)
        assert await second.wait_end() == CLEAN
        assert server.connections == 1


@on_each_loop
async def test_what_fails_after_it_was_written_is_broken_and_never_sent_again() -> None:
    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(OK)
        await upstreams.take(peer)

    for method in (b"GET", b"POST"):
        async with serving(script) as server, sending_to(server.port) as upstream:
            first, second = Heard(), Heard()
            upstream.send(call(method=method), first)
            await first.wait_end()
            upstream.send(call(method=method), second)
            assert await second.wait_end() == (LegEnd.BROKEN, "reset")
            assert (server.connections, len(server.requests)) == (1, 2)


# --- not sent -----------------------------------------------------------------------------------


@on_each_loop
async def test_a_refused_connect_is_not_sent() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with sending_to(unused.getsockname()[1]) as upstream:
            heard = Heard()
            leg = upstream.send(call(), heard)
            assert heard.end is None  # never told from inside the call
            assert await heard.wait_end() == (LegEnd.NOT_SENT, "connect")
            assert leg.state is LegState.OVER


@on_each_loop
async def test_a_connect_that_hangs_is_not_sent() -> None:
    with socket.socket() as full, socket.socket() as queued, socket.socket() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for sock in (queued, waiting):  # one fills the queue, the next shows that it is full
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        async with sending_to(full.getsockname()[1], UpstreamLimits(connect_s=0.05)) as upstream:
            heard = Heard()
            upstream.send(call(), heard)
            assert await heard.wait_end() == (LegEnd.NOT_SENT, "connect")


@on_each_loop
async def test_an_unknown_name_is_not_sent() -> None:
    upstream = Upstream(Origin.from_url("http://no-such-host.invalid"))
    heard = Heard()
    upstream.send(call(), heard)
    assert await heard.wait_end() == (LegEnd.NOT_SENT, "connect")
    await upstream.close()


class _LateUpstream(Upstream):
    """One whose fresh connections are lost before anything could be written."""

    async def _connect(self) -> LegConnection:
        connection = await super()._connect()
        await until(connection.transport.is_closing)
        return connection


@on_each_loop
async def test_a_fresh_connection_lost_before_the_first_byte_is_not_sent() -> None:
    async def script(upstreams: Upstreams, peer: Peer) -> None:
        peer.reset()

    async with serving(script) as server:
        upstream = _LateUpstream(Origin.from_url(f"http://127.0.0.1:{server.port}"))
        heard = Heard()
        upstream.send(call(), heard)
        assert await heard.wait_end() == (LegEnd.NOT_SENT, "reset")
        await upstream.close()


# --- time, pressure, closing --------------------------------------------------------------------


@on_each_loop
async def test_headers_that_do_not_come_in_time_are_silence() -> None:
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


# --- the origin ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://127.0.0.1:8000", Origin("http", "127.0.0.1", 8000, b"127.0.0.1:8000", b"")),
        ("http://mcp.example/", Origin("http", "mcp.example", 80, b"mcp.example", b"")),
        ("https://mcp.example:443/base/", Origin("https", "mcp.example", 443, b"mcp.example", b"/base")),
        ("http://[::1]:8000/a/b", Origin("http", "::1", 8000, b"[::1]:8000", b"/a/b")),
    ],
)
def test_an_origin_is_read_from_a_url(url: str, origin: Origin) -> None:
    assert Origin.from_url(url) == origin


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://a", "http://", "http://u@a", "http://a?b", "http://a/ b", "http://a:x"]
)
def test_what_is_no_origin_says_so(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Origin.from_url(url)


@on_each_loop
async def test_the_path_of_the_origin_stands_before_every_target() -> None:
    async with serving(_echo) as server:
        upstream = Upstream(Origin.from_url(f"http://127.0.0.1:{server.port}/base"))
        heard = Heard()
        upstream.send(call(), heard)
        await heard.wait_end()
        assert server.requests[0].startswith(b"POST /base/mcp HTTP/1.1\r\n")
        await upstream.close()


@on_each_loop
async def test_a_name_with_several_addresses_uses_the_one_that_connects() -> None:
    """`localhost` is ::1 and 127.0.0.1 on most machines; the server listens on the latter only."""
    async with serving(_echo) as server:
        upstream = Upstream(Origin.from_url(f"http://localhost:{server.port}"))
        heard = Heard()
        upstream.send(call(), heard)
        assert await heard.wait_end() == CLEAN
        await upstream.close()
