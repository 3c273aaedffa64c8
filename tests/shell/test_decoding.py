"""Compressed answers on a leg and through the proxy: decoded as they stream, no faster than they are read."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib

import pytest

from epochgate.core.events import LegEnd
from epochgate.shell.codings import SLICE_BYTES
from tests.shell.wire import Heard, Peer, Upstreams, call, on_each_loop, sending_to, serving, until
from tests.support import server as mcp
from tests.support.client import Client, Truncated, outcome
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, chunk

PACKED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
CHUNKED = PACKED + b"Transfer-Encoding: chunked\r\n\r\n"
HELLO = gzip.compress(b"hello")
CLEAN, TRUNCATED = (LegEnd.CLEAN, ""), (LegEnd.BROKEN, "truncated")


def sized(body: bytes) -> bytes:
    return PACKED + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def heard_of(*writes: bytes, is_decoded: bool = True) -> tuple[Heard, int]:
    """What a leg tells of an answer that is written so, and how many connections a second one took."""

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        while True:
            await upstreams.take(peer)
            for data in writes:
                await peer.send(data)
                await asyncio.sleep(0)
            if b"Content-Length" not in writes[0] and not writes[-1].endswith(b"0\r\n\r\n"):
                return

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard = Heard()
        for heard in (Heard(), Heard()):
            upstream.send(call(method=b"GET"), heard, is_decoded=is_decoded)
            await heard.wait_end()
        await upstream.close()
        await until(lambda: not server.playing)
        return heard, server.connections


@on_each_loop
async def test_an_answer_is_decoded_and_its_connection_used_again() -> None:
    for writes in ((sized(HELLO),), (sized(HELLO)[:-3], HELLO[-3:]), (CHUNKED, chunk(HELLO), b"0\r\n\r\n")):
        heard, connections = await heard_of(*writes)
        assert (heard.body, heard.end, connections) == (b"hello", CLEAN, 1)
        assert heard.headers == ()


@on_each_loop
async def test_nobody_else_s_answer_is_decoded() -> None:
    heard, _ = await heard_of(sized(HELLO), is_decoded=False)
    assert (heard.body, heard.headers) == (HELLO, ((b"Content-Encoding", b"gzip"),))


@on_each_loop
async def test_other_codings_stay_as_they_are() -> None:
    heard, _ = await heard_of(sized(HELLO).replace(b": gzip", b": br"))
    assert (heard.body, heard.headers) == (HELLO, ((b"Content-Encoding", b"br"),))


@on_each_loop
async def test_a_truncated_body_is_broken_however_it_was_framed() -> None:
    part = HELLO[:-1]
    for writes in ((sized(part),), (CHUNKED, chunk(part), b"0\r\n\r\n"), (PACKED + b"\r\n", part)):
        heard, _ = await heard_of(*writes)
        assert (heard.body, heard.end) == (b"hello", TRUNCATED)


@on_each_loop
async def test_a_corrupt_body_is_broken_and_its_connection_not_used_again() -> None:
    for writes in ((CHUNKED, chunk(HELLO), chunk(b"rest"), b"0\r\n\r\n"), (CHUNKED, chunk(b"rest" * 9))):
        heard, connections = await heard_of(*writes)
        assert (heard.end, connections) == ((LegEnd.BROKEN, "protocol"), 2)


@on_each_loop
async def test_nothing_is_read_beside_a_body_that_is_corrupt() -> None:
    """The server may go on for ever; its connection is closed."""
    is_closed = False

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        nonlocal is_closed
        await upstreams.take(peer)
        await peer.send(CHUNKED + chunk(b"no gzip"))
        await peer.wait_gone()
        is_closed = True

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard = Heard()
        upstream.send(call(method=b"GET"), heard, is_decoded=True)
        assert await heard.wait_end() == (LegEnd.BROKEN, "protocol")
        await until(lambda: is_closed)


@on_each_loop
async def test_a_paused_leg_decodes_nothing_and_goes_on_where_it_stopped() -> None:
    """A bomb reaches a slow client no faster than it reads."""
    total = SLICE_BYTES * 100
    head_heard = asyncio.Event()

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        bomb = sized(gzip.compress(bytes(total)))
        await upstreams.take(peer)
        await peer.send(bomb)
        for _ in range(2):
            await upstreams.take(peer)
            head, blank, body = bomb.partition(b"\r\n\r\n")
            await peer.send(head + blank)
            await head_heard.wait()
            await peer.send(body)

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard = Heard()
        leg = upstream.send(call(method=b"GET"), heard, is_decoded=True)
        heard.on_read = leg.pause
        for slices in range(1, 4):
            await until(lambda reads=slices: len(heard.reads) == reads)  # type: ignore[misc]
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(heard.reads) == slices
            assert heard.end is None
            leg.resume()
        heard.on_read = lambda: None
        leg.resume()
        assert await heard.wait_end() == CLEAN
        assert heard.body == bytes(total)
        for again in (Heard(), Heard()):  # the socket was left alone meanwhile, and is read again
            upstream.send(call(method=b"GET"), again, is_decoded=True)
            await until(lambda heard=again: heard.status is not None)  # type: ignore[misc]
            head_heard.set()
            assert await again.wait_end() == CLEAN
        assert server.connections == 1


@on_each_loop
async def test_a_leg_paused_by_the_last_of_its_body_ends_once_it_is_resumed() -> None:
    total = SLICE_BYTES * 2 + 1

    async def script(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(sized(gzip.compress(bytes(total))))

    async with serving(script) as server, sending_to(server.port) as upstream:
        heard = Heard()
        leg = upstream.send(call(method=b"GET"), heard, is_decoded=True)
        heard.on_read = leg.pause
        while len(heard.body) < total:
            await until(lambda: leg.is_paused)
            assert heard.end is None
            leg.resume()
        assert await heard.wait_end() == CLEAN


@on_each_loop
async def test_a_leg_that_is_closed_while_it_decodes_tells_nothing_more() -> None:
    async def script(upstreams: Upstreams, peer: Peer) -> None:
        while True:
            await upstreams.take(peer)
            await peer.send(sized(gzip.compress(bytes(SLICE_BYTES * 100))))

    async with serving(script) as server, sending_to(server.port) as upstream:
        for end in ("close", "drain"):
            heard = Heard()
            leg = upstream.send(call(method=b"GET"), heard, is_decoded=True)
            heard.on_read = getattr(leg, end)
            await until(lambda told=heard: told.reads != [])  # type: ignore[misc]
            for _ in range(20):
                await asyncio.sleep(0)
            assert (len(heard.reads), heard.end) == (1, None)


# --- through the proxy ------------------------------------------------------------------------------


class Packed:
    """Plays a call whose events go out packed, each flushed."""

    def __init__(self, cut_after: int | None = None) -> None:
        self.cut_after = cut_after  # only the first run's
        self.asked: list[str | None] = []

    async def __call__(self, leg: Leg) -> None:
        self.asked.append(leg.request.header("accept-encoding"))
        await leg.open(("content-encoding", "gzip"), ("etag", '"x"'))
        packer = zlib.compressobj(wbits=31)
        leg.is_mute = True
        for step in range(1, 4):
            await leg.progress(step)
        await leg.answer()
        for number, (_, raw) in enumerate(leg.run.events):
            await leg.peer.send(chunk(packer.compress(raw) + packer.flush(zlib.Z_SYNC_FLUSH)))
            if number == self.cut_after and leg.run.number == 1:
                break
        else:
            await leg.peer.send(chunk(packer.flush()))
        await leg.end()


async def test_a_packed_stream_is_guarded_like_any_other() -> None:
    play = Packed()
    server = McpServer(play)
    async with mcp.serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        assert answer.header("content-encoding") is None
        assert answer.header("etag") == 'W/"x"'
        messages = await answer.messages()
        assert [message["id"] for message in messages if "result" in message] == [7]
        assert outcome(messages) == "run 1 done"
        assert len(messages) == 4
        assert play.asked == ["identity"]
        assert await proxy.moved("upstream_errors_total") == {}


async def test_a_packed_stream_that_ends_inside_its_coding_is_a_break() -> None:
    """Its framing was clean. Nothing proves the rest, so that it is begun anew."""
    server = McpServer(Packed(cut_after=1), epochs=mcp.Epochs.NEVER)
    async with mcp.serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        assert outcome(await (await client.call()).messages()) == "run 2 done"
        assert await proxy.resumes() == {"upstream restart no_epoch_captured": 1}


async def test_a_packed_answer_above_the_buffer_that_is_cut_does_not_look_whole() -> None:
    """It is passed on as it comes, and broken off where it breaks (R34)."""

    async def play(leg: Leg) -> None:
        message = {"jsonrpc": "2.0", "id": leg.run.id, "result": {"text": "x" * 3_000_000}}
        body = gzip.compress(json.dumps(message).encode())[:-4]
        await leg.refuse(200, body, ("content-type", "application/json"), ("content-encoding", "gzip"))

    server = McpServer(play)
    async with mcp.serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        assert answer.header("content-encoding") is None
        with pytest.raises(Truncated):
            await answer.read()


async def test_a_packed_json_answer_is_stamped_back() -> None:
    async def play(leg: Leg) -> None:
        body = gzip.compress(
            json.dumps({"jsonrpc": "2.0", "id": leg.run.id, "result": leg.result()}).encode()
        )
        await leg.refuse(200, body, ("content-type", "application/json"), ("content-encoding", "x-gzip"))

    server = McpServer(play)
    async with mcp.serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        assert outcome(await answer.messages()) == "run 1 done"
        assert answer.header("content-encoding") is None
