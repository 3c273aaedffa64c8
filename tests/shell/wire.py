"""Scripted peers on real sockets of 127.0.0.1, and the two loops that the shell must run on."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop

from epochgate.core.commands import SendUpstream
from epochgate.core.events import LegEnd
from epochgate.core.http import Headers
from epochgate.shell.connection import UpstreamLimits
from epochgate.shell.downstream import Server, ServerLimits
from epochgate.shell.exchange import Exchange
from epochgate.shell.headers import Allowed, request_headers
from epochgate.shell.origin import Origin
from epochgate.shell.relay import Relayed, relay
from epochgate.shell.upstream import Upstream
from epochgate.units import Address

DEADLINE_S = 10.0
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}

Test = Callable[[], Coroutine[Any, Any, None]]


def run(
    main: Coroutine[Any, Any, None],
    factory: Callable[[], asyncio.AbstractEventLoop],
    within_s: float = DEADLINE_S,
) -> None:
    """Run `main` on a new loop; fail if it takes longer than `within_s` or lets an exception fall."""
    fallen: list[dict[str, Any]] = []

    async def within_deadline() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: fallen.append(context))
        async with asyncio.timeout(within_s):
            await main

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(within_deadline())
    assert fallen == []


def on_each_loop(test: Test) -> Callable[[str], None]:
    """Make a test of an async function without arguments: once on asyncio, once on uvloop."""

    def on_loop(loop_name: str) -> None:
        run(test(), LOOPS[loop_name])

    on_loop.__name__ = test.__name__
    on_loop.__doc__ = test.__doc__
    return pytest.mark.parametrize("loop_name", list(LOOPS))(on_loop)


async def until(is_true: Callable[[], bool]) -> None:
    """Return when `is_true`; the test's deadline ends a wait that is in vain."""
    while not is_true():  # noqa: ASYNC110  # the conditions are states of sockets, which set no event
        await asyncio.sleep(0)


class Peer:
    """Either end of a raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def read_head(self) -> bytes:
        """A request's or an answer's head, with its blank line."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def read_chunk(self) -> bytes:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def read_message(self) -> tuple[bytes, bytes]:
        """A head and a body framed by length or chunks, decoded."""
        head = await self.read_head()
        lowered = head.lower()
        if b"transfer-encoding: chunked" in lowered:
            parts = []
            while part := await self.read_chunk():
                parts.append(part)
            return head, b"".join(parts)
        _, found, rest = lowered.partition(b"content-length: ")
        length = int(rest.partition(b"\r\n")[0]) if found else 0
        return head, await self.reader.readexactly(length)

    async def read_rest(self) -> bytes:
        """Everything until the other side closes. A reset raises ConnectionResetError."""
        return await self.reader.read(-1)

    async def wait_gone(self) -> None:
        """Return when the other side closed, cleanly or not."""
        with suppress(ConnectionError):
            await self.reader.read(-1)

    def half_close(self) -> None:
        self.writer.write_eof()

    def reset(self) -> None:
        self.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@dataclass
class Upstreams:
    """A scripted server: `script` plays each connection, which is closed when it returns."""

    script: Callable[[Peer], Awaitable[None]]
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)  # heads, noted by `take`
    playing: set[asyncio.Task[None]] = field(default_factory=set)

    async def take(self, peer: Peer) -> tuple[bytes, bytes]:
        """Read one request and note its head."""
        head, body = await peer.read_message()
        self.requests.append(head)
        return head, body

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.playing.add(task)
        peer = Peer(reader, writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self.script(peer)
        finally:
            with suppress(asyncio.CancelledError):
                await peer.close()
            self.playing.discard(task)


Script = Callable[[Upstreams, Peer], Awaitable[None]]


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Upstreams]:
    """A raw server that plays `script` on each connection."""
    upstreams = Upstreams(script=lambda peer: script(upstreams, peer))
    server = await asyncio.start_server(upstreams.play, "127.0.0.1", 0, backlog=512)
    upstreams.port = server.sockets[0].getsockname()[1]
    try:
        yield upstreams
    finally:
        server.close()
        playing = tuple(upstreams.playing)
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        await server.wait_closed()


