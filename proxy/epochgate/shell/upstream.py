"""The upstream leg's way out: one origin, its idle connections, and `send`.

Nothing is ever sent twice. A request goes out on an idle connection that is certainly alive, or on a
fresh one; what fails before a byte was written is told as NOT_SENT, everything later as BROKEN (W2).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from aiohappyeyeballs import start_connection
from aiohappyeyeballs.types import AddrInfoType

from epochgate.core.commands import SendUpstream
from epochgate.core.events import LegEnd
from epochgate.shell.connection import LegConnection, UpstreamLimits
from epochgate.shell.leg import Leg, LegSink
from epochgate.shell.locations import Home
from epochgate.shell.sockets import CONNECT_ERRORS
from epochgate.shell.spawn import Tasks
from epochgate.shell.tls import SHUTDOWN_S, Tls

_P = TypeVar("_P", bound=asyncio.BaseProtocol)
DEFAULT_PORTS = {"http": 80, "https": 443}
# A second address is tried beside the first one after this (RFC 8305).
_NEXT_ADDRESS_S = 0.25
# With TLS 1.3 a server judges our certificate when the handshake is over on our side.
_VERDICT_S = 0.25
# Requests that may meet the idle-close race without harm: running them twice changes nothing.
_SAFE_METHODS = frozenset((b"GET", b"HEAD", b"OPTIONS"))


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the upstream is. `authority` is its `Host` value, `base_path` stands before targets."""

    scheme: str
    host: str
    port: int
    authority: bytes
    base_path: bytes = b""

    @classmethod
    def from_url(cls, url: str) -> Origin:
        """`url` is `http(s)://host[:port][/base]`; anything else raises ValueError saying why."""
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS:
            raise ValueError(f"{url!r} is no http:// or https:// URL")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(f"{url!r} has more than a host, a port and a path")
        if not parts.hostname:
            raise ValueError(f"{url!r} names no host")
        port = DEFAULT_PORTS[parts.scheme] if parts.port is None else parts.port
        name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        authority = name if port == DEFAULT_PORTS[parts.scheme] else f"{name}:{port}"
        base = parts.path.rstrip("/")
        return cls(parts.scheme, parts.hostname, port, _ascii(authority), _ascii(base))

    def home(self, host: bytes | None = None) -> Home:
        """What a `Location` may call this server, to which a request went under `host`."""
        return Home(self.scheme.encode(), self.authority, self.base_path, host)


def _ascii(text: str) -> bytes:
    if not text.isascii() or any(character <= " " for character in text):
        raise ValueError(f"{text!r} is not plain ASCII")
    return text.encode()


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
    """Connections to one origin. Use it on the loop it was made on."""

    def __init__(
        self,
        origin: Origin,
        limits: UpstreamLimits | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        tls: Tls | None = None,
        server_name: str | None = None,
    ) -> None:
        """`tls` makes connections https; `server_name` is the certificate's name, if it is not the host."""
        self.origin = origin
        self._home = origin.home()
        self.limits = limits or UpstreamLimits()
        self._loop = loop or asyncio.get_running_loop()
        self._tls = tls
        self._server_name = server_name or origin.host
        self._tasks = Tasks()
        self._open: set[LegConnection] = set()
        self._idle: deque[LegConnection] = deque()  # longest idle first
        self._sweep: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Upstream {self.origin.authority.decode()}, {len(self._open)} open, {len(self._idle)} idle>"

    def send(
        self, request: SendUpstream, sink: LegSink, host: bytes | None = None, *, is_decoded: bool = False
    ) -> Leg:
        """Send `request` and tell `sink` what comes of it.

        `host` replaces the origin's `Host` value. The request's headers go out as they are, so they
        must hold neither `Host` nor framing. `is_decoded`: gzip and deflate are taken off the answer.
        """
        home = self._home if host is None else self.origin.home(host)
        leg = Leg(request.leg, sink, self._loop, home, is_decoded=is_decoded)
        connection = self._take_idle(request.method)
        if connection is None:
            name = f"connect leg {request.leg}"
            leg.connect_by(self._tasks.spawn_cancellable(self._send_fresh(leg, request, host), name))
        else:
            self._carry(connection, leg, request, host)
        return leg

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

    async def _send_fresh(self, leg: Leg, request: SendUpstream, host: bytes | None) -> None:
        try:
            async with asyncio.timeout(self.limits.connect_s):
                connection = await self._connect()
        except CONNECT_ERRORS:
            leg.ended(LegEnd.NOT_SENT, "connect")
            return
        if not connection.is_usable():
            connection.abandon()
            leg.ended(LegEnd.NOT_SENT, "reset")
            return
        self._carry(connection, leg, request, host)

    async def _connect(self) -> LegConnection:
        return await self._open_with(lambda: LegConnection(self, self.limits, self._loop))

    async def _open_with(self, factory: Callable[[], _P]) -> _P:
        addresses = await self._resolve()
        sock = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, loop=self._loop)
        _, connection = await self._loop.create_connection(factory, sock=sock, **self._tls_options())
        return connection

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
        async with asyncio.timeout(self.limits.connect_s):
            attempt = await self._open_with(_Attempt)
            try:
                if self._tls is not None:
                    await attempt.wait_accepted()
            finally:
                attempt.transport.abort()

    async def _resolve(self) -> list[AddrInfoType]:
        host, port = self.origin.host, self.origin.port
        for family, address in ((socket.AF_INET, (host, port)), (socket.AF_INET6, (host, port, 0, 0))):
            if _is_literal(family, host):
                return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)]
        return list(await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))

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


def _is_literal(family: socket.AddressFamily, host: str) -> bool:
    try:
        socket.inet_pton(family, host)
    except OSError:
        return False
    return True


def _request_head(request: SendUpstream, host: bytes, base_path: bytes) -> bytes:
    lines = [request.method + b" " + base_path + request.target + b" HTTP/1.1\r\nHost: " + host]
    lines += [name + b": " + value for name, value in request.headers]
    if request.body is not None:
        lines.append(b"Content-Length: %d" % len(request.body))
    return b"\r\n".join(lines) + b"\r\n\r\n"
