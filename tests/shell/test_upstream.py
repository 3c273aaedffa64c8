"""The pool, what is never sent twice, what was not sent, and the origin."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog

from epochgate.core.events import LegEnd
from epochgate.shell.connection import LegConnection, UpstreamLimits
from epochgate.shell.leg import LegState
from epochgate.shell.origin import Origin
from epochgate.shell.tls import Tls, TlsFiles, client_context
from epochgate.shell.upstream import Upstream
from tests.shell.wire import (
    DEADLINE_S,
    Heard,
    Peer,
    Upstreams,
    call,
    on_each_loop,
    sending_to,
    serving,
    until,
)
from tests.support.certificates import Authority

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CLEAN = (LegEnd.CLEAN, "")


async def _echo(upstreams: Upstreams, peer: Peer) -> None:
    """Answer every request with OK."""
    while True:
        await upstreams.take(peer)
        await peer.send(OK)


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
    """Run twice, a GET changes nothing (W2)."""
    limits = UpstreamLimits(reuse_s=0.0)
    async with serving(_echo) as server, sending_to(server.port, limits) as upstream:
        for method, connections in ((b"POST", 1), (b"POST", 2), (b"GET", 2)):
            heard = Heard()
            upstream.send(call(method=method), heard)
            assert await heard.wait_end() == CLEAN
            assert server.connections == connections


@on_each_loop
async def test_idle_connections_are_closed_when_the_pool_forgets_them() -> None:
    """Before the server does it (W2)."""
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
    """Even when the end has arrived and the loop has not looked yet (W2)."""

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
    """Readable is not idle (W2)."""

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
    """ "Outcome unknown" (W2)."""

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


class _TlsServer:
    """Answers one request on each of two connections; closes the first one when it is told to."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        self.files = authority.issue()
        self._context = authority.server_context(self.files)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(DEADLINE_S)
        self.port = self._listening.getsockname()[1]
        self.may_close, self.has_closed = threading.Event(), threading.Event()

    def play(self) -> None:
        with self._listening:
            self._answer()
            self.has_closed.set()
            self._answer()

    def _answer(self) -> None:
        accepted, _ = self._listening.accept()
        accepted.settimeout(DEADLINE_S)
        with self._context.wrap_socket(accepted, server_side=True) as connection:
            while b"\r\n\r\n" not in connection.recv(65536):
                pass
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            self.may_close.wait(DEADLINE_S)


@on_each_loop
async def test_a_post_never_goes_out_on_a_tls_connection_that_has_an_end_waiting() -> None:
    """W2: also where the end came so late that the loop has not seen it yet."""
    with TemporaryDirectory() as folder, ThreadPoolExecutor(1) as threads:
        server = _TlsServer(Path(folder))
        playing = threads.submit(server.play)
        files = TlsFiles(authorities=server.files.authority)
        tls = Tls(client_context, files, structlog.get_logger(), lambda _: None)
        upstream = Upstream(Origin.from_url(f"https://127.0.0.1:{server.port}"), tls=tls)
        first, second = Heard(), Heard()
        upstream.send(call(), first)
        assert (await first.wait_end())[0] is LegEnd.CLEAN
        server.may_close.set()
        assert server.has_closed.wait(DEADLINE_S)  # and the loop stands still meanwhile
        upstream.send(call(), second)
        assert await second.wait_end() == (LegEnd.CLEAN, "")
        await upstream.close()
        await asyncio.wrap_future(playing)


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
    """There is always a limit to it (W6)."""
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
    for name in ("no-such-host.invalid", "an..empty-label.invalid"):
        upstream = Upstream(Origin.from_url(f"http://{name}"))
        heard = Heard()
        upstream.send(call(), heard)
        assert await heard.wait_end() == (LegEnd.NOT_SENT, "connect")
        await upstream.close()


class _LateUpstream(Upstream):
    """One whose fresh connections are lost before anything could be written."""

    async def connect(self) -> LegConnection:
        connection = await super().connect()
        await until(connection.transport.is_closing)
        return connection


@on_each_loop
async def test_a_fresh_connection_lost_before_the_first_byte_is_not_sent() -> None:
    """ "Not run" (W2)."""

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        peer.reset()

    async with serving(script) as server:
        upstream = _LateUpstream(Origin.from_url(f"http://127.0.0.1:{server.port}"))
        heard = Heard()
        upstream.send(call(), heard)
        assert await heard.wait_end() == (LegEnd.NOT_SENT, "reset")
        await upstream.close()


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
