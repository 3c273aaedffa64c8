"""What is sent to the upstream, and what is told of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from epochgate.core.events import LegEnd
from epochgate.shell.parser import Delimiter, Framing
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
