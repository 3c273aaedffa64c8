"""The client leg's way in: aiohttp's low-level server, with answers written as own bytes.

aiohttp parses requests and keeps connections; an `Exchange` is what its handler returns, so nothing
of its responses is used. Handlers are never cancelled when a client leaves: the owner of the
exchange is told, and decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import count
from typing import cast

from aiohttp import web
from aiohttp.http import HttpVersion11

from epochgate.core.http import find
from epochgate.core.policy import KIB, MIB
from epochgate.shell.client_connection import BadBody, Connection
from epochgate.shell.exchange import Exchange
from epochgate.shell.headers import Allowed, find_refusal
from epochgate.shell.listener import Listener, bind
from epochgate.shell.tls import HANDSHAKE_S, Tls
from epochgate.units import Place

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

Handler = Callable[[Exchange], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Seconds (`_s`), bytes (`_bytes`), counts."""

    header_bytes: int = 64 * KIB
    max_headers: int = 256
    body_bytes: int = 16 * MIB
    body_s: float = 30.0  # without a byte of the body
    linger_s: float = 2.0  # a refused body is read into the void, so that its client reads the refusal
    handshake_s: float = HANDSHAKE_S
    keepalive_s: float = 75.0  # longer than clients keep an idle connection; a head has as long to come
    write_bytes: int = 256 * KIB  # waiting to be written, per connection


class Refused(Exception):
    """A request that is answered with a status alone."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class Server(web.Server):
    """Serves `handler` with the exchanges of all its connections.

    The connection goes on when the handler returned *and* the exchange is done, so a handler may
    hand the exchange on. `on_accept_paused` is called when descriptors ran out, `on_refused` with the
    status of every request that never became an exchange.
    """

    def __init__(
        self,
        handler: Handler,
        limits: ServerLimits | None = None,
        *,
        on_accept_paused: Callable[[], None] = lambda: None,
        on_refused: Callable[[int], None] = lambda status: None,
        on_handshake_failed: Callable[[str, str], None] = lambda kind, reason: None,
    ) -> None:
        self.limits = limits or ServerLimits()
        serve = cast("Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]", self._serve)
        super().__init__(serve, handler_cancellation=False)
        self._handler = handler
        self._on_accept_paused = on_accept_paused
        self.on_refused = on_refused
        self._on_handshake_failed = on_handshake_failed
        self._numbers = count(1)
        self._listeners: list[Listener] = []
        self.live: set[Connection] = set()
        self._emptied: asyncio.Future[None] | None = None
        self.is_draining = False
        self.is_closing = False

    def __repr__(self) -> str:
        return f"<Server {len(self.live)} connections{', draining' if self.is_draining else ''}>"

    def _connect(self, allowed: Allowed) -> Connection:
        options = self._connection_options()
        return Connection(self, self._loop, self.limits.write_bytes, allowed, **options)

    def _connection_options(self) -> dict[str, object]:
        return {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": self.limits.keepalive_s,
            "lingering_time": self.limits.linger_s,
            "max_field_size": self.limits.header_bytes,
            "max_headers": self.limits.max_headers,
            "max_line_size": self.limits.header_bytes,
            "tcp_keepalive": False,  # set with the other socket options
        }

    # listening

    async def listen(
        self, place: Place, allowed: Allowed | None = None, tls: Tls | None = None
    ) -> tuple[Place, ...]:
        """Listen on every address of a host or on a path; port 0 takes a free one. Raises OSError.

        `allowed` are the names and Origins served there. Returns where it listens.
        """
        factory = partial(self._connect, allowed or Allowed())
        sockets = await bind(place)
        listener = Listener(
            sockets,
            factory,
            self._on_accept_paused,
            tls,
            self._on_handshake_failed,
            handshake_s=self.limits.handshake_s,
        )
        self._listeners.append(listener)
        return listener.places

    def begin_drain(self) -> None:
        """Serve on, but let every answer that begins from now on be its connection's last (W10)."""
        self.is_draining = True

    def close_listener(self) -> None:
        """Accept no more connections, and close each one behind the answer that runs on it."""
        self.is_closing = True
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    def close_idle(self) -> None:
        """Close the connections on which no request runs or waits."""
        for connection in tuple(self.live):
            if connection.is_idle:
                connection.force_close()

    async def close(self, seconds: float = 0.0) -> None:
        """Drain for at most `seconds`, then break what is left."""
        self.begin_drain()
        self.close_listener()
        self.close_idle()
        await self._wait_empty(seconds)
        for connection in tuple(self.live):
            connection.break_off()
        await self.shutdown(1.0)

    async def _wait_empty(self, seconds: float) -> None:
        if not self.live or seconds <= 0:
            return
        self._emptied = self._loop.create_future()
        await asyncio.wait((self._emptied,), timeout=seconds)

    def opened(self, connection: Connection) -> None:
        self.live.add(connection)

    def lost(self, connection: Connection) -> None:
        self.live.discard(connection)
        if not self.live and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    # serving

    async def _serve(self, request: web.BaseRequest) -> Exchange:
        connection = cast(Connection, request.protocol)
        try:
            self._check(request, connection)
            body = self._body_at_hand(request)
            if body is None:
                body = await self._read_body(request, connection)
        except Refused as refused:
            self.on_refused(refused.status)
            return connection.refuse(refused.status)
        exchange = self._exchange(request, connection, body)
        connection.begin(exchange)
        await self._handler(exchange)
        if exchange.is_open:
            await exchange.wait_done()
        connection.finish(exchange)
        return exchange

    def _check(self, request: web.BaseRequest, connection: Connection) -> None:
        if request.method == "CONNECT":
            raise Refused(HTTPStatus.NOT_IMPLEMENTED)
        refusal = find_refusal(request.raw_headers, connection.allowed)
        if refusal is not None:
            raise Refused(refusal)

    def _exchange(self, request: web.BaseRequest, connection: Connection, body: bytes) -> Exchange:
        raw = request.raw_headers
        return Exchange(
            next(self._numbers),
            connection,
            method=request.method.encode(),
            target=request.raw_path.encode("utf-8", "surrogateescape"),
            raw_headers=raw,
            body=body,
            has_body=find(raw, b"content-length") is not None or find(raw, b"transfer-encoding") is not None,
            peer=connection.peer,
            scheme=connection.scheme,
            version=(request.version.major, request.version.minor),
            is_keep_alive=request.keep_alive,
        )

    def _body_at_hand(self, request: web.BaseRequest) -> bytes | None:
        """The body, if all of it came with the head."""
        if int(find(request.raw_headers, b"content-length") or 0) > self.limits.body_bytes:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return self._within_limit(request.content.read_nowait()) if request.content.is_eof() else None

    async def _read_body(self, request: web.BaseRequest, connection: Connection) -> bytes:
        content = request.content
        if request.version >= HttpVersion11 and find(request.raw_headers, b"expect") is not None:
            connection.write(CONTINUE)
        parts: list[bytes] = []
        size = 0
        try:
            connection.body = content
            while not content.at_eof():
                async with asyncio.timeout(self.limits.body_s):
                    parts.append(await content.readany())
                size += len(parts[-1])
                if size > self.limits.body_bytes:
                    raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        except TimeoutError:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT) from None
        except BadBody:
            raise Refused(HTTPStatus.BAD_REQUEST) from None
        except OSError as lost:  # the client left inside its body; aiohttp knows one kind only
            raise ConnectionAbortedError from lost
        finally:
            connection.body = None
        return b"".join(parts)

    def _within_limit(self, body: bytes) -> bytes:
        if len(body) > self.limits.body_bytes:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return body