@asynccontextmanager
async def sending_to(port: int, limits: UpstreamLimits | None = None) -> AsyncIterator[Upstream]:
    upstream = Upstream(Origin.from_url(f"http://127.0.0.1:{port}"), limits)
    try:
        yield upstream
    finally:
        await upstream.close()


@asynccontextmanager
async def listening(
    handler: Callable[[Exchange], Awaitable[None]],
    limits: ServerLimits | None = None,
    allowed: Allowed | None = None,
    **callbacks: Callable[..., None],
) -> AsyncIterator[tuple[Server, int]]:
    """A server of ours and its port."""
    server = Server(handler, limits, **callbacks)
    (bound,) = await server.listen(Address("127.0.0.1", 0), allowed)
    assert isinstance(bound, Address)
    try:
        yield server, bound.port
    finally:
        await server.close()


@dataclass
class Relaying:
    """A relay between a raw client and a raw server."""

    port: int
    upstream: Upstream
    server: Server
    finished: list[Relayed]


@asynccontextmanager
async def relaying(port: int) -> AsyncIterator[Relaying]:
    finished: list[Relayed] = []
    async with sending_to(port) as upstream:

        async def handler(exchange: Exchange) -> None:
            headers = request_headers(exchange.raw_headers)
            finished.append(await relay(exchange, (upstream,), headers, exchange.id))

        async with listening(handler) as (server, own_port):
            yield Relaying(own_port, upstream, server, finished)


@asynccontextmanager
async def connected(port: int, small_window: bool = False) -> AsyncIterator[Peer]:
    """A raw client. `small_window` lets it hold little that it has not read."""
    sock = socket.socket()
    if small_window:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=64 * 1024)
    peer = Peer(reader, writer)
    try:
        yield peer
    finally:
        await peer.close()


def call(leg: int = 1, method: bytes = b"POST", target: bytes = b"/mcp", **fields: Any) -> SendUpstream:
    """A request to send; a POST has the body `{}` unless `fields` say otherwise."""
    fields.setdefault("body", b"{}" if method == b"POST" else None)
    fields.setdefault("headers", ())
    return SendUpstream(leg, method, target, **fields)


class Heard:
    """A sink that remembers what a leg told."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.reason = b""
        self.headers: Headers = ()
        self.reads: list[bytes] = []
        self.end: tuple[LegEnd, str] | None = None
        self.told = asyncio.Event()
        self.on_read: Callable[[], object] = lambda: None
        self.on_end: Callable[[], object] = lambda: None

    @property
    def body(self) -> bytes:
        return b"".join(self.reads)

    def leg_answered(self, leg: int, status: int, headers: Headers, reason: bytes) -> None:
        assert self.status is None
        self.status, self.headers, self.reason = status, headers, reason

    def leg_read(self, leg: int, data: bytes) -> None:
        assert self.end is None
        self.reads.append(data)
        self.on_read()

    def leg_whole(self, leg: int, status: int, headers: Headers, reason: bytes, body: bytes) -> None:
        self.leg_answered(leg, status, headers, reason)
        if body:
            self.leg_read(leg, body)
        self.leg_ended(leg, LegEnd.CLEAN, "")

    def leg_ended(self, leg: int, end: LegEnd, error: str) -> None:
        assert self.end is None
        self.end = (end, error)
        self.told.set()
        self.on_end()

    async def wait_end(self) -> tuple[LegEnd, str]:
        await self.told.wait()
        assert self.end is not None
        return self.end


class Owner:
    """A handler that takes exchanges, notes what it is told of them, and answers when asked to."""

    def __init__(self, answer: Callable[[Exchange], None] | None = None) -> None:
        self.exchanges: list[Exchange] = []
        self.told: list[str] = []
        self._answer = answer
        self._arrived = asyncio.Condition()

    async def handle(self, exchange: Exchange) -> None:
        exchange.owner = self
        async with self._arrived:
            self.exchanges.append(exchange)
            self._arrived.notify_all()
        if self._answer is not None:
            self._answer(exchange)

    def client_left(self, exchange: int) -> None:
        self.told.append("left")

    def client_stalled(self, exchange: int) -> None:
        self.told.append("stalled")

    def client_drained(self, exchange: int) -> None:
        self.told.append("drained")

    async def take(self, number: int = 0) -> Exchange:
        """The exchange with this number, as soon as it is here."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.exchanges) > number)
        return self.exchanges[number]
