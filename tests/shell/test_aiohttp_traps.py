"""Every trap of aiohttp that was measured, as behaviour of our legs over real sockets.

`TestClient` and `TestServer` hide several of them, so both ends here are raw connections.
"""

from __future__ import annotations

import asyncio
import gzip
import logging

import pytest

from epochgate.core.events import LegEnd
from epochgate.shell.exchange import Exchange
from epochgate.shell.relay import Relayed
from epochgate.shell.spawn import Tasks
from tests.shell.wire import (
    Heard,
    Owner,
    Peer,
    Upstreams,
    call,
    connected,
    listening,
    on_each_loop,
    relaying,
    run,
    sending_to,
    serving,
    until,
)

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n"


async def _ok(upstreams: Upstreams, peer: Peer) -> None:
    while True:
        await upstreams.take(peer)
        await peer.send(OK)


async def _streaming(upstreams: Upstreams, peer: Peer) -> None:
    """GETs are answered by a stream that stays quiet, everything else at once."""
    while True:
        head, _ = await upstreams.take(peer)
        if head.startswith(b"GET"):
            await peer.send(CHUNKED)
            await peer.wait_gone()
            return
        await peer.send(OK)


async def _through(request: bytes, answer: bytes) -> tuple[bytes, bytes]:
    """The head that the server saw, and all that the client read."""

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(answer)

    async with serving(script) as server, relaying(server.port) as proxy, connected(proxy.port) as client:
        proxy.server.begin_drain()
        await client.send(request)
        read = await client.read_rest()
        return server.requests[0], read


@on_each_loop
async def test_hidden_resend_a_request_whose_upstream_drops_is_seen_upstream_once() -> None:
    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)

    for method in (b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"POST"):
        async with serving(script) as server, sending_to(server.port) as upstream:
            heard = Heard()
            upstream.send(call(method=method), heard)
            assert await heard.wait_end() == (LegEnd.BROKEN, "reset")
            await upstream.close()
            assert (server.connections, len(server.requests)) == (1, 1)


@on_each_loop
async def test_outliving_handler_a_quiet_upstream_leg_ends_with_its_client() -> None:
    async with serving(_streaming) as server, relaying(server.port) as proxy:
        async with connected(proxy.port) as client:
            await client.send(GET)
            await client.read_head()
        await until(lambda: not server.playing)


@on_each_loop
async def test_outliving_handler_a_running_handler_is_told_and_not_cancelled() -> None:
    owner = Owner()

    async def handler(exchange: Exchange) -> None:
        await owner.handle(exchange)
        await exchange.wait_done()
        await asyncio.sleep(0)
        owner.told.append("went on")

    async with listening(handler) as (_, port), connected(port) as client:
        await client.send(GET)
        await client.close()
        await until(lambda: owner.told == ["left", "went on"])


@on_each_loop
async def test_failed_write_a_client_that_left_is_no_failure_of_the_upstream() -> None:
    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(CHUNKED)
        while True:
            await peer.send(b"186a0\r\n" + bytes(100_000) + b"\r\n")

    async with serving(script) as server, relaying(server.port) as proxy:
        async with connected(proxy.port) as client:
            await client.send(GET)
            await client.read_head()
            client.reset()
        await until(lambda: bool(proxy.finished))
        assert proxy.finished == [Relayed(200, "")]


