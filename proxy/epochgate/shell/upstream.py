"""The upstream leg's way out: one server, its idle connections, and `send`.

Nothing is ever sent twice. A request goes out on an idle connection that is certainly alive, or on a
fresh one; what fails before a byte was written is told as NOT_SENT, everything later as BROKEN (W2).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from aiohappyeyeballs import start_connection
from aiohappyeyeballs.types import AddrInfoType

from epochgate.core.commands import SendUpstream
from epochgate.core.events import LegEnd
from epochgate.shell.connection import LegConnection, UpstreamLimits
from epochgate.shell.leg import Leg, LegSink, LegState
from epochgate.shell.locations import Home
from epochgate.shell.origin import Origin, look_up
from epochgate.shell.sockets import CONNECT_ERRORS
from epochgate.shell.spawn import Tasks
from epochgate.shell.tls import SHUTDOWN_S, Tls, reason_of_connect
from epochgate.shell.tunnel import Tunnel

_P = TypeVar("_P", bound=asyncio.BaseProtocol)
# A second address is tried beside the first one after this (RFC 8305).
_NEXT_ADDRESS_S = 0.25
# With TLS 1.3 a server judges our certificate when the handshake is over on our side.
_VERDICT_S = 0.25
# What a server answers that is there and takes nothing new; or it lets a new session wait for so long. It
# gets nothing new for a while if others take it: with the least to do it would get everything.
_BUSY = frozenset((429, 502, 503, 504))
_SLOW_S = 5.0
_BUSY_S = 10.0
# Requests that may meet the idle-close race without harm: running them twice changes nothing.
_SAFE_METHODS = frozenset((b"GET", b"HEAD", b"OPTIONS"))


class _Attempt(asyncio.Protocol):
    """A connection that carries nothing."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._is_lost = asyncio.Event()
        self._why: OSError | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._why = exc if isinstance(exc, OSError) else None
        self._is_lost.set()

    async def wait_accepted(self) -> None:
        """Raises OSError if the server refuses within `_VERDICT_S` what it was shown; not all say why."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_VERDICT_S):
                await self._is_lost.wait()
        if self._is_lost.is_set():
            raise self._why or ConnectionResetError("closed after the handshake: our certificate is refused")


class Upstream:
    """Connections to one server. Use it on the loop it was made on.

    `sessions` is how many of those that we hold live there. `has_left`: it is no longer among the addresses
    of its name, so that one that cannot be connected to will not come back there.
    """

    def __init__(
        self,
        origin: Origin,
        limits: UpstreamLimits | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        tls: Tls | None = None,
        server_name: str | None = None,
        addresses: Sequence[AddrInfoType] = (),
        tunnel: Tunnel | None = None,
    ) -> None:
        """`tls` makes connections https; `server_name` is the certificate's name, if it is not the host.

        `addresses` are where the server is; without them its name is looked up for each connection, by the
        proxy at the beginning of `tunnel` if there is one.
        """
        self.origin = origin
        self.addresses = tuple(addresses)
        self.sessions = 0
        self.has_left = False
        self.is_reached: bool | None = None  # unknown
        self.reached_at: float | None = None
        self._asked: dict[Leg, float] = {}  # for new sessions, and since when they are not answered
        self._busy_until = 0.0
        self.on_unreachable: Callable[[], None] = _nothing
        self.find: Callable[[], Awaitable[Sequence[AddrInfoType]]] = self._look_up
        self._home = origin.home()
        self.limits = limits or UpstreamLimits()
        self._loop = loop or asyncio.get_running_loop()
        self._tls = tls
        self._server_name = server_name or origin.host
        self._tunnel = tunnel
        self._tasks = Tasks()
        self._open: set[LegConnection] = set()
        self._idle: deque[LegConnection] = deque()  # longest idle first
        self._sweep: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Upstream {self.name}, {len(self._open)} open, {len(self._idle)} idle>"

    @property
    def name(self) -> str:
        """`host:port` and the path, as the URL says them, with the address where that does not say which
        server it is."""
        place = (self.origin.authority + self.origin.base_path).decode()
        host = self.addresses[0][4][0] if self.addresses else self.origin.host
        return place if host == self.origin.host else f"{place} ({host})"

    @property
    def load(self) -> int:
        """Sessions that live there, requests on their way there, and answers that come from there."""
        return self.sessions + len(self._tasks) + len(self._open) - len(self._idle)

    @property
    def is_busy(self) -> bool:
        """Whether it takes nothing new, as far as is known."""
        now = self._loop.time()
        for leg, at in tuple(self._asked.items()):
            if now - at >= _SLOW_S:
                self._busy_until = now + _BUSY_S
            if leg.state is LegState.OVER or leg.upstream is not self:
                del self._asked[leg]
        return now < self._busy_until

    def asked_new(self, leg: Leg) -> None:
        """It is asked for a session on `leg`, that any server might have been asked for."""
        self._asked[leg] = self._loop.time()

    def answered_new(self, status: int, leg: Leg | None = None) -> None:
        """What it answered something new."""
        if leg is not None:
            self._asked.pop(leg, None)
        self._busy_until = self._loop.time() + _BUSY_S if status in _BUSY else 0.0

    @property
    def is_unused(self) -> bool:
        return not (self.sessions or self._open or self._tasks)

    def send(
        self,
        request: SendUpstream,
        sink: LegSink,
        host: bytes | None = None,
        *,
        is_decoded: bool = False,
        others: Iterable[Upstream] = (),
    ) -> Leg:
        """Send `request` and tell `sink` what comes of it.

        `host` replaces the origin's `Host` value. The request's headers go out as they are, so they
        must hold neither `Host` nor framing. `is_decoded`: gzip and deflate are taken off the answer.
        `others` are asked in turn while none is reached; who is asked in the end is in `Leg.upstream`.
        """
        leg = Leg(request.leg, sink, self._loop, self.home(host), is_decoded=is_decoded)
        leg.upstream = self
        connection = self._take_idle(request.method)
        if connection is None:
            name = f"connect leg {request.leg}"
            leg.connect_by(self._tasks.spawn_cancellable(self._send_fresh(leg, request, host, others), name))
        else:
            self._carry(connection, leg, request, host)
        return leg

    def home(self, host: bytes | None) -> Home:
        """What a `Location` may call the server, to which a request went under `host`."""
        return self._home if host is None else self.origin.home(host)

    async def close(self) -> None:
        """Break every connection and wait until they are gone."""
        await self._tasks.close()
        for connection in tuple(self._open):
            connection.transport.abort()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    # sending

    def _carry(self, connection: LegConnection, leg: Leg, request: SendUpstream, host: bytes | None) -> None:
        head = _request_head(request, host or self.origin.authority, self.origin.base_path)
        connection.carry(leg, head, request.body, request.method == b"HEAD", request.headers_within)

    async def _send_fresh(
        self, leg: Leg, request: SendUpstream, host: bytes | None, others: Iterable[Upstream]
    ) -> None:
        error = ""
        for upstream in (self, *others):
            try:
                connection = await upstream.connect()
            except CONNECT_ERRORS as failure:
                error, leg.why = "connect", reason_of_connect(failure)
                continue
            if connection.is_usable():
                leg.upstream, leg.home = upstream, upstream.home(host)
                upstream._carry(connection, leg, request, host)
                return
            connection.abandon()
            error, leg.why = "reset", ""
        leg.ended(LegEnd.GONE if self.has_left else LegEnd.NOT_SENT, error)

    async def connect(self) -> LegConnection:
        """A fresh connection. Raises one of `CONNECT_ERRORS`."""
        async with self._reaching():
            return await self._open_with(lambda: LegConnection(self, self.limits, self._loop))

    @contextlib.asynccontextmanager
    async def _reaching(self) -> AsyncIterator[None]:
        """Within the time for it; whether the server was reached is known afterwards."""
        try:
            async with asyncio.timeout(self.limits.connect_s):
                yield
        except CONNECT_ERRORS:
            self.is_reached = False
            self.on_unreachable()
            raise
        self.is_reached, self.reached_at = True, self._loop.time()

    async def _open_with(self, factory: Callable[[], _P]) -> _P:
        if self._tunnel is None:
            addresses = self.addresses or await self.find()
            sock = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, loop=self._loop)
        else:
            sock = await self._tunnel.open(self.origin, self._loop)
        _, connection = await self._loop.create_connection(factory, sock=sock, **self._tls_options())
        return connection

    async def _look_up(self) -> Sequence[AddrInfoType]:
        return await look_up(self.origin, self._loop)

    def _tls_options(self) -> dict[str, Any]:
        if self._tls is None:
            return {}
        return {
            "ssl": self._tls.context,
            "server_hostname": self._server_name,
            "ssl_handshake_timeout": self.limits.connect_s,
            "ssl_shutdown_timeout": SHUTDOWN_S,
        }

    async def probe(self) -> None:
        """Connect, with the handshake of TLS where it is used, and close. Raises one of `CONNECT_ERRORS`."""
        async with self._reaching():
            attempt = await self._open_with(_Attempt)
            try:
                if self._tls is not None:
                    await attempt.wait_accepted()
            finally:
                attempt.transport.abort()

    # the pool

    def opened(self, connection: LegConnection) -> None:
        self._open.add(connection)

    def idled(self, connection: LegConnection) -> None:
        """`connection` finished its leg and may carry another."""
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if len(self._idle) > self.limits.max_idle:
            self._idle.popleft().transport.close()
        if self._sweep is None:
            self._sweep = self._loop.call_later(self.limits.pool_s, self._close_stale)

    def lost(self, connection: LegConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _take_idle(self, method: bytes) -> LegConnection | None:
        limit = self.limits.pool_s if method in _SAFE_METHODS else self.limits.reuse_s
        now = self._loop.time()
        while self._idle and now - self._idle[-1].idle_since < limit:
            connection = self._idle.pop()
            if connection.is_usable():
                return connection
            connection.transport.abort()
        return None

    def _close_stale(self) -> None:
        self._sweep = None
        now = self._loop.time()
        while self._idle and now - self._idle[0].idle_since >= self.limits.pool_s:
            self._idle.popleft().transport.close()
        if self._idle:
            due = self._idle[0].idle_since + self.limits.pool_s
            self._sweep = self._loop.call_at(due, self._close_stale)


def _nothing() -> None:
    """What is done about a server that is not reached, unless somebody wants to know."""


def _request_head(request: SendUpstream, host: bytes, base_path: bytes) -> bytes:
    lines = [request.method + b" " + base_path + request.target + b" HTTP/1.1\r\nHost: " + host]
    lines += [name + b": " + value for name, value in request.headers]
    if request.body is not None:
        lines.append(b"Content-Length: %d" % len(request.body))
    return b"\r\n".join(lines) + b"\r\n\r\n"
