"""The client leg over real sockets: what arrives, what is written, and who is told that a client left."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable

import pytest

from epochgate.shell.answer import Phase
from epochgate.shell.downstream import Exchange, Server, ServerLimits
from epochgate.shell.headers import Allowed
from tests.shell.wire import DEADLINE_S, Peer, connected, listening, on_each_loop, until

SSE = ((b"Content-Type", b"text/event-stream"),)
GET = b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n"
GET_10 = b"GET /mcp HTTP/1.0\r\nHost: a\r\n\r\n"
POST = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


class Owner:
    """A handler that takes exchanges, notes what it is told of them, and answers when asked to."""

    def __init__(self, answer: Callable[[Exchange], None] | None = None) -> None:
        self.exchanges: list[Exchange] = []
        self.told: list[str] = []
        self._answer = answer
        self._arrived = asyncio.Condition()

    async def handle(self, exchange: Exchange) -> None:
        exchange.on_left = lambda: self.told.append("left")
        exchange.on_stalled = lambda: self.told.append("stalled")
        exchange.on_drained = lambda: self.told.append("drained")
        async with self._arrived:
            self.exchanges.append(exchange)
            self._arrived.notify_all()
        if self._answer is not None:
            self._answer(exchange)

    async def take(self, number: int = 0) -> Exchange:
        """The exchange with this number, as soon as it is here."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.exchanges) > number)
        return self.exchanges[number]


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


# --- what arrives -------------------------------------------------------------------------------


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


# --- what is written ----------------------------------------------------------------------------


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


# --- who left -----------------------------------------------------------------------------------


@on_each_loop
async def test_a_client_that_leaves_an_idle_stream_is_told_at_once() -> None:
    for leave in (Peer.reset, lambda client: client.writer.close()):
        owner = Owner()
        async with listening(owner.handle) as (_, port), connected(port) as client:
            await client.send(GET)
            exchange = await owner.take()
            exchange.open(200, SSE)
            exchange.write(b": a\n\n")
            await client.read_head()
            leave(client)
            await exchange.wait_done()
            exchange.write(b"late")
            exchange.end(b"late")
            assert (owner.told, exchange.phase) == (["left"], Phase.LEFT)


@on_each_loop
async def test_a_client_that_leaves_before_its_answer_is_told() -> None:
    owner = Owner()
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(POST)
        exchange = await owner.take()
        await client.close()
        await exchange.wait_done()
        exchange.respond(200, (), b"late")
        assert owner.told == ["left"]


@on_each_loop
async def test_a_request_of_a_client_that_is_gone_already_is_still_served_and_told() -> None:
    owner = Owner()
    async with listening(owner.handle) as (_, port), connected(port) as client:
        client.writer.write(POST)
        client.half_close()
        exchange = await owner.take()
        assert exchange.body == b"{}"
        await exchange.wait_done()
        assert owner.told == ["left"]


@on_each_loop
async def test_a_request_and_a_reset_in_one_breath_leave_no_trace() -> None:
    owner = Owner()
    async with listening(owner.handle) as (server, port):
        for _ in range(20):
            async with connected(port) as client:
                client.writer.write(POST)
                client.reset()
        async with connected(port) as client:
            await client.send(GET)
            await until(lambda: bool(owner.exchanges) and owner.exchanges[-1].method == b"GET")
            owner.exchanges[-1].respond(200, (), b"ok")
            assert (await client.read_message())[1] == b"ok"
        await until(lambda: "0 connections" in repr(server))


@on_each_loop
async def test_a_client_that_ended_its_direction_only_gets_the_rest_of_a_stream_that_can_be_probed() -> None:
    owner = Owner()
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(GET)
        exchange = await owner.take()
        exchange.probe = b": probe\n\n"
        exchange.open(200, SSE)
        exchange.write(b": a\n\n")
        client.half_close()
        await client.read_head()
        assert [await client.read_chunk() for _ in range(2)] == [b": a\n\n", b": probe\n\n"]
        exchange.end(b": b\n\n")
        assert await client.read_rest() == b"5\r\n: b\n\n\r\n0\r\n\r\n"
        assert owner.told == []


@on_each_loop
async def test_a_probe_finds_out_a_client_that_is_gone() -> None:
    owner = Owner()
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(GET)
        exchange = await owner.take()
        exchange.probe = b": probe\n\n"
        exchange.open(200, SSE)
        exchange.write(b"")
        await client.read_head()
        await client.close()
        await exchange.wait_done()
        assert owner.told == ["left"]


@on_each_loop
async def test_a_client_that_stops_reading_is_told_once_and_once_more_when_it_goes_on() -> None:
    owner = Owner()
    limits = ServerLimits(write_bytes=64 * 1024)
    async with listening(owner.handle, limits) as (_, port), connected(port, small_window=True) as client:
        await client.send(GET)
        exchange = await owner.take()
        exchange.open(200, SSE)
        exchange.write(b"")
        await client.read_head()
        for turn in range(2):
            written = 0
            while len(owner.told) == 2 * turn:
                exchange.write(bytes(10_000))
                written += 10_000
                await asyncio.sleep(0)
            exchange.write(bytes(10_000))
            assert owner.told[2 * turn :] == ["stalled"]
            read = 0
            while read < written + 10_000:
                read += len(await client.read_chunk())
            assert owner.told[2 * turn :] == ["stalled", "drained"]


@on_each_loop
async def test_a_large_answer_in_one_write_is_no_stall() -> None:
    owner = Owner(lambda exchange: exchange.respond(200, (), bytes(5_000_000)))
    async with listening(owner.handle) as (_, port), connected(port, small_window=True) as client:
        await client.send(GET)
        assert len((await client.read_message())[1]) == 5_000_000
        assert owner.told == []


