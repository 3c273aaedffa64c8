"""Listening sockets with an accept loop of their own.

When descriptors run out, asyncio sleeps for a second and uvloop takes each connection to drop it,
both without a word. Here accepting pauses, the pause is told, and the waiting connections are served.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable
from pathlib import Path

from epochgate.shell.spawn import Tasks
from epochgate.shell.tls import HANDSHAKE_S, SHUTDOWN_S, Tls, kind_of_handshake, reason_of_handshake
from epochgate.units import Address, Place, UnixPath

BACKLOG = 1024
RETRY_S = 0.25
# Connections taken per wake-up, so that a flood of them leaves time for those that are open.
_ACCEPTS_PER_TURN = 64
_OUT_OF_DESCRIPTORS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Listener:
    """Accepts connections on one address and hands each to a protocol of `factory`."""

    def __init__(
        self,
        sockets: list[socket.socket],
        factory: Callable[[], asyncio.BaseProtocol],
        on_paused: Callable[[], None],
        tls: Tls | None = None,
        on_handshake_failed: Callable[[str, str], None] = lambda kind, reason: None,
        *,
        handshake_s: float = HANDSHAKE_S,
    ) -> None:
        self._sockets = sockets
        self._factory = factory
        self._on_paused = on_paused
        self._tls = tls
        self._on_handshake_failed = on_handshake_failed
        self._handshake_s = handshake_s
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._retry: asyncio.TimerHandle | None = None
        self._watch()

    @property
    def places(self) -> tuple[Place, ...]:
        """Where each listening socket is bound."""
        return tuple(map(bound, self._sockets))

    def close(self) -> None:
        """Stop listening. Connections that were accepted stay."""
        self._unwatch()
        if self._retry is not None:
            self._retry.cancel()
        for sock in self._sockets:
            place = bound(sock)
            sock.close()
            release(place)
        self._sockets = []

    def _watch(self) -> None:
        self._retry = None
        for sock in self._sockets:
            self._loop.add_reader(sock, self._accept, sock)

    def _unwatch(self) -> None:
        for sock in self._sockets:
            self._loop.remove_reader(sock)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                connection, _ = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                self._pause()
                return
            connection.setblocking(False)
            self._tasks.spawn(self._serve(connection), "accept")

    def _pause(self) -> None:
        self._unwatch()
        self._retry = self._loop.call_later(RETRY_S, self._watch)
        self._on_paused()

    async def _serve(self, connection: socket.socket) -> None:
        if self._tls is None:
            await self._loop.connect_accepted_socket(self._factory, connection)
            return
        has_begun = False
        try:
            await self._wait_begun(connection)
            has_begun = True
            await self._loop.connect_accepted_socket(
                self._factory,
                connection,
                ssl=self._tls.context,
                ssl_handshake_timeout=self._handshake_s,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except OSError as error:
            kind = kind_of_handshake(error, has_begun=has_begun)
            self._on_handshake_failed(kind.value, reason_of_handshake(error))
        finally:
            if not has_begun:
                connection.close()  # else it is the loop's

    async def _wait_begun(self, connection: socket.socket) -> None:
        """Wait for the first byte. Raises OSError if there is none: so balancers probe a port."""
        readable: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(connection, _set_done, readable)
        try:
            async with asyncio.timeout(self._handshake_s):
                await readable
        finally:
            self._loop.remove_reader(connection)
        if not connection.recv(1, socket.MSG_PEEK):
            raise ConnectionResetError


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def bind(place: Place) -> list[socket.socket]:
    """Listening sockets for every address of a host, on one port, or for one path. Raises OSError."""
    if isinstance(place, UnixPath):
        return [_bind_path(place.path)]
    loop = asyncio.get_running_loop()
    port = place.port
    found = await loop.getaddrinfo(place.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address[:2]) for family, _, _, _, address in found):
            sockets.append(_bind_one(family, (address[0], port)))
            port = sockets[0].getsockname()[1]  # port 0 was chosen by the kernel, once
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def bound(sock: socket.socket) -> Place:
    """Where a listening socket is bound."""
    name = sock.getsockname()
    return Address(*name[:2]) if isinstance(name, tuple) else UnixPath(name)


def release(place: Place) -> None:
    """What was bound there is closed: a path is free again, unless another process has taken it since.

    One that cannot be removed any more stays: going away must not fail of it.
    """
    with contextlib.suppress(OSError):
        if isinstance(place, UnixPath) and _is_deserted(place.path):
            Path(place.path).unlink()


def _bind_path(path: str) -> socket.socket:
    """A process that was killed leaves its path behind; one that listens still is not disturbed."""
    if _is_deserted(path):
        Path(path).unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.bind(path)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _is_deserted(path: str) -> bool:
    """Whether there is a socket on which nobody listens."""
    if not Path(path).is_socket():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path) == errno.ECONNREFUSED


def _bind_one(family: int, address: tuple[str | int, int]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setblocking(False)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
