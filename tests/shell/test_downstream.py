"""What arrives of a request, and what is refused before it is one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from epochgate.shell.downstream import ServerLimits
from epochgate.shell.exchange import Exchange
from epochgate.shell.headers import Allowed
from epochgate.units import Address
from tests.shell.wire import DEADLINE_S, Owner, Peer, connected, listening, on_each_loop, until

GET = b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


def _ok(exchange: Exchange) -> None:
    exchange.respond(200, (), b"ok")


@contextmanager
def _logged() -> Iterator[list[str]]:
    """What the shell logs meanwhile."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("epochgate.shell")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


@on_each_loop
async def test_a_request_arrives_byte_for_byte() -> None:
    owner = Owner(_ok)
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(
            b"PUT /a%2Fb//c;d?e=%20&f=[~]#g HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nx-a:  2 \r\n"
            b"Content-Length: 3\r\n\r\nabc"
        )
        exchange = await owner.take()
        assert exchange.method == b"PUT"
        assert exchange.target == b"/a%2Fb//c;d?e=%20&f=[~]#g"
        assert exchange.raw_headers == (
            (b"Host", b"a"),
            (b"X-A", b"1"),
            (b"x-a", b"2"),
            (b"Content-Length", b"3"),
        )
        assert (exchange.body, exchange.has_body) == (b"abc", True)
        assert (exchange.peer, exchange.version) == ("127.0.0.1", (1, 1))


@on_each_loop
async def test_a_body_in_chunks_and_in_pieces_arrives_whole() -> None:
    owner = Owner(_ok)
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab")
        await asyncio.sleep(0)
        await client.send(b"c\r\n%x\r\n" % 1_000_000 + bytes(1_000_000) + b"\r\n0\r\n\r\n")
        exchange = await owner.take()
        assert exchange.body == b"abc" + bytes(1_000_000)


@on_each_loop
async def test_no_body_is_told_from_an_empty_one() -> None:
    owner = Owner(_ok)
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(GET)
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        assert not (await owner.take(0)).has_body
        assert (await owner.take(1)).has_body
        assert [exchange.id for exchange in owner.exchanges] == [1, 2]


@on_each_loop
async def test_requests_of_one_connection_are_served_in_order() -> None:
    owner = Owner()
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(POST + GET)
        first = await owner.take(0)
        first.respond(200, (), b"one")
        (await owner.take(1)).respond(200, (), b"two")
        assert (await client.read_message())[1] == b"one"
        assert (await client.read_message())[1] == b"two"


async def _refusal_of(
    *writes: bytes, limits: ServerLimits | None = None, allowed: Allowed | None = None
) -> tuple[bytes, list[int]]:
    """The status line that answers `writes`, and the statuses that were told."""
    owner = Owner(_ok)
    told: list[int] = []
    async with (
        listening(owner.handle, limits, allowed, on_refused=told.append) as (_, port),
        connected(port) as client,
    ):
        for data in writes:
            await client.send(data)
        answer = await client.read_rest()
        assert owner.exchanges == []
        return answer.partition(b"\r\n")[0], told


@on_each_loop
async def test_what_is_no_request_is_refused_with_its_status() -> None:
    post = b"POST / HTTP/1.1\r\nHost: a\r\n"
    small = ServerLimits(body_bytes=10, body_s=0.02, linger_s=0.02)
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    too_large = b"413 " + HTTPStatus(413).phrase.encode()  # Python 3.13 has other words for it
    cases = {
        b"400 Bad Request": (b"hello\r\n\r\n", None),
        too_large: (post + b"Content-Length: 11\r\n\r\n", small),
        b"408 Request Timeout": (post + b"Content-Length: 9\r\n\r\nabc", small),
        b"501 Not Implemented": (b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", None),
        b"431 Request Header Fields Too Large": (GET[:-2] + b"X: y\r\n" * 300 + b"\r\n", None),
    }
    for status, (request, limits) in cases.items():
        line, told = await _refusal_of(request, limits=limits)
        assert (line, told) == (b"HTTP/1.1 " + status, [int(status[:3])])
    line, _ = await _refusal_of(chunked + b"6\r\nabcdef\r\n6\r\nabcdef\r\n0\r\n\r\n", limits=small)
    assert line == b"HTTP/1.1 " + too_large


@on_each_loop
async def test_a_body_that_grows_too_large_while_it_comes_is_refused() -> None:
    limits = ServerLimits(body_bytes=10, linger_s=0.02)
    owner = Owner(_ok)
    async with listening(owner.handle, limits) as (server, port), connected(port) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n")
        await until(lambda: any(not connection.is_idle for connection in server.live))
        for _ in range(10):
            await asyncio.sleep(0)
        await client.send(b"6\r\nabcdef\r\n")
        assert (await client.read_rest()).startswith(b"HTTP/1.1 413 ")
        assert owner.exchanges == []


@on_each_loop
async def test_a_bad_chunk_inside_a_body_is_refused_at_once() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
    async with (
        listening(Owner(_ok).handle, ServerLimits(body_s=DEADLINE_S * 2)) as (server, port),
        connected(port) as client,
    ):
        await client.send(head)
        await until(lambda: any(not connection.is_idle for connection in server.live))
        await client.send(b"zz\r\n")
        assert (await client.read_rest()).startswith(b"HTTP/1.1 400 ")


@on_each_loop
async def test_a_client_that_leaves_inside_its_body_is_no_request() -> None:
    owner = Owner(_ok)
    with _logged() as lines:
        async with listening(owner.handle) as (server, port):
            for leave in (Peer.reset, Peer.half_close):
                async with connected(port) as client:
                    await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
                    await until(lambda: any(not connection.is_idle for connection in server.live))
                    leave(client)
                    await until(lambda: not server.live)
    assert owner.exchanges == []
    assert lines == []


@on_each_loop
async def test_foreign_hosts_and_origins_are_refused_on_loopback() -> None:
    """W12: a page of another site must not reach a local server through a name of its own."""
    local = Allowed.for_listener(Address("127.0.0.1", 1))
    line, told = await _refusal_of(GET, allowed=local)
    assert (line, told) == (b"HTTP/1.1 403 Forbidden", [403])
    origin = b"GET / HTTP/1.1\r\nHost: localhost:80\r\nOrigin: http://evil.example\r\n\r\n"
    assert (await _refusal_of(origin, allowed=local))[0] == b"HTTP/1.1 403 Forbidden"


@on_each_loop
async def test_a_handler_that_fails_breaks_the_connection_and_writes_no_answer() -> None:
    async def fail(exchange: Exchange) -> None:
        exchange.open(200, ())
        exchange.write(b"a")
        raise LookupError("a bug")

    async with listening(fail) as (_, port), connected(port) as client:
        await client.send(GET)
        assert not (await client.read_rest()).endswith(b"0\r\n\r\n")

    async def fail_at_once(exchange: Exchange) -> None:
        raise LookupError("a bug")

    async with listening(fail_at_once) as (_, port), connected(port) as client:
        await client.send(GET)
        assert await client.read_rest() == b""