# --- what is refused ----------------------------------------------------------------------------


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
    cases = {
        b"400 Bad Request": (b"hello\r\n\r\n", None),
        b"413 Request Entity Too Large": (post + b"Content-Length: 11\r\n\r\n", small),
        b"408 Request Timeout": (post + b"Content-Length: 9\r\n\r\nabc", small),
        b"501 Not Implemented": (b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", None),
        b"431 Request Header Fields Too Large": (GET[:-2] + b"X: y\r\n" * 300 + b"\r\n", None),
    }
    for status, (request, limits) in cases.items():
        line, told = await _refusal_of(request, limits=limits)
        assert (line, told) == (b"HTTP/1.1 " + status, [int(status[:3])])
    line, _ = await _refusal_of(chunked + b"6\r\nabcdef\r\n6\r\nabcdef\r\n0\r\n\r\n", limits=small)
    assert line == b"HTTP/1.1 413 Request Entity Too Large"


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
    async with listening(owner.handle) as (server, port):
        for leave in (Peer.reset, Peer.half_close):
            async with connected(port) as client:
                await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
                await until(lambda: any(not connection.is_idle for connection in server.live))
                leave(client)
                await until(lambda: not server.live)
        assert owner.exchanges == []


@on_each_loop
async def test_foreign_hosts_and_origins_are_refused_on_loopback() -> None:
    """W12: a page of another site must not reach a local server through a name of its own."""
    local = Allowed.for_bind("127.0.0.1")
    line, told = await _refusal_of(GET, allowed=local)
    assert (line, told) == (b"HTTP/1.1 421 Misdirected Request", [421])
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


# --- the listener -------------------------------------------------------------------------------


@on_each_loop
async def test_while_draining_every_answer_is_its_connections_last() -> None:
    owner = Owner()
    async with (
        listening(owner.handle) as (server, port),
        connected(port) as client,
        connected(port) as idle,
    ):
        await client.send(GET)
        exchange = await owner.take(0)
        exchange.open(200, SSE)
        exchange.write(b"")
        await idle.send(GET)
        (await owner.take(1)).respond(200, (), b"ok")
        await idle.read_message()
        server.begin_drain()
        await idle.send(GET)  # an idle connection is still served
        (await owner.take(2)).respond(200, (), b"ok")
        assert b"Connection: close\r\n" in await idle.read_rest()
        exchange.end(b": a\n\n")  # it began before, and said nothing of closing
        assert (await client.read_message())[1] == b": a\n\n"
        await client.send(GET)
        await owner.take(3)


@on_each_loop
async def test_once_nothing_is_accepted_a_connection_closes_behind_the_answer_that_runs() -> None:
    owner = Owner()
    async with listening(owner.handle) as (server, port), connected(port) as client:
        await client.send(GET)
        exchange = await owner.take()
        exchange.open(200, SSE)
        server.close_listener()
        exchange.end(b": a\n\n")
        assert (await client.read_rest()).endswith(b"0\r\n\r\n")


@on_each_loop
async def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    owner = Owner()
    async with (
        listening(owner.handle) as (server, port),
        connected(port) as busy,
        connected(port) as idle,
    ):
        await busy.send(GET)
        exchange = await owner.take()
        await until(lambda: len(server.live) == 2)
        server.close_listener()
        server.close_idle()
        assert await idle.read_rest() == b""
        exchange.respond(200, (), b"ok")
        assert (await busy.read_message())[1] == b"ok"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


@on_each_loop
async def test_closing_waits_for_answers_and_then_breaks_what_is_left() -> None:
    owner = Owner()
    async with listening(owner.handle) as (server, port), connected(port) as client:
        await client.send(GET)
        exchange = await owner.take()
        asyncio.get_running_loop().call_soon(exchange.respond, 200, (), b"ok")
        await server.close(DEADLINE_S)
        assert (await client.read_rest()).endswith(b"ok")
    async with listening(owner.handle) as (server, port), connected(port) as client:
        await client.send(GET)
        await owner.take(1)
        await server.close()
        assert await client.read_rest() == b""


@on_each_loop
async def test_running_out_of_descriptors_pauses_accepting_and_is_told() -> None:
    owner = Owner(_ok)
    paused: list[bool] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with listening(owner.handle, on_accept_paused=lambda: paused.append(True)) as (_, port):
        with socket.socket() as client:
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
            try:
                await loop.sock_connect(client, ("127.0.0.1", port))
                await until(lambda: bool(paused))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await loop.sock_sendall(client, GET)
            assert (await loop.sock_recv(client, 100)).endswith(b"ok")
        async with connected(port) as other:
            await other.send(GET)
            assert (await other.read_message())[1] == b"ok"


@on_each_loop
async def test_a_port_in_use_is_an_error_of_the_caller() -> None:
    async with listening(Owner().handle) as (_, port):
        with pytest.raises(OSError, match=r"in use"):
            await Server(Owner().handle).listen("127.0.0.1", port)


@on_each_loop
async def test_a_name_listens_on_all_its_addresses_with_one_port() -> None:
    owner = Owner(_ok)
    server = Server(owner.handle)
    addresses = await server.listen("localhost", 0)
    assert len({port for _, port in addresses}) == 1
    for host, port in addresses:
        reader, writer = await asyncio.open_connection(host, port)
        client = Peer(reader, writer)
        await client.send(GET)
        assert (await client.read_message())[1] == b"ok"
        await client.close()
    await server.close()
