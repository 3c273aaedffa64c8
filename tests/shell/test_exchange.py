"""What is written: framing, heads, ends that look complete and cuts that never do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from epochgate.shell.exchange import Exchange
from tests.shell.wire import Owner, Peer, connected, listening, on_each_loop

SSE = ((b"Content-Type", b"text/event-stream"),)
GET = b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n"
GET_10 = b"GET /mcp HTTP/1.0\r\nHost: a\r\n\r\n"
POST = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


def _ok(exchange: Exchange) -> None:
    exchange.respond(200, (), b"ok")


async def _answer_to(request: bytes, answer: Callable[[Exchange], None]) -> bytes:
    """Everything the client reads when it asks `request`, then closes."""
    owner = Owner(answer)
    async with listening(owner.handle) as (server, port), connected(port) as client:
        server.begin_drain()
        await client.send(request)
        return await client.read_rest()


async def _read_twice(client: Peer) -> None:
    """A reset is told once what came before it was read."""
    await client.read_rest()
    await client.read_rest()


@on_each_loop
async def test_an_answer_has_its_length_and_no_header_of_ours() -> None:
    headers = ((b"Content-Type", b"a/b"), (b"Set-Cookie", b"1"), (b"Set-Cookie", b"2"))
    owner = Owner(lambda exchange: exchange.respond(299, headers, b"body", b"Fine By Me"))
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(GET)
        assert await client.read_message() == (
            b"HTTP/1.1 299 Fine By Me\r\nContent-Type: a/b\r\nSet-Cookie: 1\r\nSet-Cookie: 2\r\n"
            b"Content-Length: 4\r\n\r\n",
            b"body",
        )


@on_each_loop
async def test_202_and_204_carry_neither_body_nor_type() -> None:
    typed = ((b"Content-Type", b"a/b"), (b"X", b"1"))
    accepted = await _answer_to(POST, lambda exchange: exchange.respond(202, typed, b"no"))
    empty = await _answer_to(POST, lambda exchange: exchange.respond(204, typed, b"no"))
    assert accepted == b"HTTP/1.1 202 Accepted\r\nX: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    assert empty == b"HTTP/1.1 204 No Content\r\nX: 1\r\nConnection: close\r\n\r\n"


@on_each_loop
async def test_an_answer_to_head_has_a_head_alone() -> None:
    def stream(exchange: Exchange) -> None:
        exchange.open(200, ())
        exchange.write(b"body")
        exchange.end(b"more")

    head = b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
    assert (await _answer_to(head, _ok)).endswith(b"Content-Length: 2\r\n\r\n")
    assert (await _answer_to(head, stream)).endswith(b"Transfer-Encoding: chunked\r\n\r\n")


@on_each_loop
async def test_an_open_answer_is_chunked_and_its_head_goes_out_with_the_first_write() -> None:
    owner = Owner()
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(GET)
        exchange = await owner.take()
        assert not exchange.has_started
        exchange.open(200, SSE)
        assert exchange.has_started
        exchange.write(b"")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert await client.read_head() == head
        exchange.write(b"data: 1\n\n")
        exchange.write(b"")
        assert await client.read_chunk() == b"data: 1\n\n"
        exchange.end(b"data: 2\n\n")
        assert not exchange.is_open
        assert await client.reader.readexactly(len(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")) == (
            b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"
        )
        await client.send(GET)  # the connection is still good
        (await owner.take(1)).respond(200, (), b"ok")
        assert (await client.read_message())[1] == b"ok"


@on_each_loop
async def test_an_answer_of_known_length_is_passed_in_pieces() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.open_sized(200, (), 4)
        exchange.write(b"ab")
        exchange.end(b"cd")

    answered = await _answer_to(GET, answer)
    assert answered == b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nabcd"


@on_each_loop
async def test_a_client_of_http_1_0_gets_a_body_that_ends_with_the_connection() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.open(200, ())
        exchange.write(b"ab")
        exchange.end(b"cd")

    assert await _answer_to(GET_10, answer) == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcd"


@on_each_loop
async def test_a_cut_answer_never_looks_complete() -> None:
    """Chunks: no last chunk. HTTP/1.0: a reset (W8). Before the head: nothing at all (W4)."""
    owner = Owner()
    async with listening(owner.handle) as (_, port):
        async with connected(port) as client:
            await client.send(GET)
            exchange = await owner.take(0)
            exchange.open(200, ())
            exchange.write(b"a")
            await client.read_head()
            exchange.abort()
            assert await client.read_rest() == b"1\r\na\r\n"
        async with connected(port) as client:
            await client.send(GET_10)
            exchange = await owner.take(1)
            exchange.open(200, ())
            exchange.write(b"a")
            await client.read_head()
            exchange.abort()
            with pytest.raises(ConnectionResetError):
                await _read_twice(client)
        async with connected(port) as client:
            await client.send(GET)
            (await owner.take(2)).abort()
            assert await client.read_rest() == b""
        assert owner.told == []


@on_each_loop
async def test_every_call_after_the_end_does_nothing() -> None:
    owner = Owner()
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(GET)
        exchange = await owner.take()
        exchange.respond(200, (), b"ok")
        exchange.respond(500, (), b"no")
        exchange.open(500, ())
        exchange.open_sized(500, (), 1)
        exchange.write(b"no")
        exchange.end(b"no")
        exchange.abort()
        await client.send(GET)
        (await owner.take(1)).respond(200, (), b"second")
        assert [(await client.read_message())[1] for _ in range(2)] == [b"ok", b"second"]


@on_each_loop
async def test_a_taken_over_stream_ends_and_its_connection_stays_usable() -> None:
    """The final chunk, no abort (W8)."""
    owner = Owner()
    async with (
        listening(owner.handle) as (_, port),
        connected(port) as old,
        connected(port) as new,
    ):
        await old.send(GET)
        first = await owner.take(0)
        first.open(200, SSE)
        first.write(b": a\n\n")
        await new.send(GET)
        second = await owner.take(1)
        first.end()
        second.open(200, SSE)
        second.end(b": b\n\n")
        assert (await old.read_message())[1] == b": a\n\n"
        assert (await new.read_message())[1] == b": b\n\n"
        await old.send(GET)
        (await owner.take(2)).respond(200, (), b"ok")
        assert (await old.read_message())[1] == b"ok"