class _LeapingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward."""

    leapt = 0.0

    def time(self) -> float:
        return super().time() + self.leapt


def test_300_s_a_stream_has_no_total_time() -> None:
    async def main() -> None:
        goes_on = asyncio.Event()

        async def script(upstreams: Upstreams, peer: Peer) -> None:
            await upstreams.take(peer)
            await peer.send(CHUNKED)
            await goes_on.wait()
            await peer.send(b"1\r\na\r\n0\r\n\r\n")

        async with (
            serving(script) as server,
            relaying(server.port) as proxy,
            connected(proxy.port) as client,
        ):
            await client.send(GET)
            await client.read_head()
            loop = asyncio.get_running_loop()
            assert isinstance(loop, _LeapingLoop)
            loop.leapt += 7_200.0
            for _ in range(10):
                await asyncio.sleep(0)
            goes_on.set()
            assert await client.read_chunk() == b"a"

    run(main(), _LeapingLoop, within_s=10_000.0)  # its deadline stands on the same clock


@on_each_loop
async def test_line_limit_a_line_of_megabytes_passes() -> None:
    line = b"data: " + b"x" * 3_000_000 + b"\n\n"
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(line) + line
    _, read = await _through(GET, answer)
    assert read.endswith(line)


@on_each_loop
async def test_not_transparent_nothing_is_added_followed_kept_or_requoted() -> None:
    answer = (
        b"HTTP/1.1 302 Found\r\nLocation: http://other.example/\r\nSet-Cookie: user=a\r\n"
        b"Content-Length: 0\r\n\r\n"
    )

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        while True:
            await upstreams.take(peer)
            await peer.send(answer)

    async with serving(script) as server, relaying(server.port) as proxy, connected(proxy.port) as client:
        for _ in range(2):
            await client.send(b"GET /a%2Fb%41?x=%7e HTTP/1.1\r\nHost: a\r\n\r\n")
            assert await client.read_head() == answer
        assert (
            server.requests
            == [b"GET /a%%2Fb%%41?x=%%7e HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.port] * 2
        )


@on_each_loop
async def test_pool_of_100_open_streams_do_not_keep_a_call_waiting() -> None:
    async with serving(_streaming) as server, sending_to(server.port) as upstream:
        streams = [Heard() for _ in range(150)]
        for number, stream in enumerate(streams):
            upstream.send(call(number, b"GET"), stream)
        await until(lambda: all(stream.status == 200 for stream in streams))
        heard = Heard()
        upstream.send(call(999), heard)
        assert await heard.wait_end() == (LegEnd.CLEAN, "")


@on_each_loop
async def test_server_limits_large_bodies_headers_and_challenges_pass() -> None:
    token = b"Authorization: Bearer " + b"t" * 9_000 + b"\r\n"
    many = b"".join(b"X-%d: 1\r\n" % number for number in range(150))
    body = bytes(2 * 1024 * 1024)
    request = b"POST / HTTP/1.1\r\nHost: a\r\n%b%bContent-Length: %d\r\n\r\n" % (token, many, len(body))
    challenge = b"WWW-Authenticate: Bearer " + b"c" * 9_000 + b"\r\n"
    seen, read = await _through(
        request + body, b"HTTP/1.1 401 Unauthorized\r\n%bContent-Length: 0\r\n\r\n" % challenge
    )
    assert token in seen
    assert many in seen
    assert challenge in read


@on_each_loop
async def test_framing_headers_are_made_for_each_leg() -> None:
    packed = gzip.compress(b"[]")
    request = (
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)
    )
    answer = (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)
    )
    seen, read = await _through(request, answer)
    assert b"Transfer-Encoding" not in seen
    assert b"Content-Encoding: gzip\r\nContent-Length: %d\r\n" % len(packed) in seen
    assert b"Content-Encoding: gzip\r\n" in read
    assert packed in read
    _, old = await _through(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n", answer)
    assert b"Transfer-Encoding" not in old
    assert old.endswith(b"\r\n\r\n" + packed)


@on_each_loop
async def test_202_stays_without_a_type_and_without_chunks() -> None:
    _, read = await _through(GET, b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
    assert read == b"HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@on_each_loop
async def test_upstream_dies_in_a_stream_no_second_answer_and_no_clean_end_is_written() -> None:
    _, read = await _through(GET, CHUNKED + b"1\r\na\r\n")
    assert read.count(b"HTTP/1.1") <= 1
    assert not read.endswith(b"0\r\n\r\n")


@on_each_loop
async def test_clean_end_and_drop_are_two_events_and_close_delimited_counts_as_a_drop() -> None:
    ends = []
    for answer in (CHUNKED + b"0\r\n\r\n", CHUNKED, b"HTTP/1.0 200 OK\r\n\r\nbody"):

        async def script(upstreams: Upstreams, peer: Peer, answer: bytes = answer) -> None:
            await upstreams.take(peer)
            await peer.send(answer)

        async with serving(script) as server, sending_to(server.port) as upstream:
            heard = Heard()
            upstream.send(call(), heard)
            ends.append((await heard.wait_end())[0])
    assert ends == [LegEnd.CLEAN, LegEnd.BROKEN, LegEnd.BROKEN]


@on_each_loop
async def test_sigterm_an_open_stream_does_not_keep_the_server_from_closing() -> None:
    async with serving(_streaming) as server, relaying(server.port) as proxy, connected(proxy.port) as client:
        await client.send(GET)
        await client.read_head()
        before = asyncio.get_running_loop().time()
        await proxy.server.close()
        assert asyncio.get_running_loop().time() - before < 2.0
        await client.wait_gone()


def test_fire_and_forget_a_task_is_kept_awaited_and_its_failure_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        tasks = Tasks()
        ended: list[str] = []

        async def fail() -> None:
            raise LookupError("a bug")

        async def last() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("last")

        tasks.spawn(fail(), "failing")
        tasks.spawn(last(), "lasting")
        await until(lambda: len(tasks) == 1)
        await tasks.close()
        assert (ended, len(tasks)) == (["last"], 0)

    with caplog.at_level(logging.ERROR):
        run(main(), asyncio.new_event_loop)
    assert [record.getMessage() for record in caplog.records] == ["task failing failed"]


@on_each_loop
async def test_bad_chunk_size_inside_a_body_leaves_no_reader_waiting() -> None:
    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(CHUNKED + b"1\r\na\r\n")
        await peer.send(b"zz\r\n")
        await peer.wait_gone()

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard = Heard()
        upstream.send(call(), heard)
        assert await heard.wait_end() == (LegEnd.BROKEN, "protocol")


@on_each_loop
async def test_expect_is_answered_before_the_body_is_waited_for() -> None:
    async with serving(_ok) as server, relaying(server.port) as proxy, connected(proxy.port) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert await client.read_head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"{}")
        assert (await client.read_message())[1] == b"ok"


def test_overlong_header_is_431_and_its_value_is_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with (
            serving(_ok) as server,
            relaying(server.port) as proxy,
            connected(proxy.port) as client,
        ):
            secret = b"secret" * 12_000
            await client.send(b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + secret + b"\r\n\r\n")
            read = await client.read_rest()
            assert read.startswith(b"HTTP/1.1 431 ")
            assert b"secret" not in read
            assert server.requests == []

    with caplog.at_level(logging.DEBUG):
        run(main(), asyncio.new_event_loop)
    assert "secret" not in caplog.text
