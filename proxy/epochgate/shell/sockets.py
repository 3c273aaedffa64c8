"""What both legs ask of their TCP sockets.

Transports of asyncio hand out a socket, those of uvloop a stand-in that knows the same calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import struct
from typing import Protocol

# An idle peer is probed after a minute and given up after another half (W6).
KEEPALIVE_IDLE_S = 60
KEEPALIVE_INTERVAL_S = 10
KEEPALIVE_PROBES = 3
# Unacknowledged bytes, and a window that stays shut, end a connection after this (W6). Long enough
# for a client that a person has stopped in a debugger for a moment.
USER_TIMEOUT_S = 120

# States of `struct tcp_info.tcpi_state` (linux/tcp_states.h).
TCP_CLOSE_WAIT = 8
_POLL = select.poll()  # empty between two calls: one for each connection would be half a KiB


# What a connect that fails raises: refused, unknown name, timeout; uvloop raises RuntimeError, and names
# that cannot be looked up or stand on a certificate are a ValueError.
CONNECT_ERRORS = (OSError, RuntimeError, ValueError)


def reason_of(error: OSError) -> str:
    """The system's own words: asyncio wraps them into a sentence of its own.

    Names that do not resolve have an errno of another table.
    """
    if error.errno is not None and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno).lower()
    return (error.strerror or str(error)).lower() or "the peer closed the connection"


class Socket(Protocol):
    """The calls that a socket and uvloop's stand-in share."""

    @property
    def family(self) -> int: ...

    def fileno(self) -> int: ...

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None: ...

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def find_socket(transport: asyncio.BaseTransport) -> Socket | None:
    """The transport's socket, or None once it is gone."""
    sock: Socket | None = transport.get_extra_info("socket")
    return sock if sock is not None and sock.fileno() >= 0 else None


def tune(sock: Socket) -> None:
    """Send small writes at once and notice a peer that vanished (W6). Other families are left."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):  # a peer that is gone already is told by the transport
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_S * 1000)


def tune_transport(transport: asyncio.BaseTransport) -> None:
    sock = find_socket(transport)
    if sock is not None:
        tune(sock)


def is_readable(descriptor: int) -> bool:
    """Whether bytes, an end or an error wait to be read: on an idle connection, the end (W2)."""
    _POLL.register(descriptor, select.POLLIN | select.POLLRDHUP)
    try:
        return bool(_POLL.poll(0))
    finally:
        _POLL.unregister(descriptor)


def is_peer_reading(transport: asyncio.BaseTransport) -> bool:
    """Whether a peer that ended its own direction still takes ours.

    Only meaningful after something was written: a peer that is gone answers that with a reset.
    """
    sock = find_socket(transport)
    if sock is None:
        return False
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == TCP_CLOSE_WAIT
    except OSError:
        return False


def reset_on_close(transport: asyncio.BaseTransport) -> None:
    """Make the close that follows a reset, which no peer can take for an end (W8)."""
    sock = find_socket(transport)
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
