"""One request of a client and the answer to it, written as own bytes.

Every call after the client left, or after the answer ended, does nothing: a late write is neither an
error nor a failure of the upstream. Framing follows the client's version: chunks for HTTP/1.1, until
the connection closes for HTTP/1.0, where a cut must be a reset to be seen at all (W8).
"""

from __future__ import annotations

import asyncio
from dataclasses import KW_ONLY, dataclass, field
from typing import Protocol

from aiohttp.web import BaseRequest

from epochgate.core.http import Headers, without
from epochgate.shell.answer import (
    CHUNKED,
    LAST_CHUNK,
    OVER,
    STARTED,
    WITHOUT_BODY,
    WITHOUT_TYPE,
    Line,
    Phase,
    build_head,
    chunk,
    length_line,
)
from epochgate.shell.sockets import reset_on_close


class ExchangeOwner(Protocol):
    """Who answers an exchange, and is told what its client does."""

    def client_left(self, exchange: int) -> None:
        """The client is gone before its answer ended. The last call."""

    def client_stalled(self, exchange: int) -> None:
        """More than the write limit waits in our buffers."""

    def client_drained(self, exchange: int) -> None:
        """Half of that is gone."""


@dataclass(slots=True, eq=False, repr=False)
class Exchange:
    """What the client sent, and the ways to answer it.

    `raw_headers` are as they came; `target` is the request target byte for byte; `peer` the client's
    address without port ("" unless TCP), `scheme` http or https. `has_body` tells an empty body from none.
    `probe` is a comment that may be written between two writes of an open answer, to learn whether a client
    that ended its own direction still reads; None counts such a client as gone.
    """

    id: int
    _line: Line
    _: KW_ONLY
    method: bytes
    target: bytes
    raw_headers: Headers
    body: bytes
    has_body: bool
    peer: str
    scheme: bytes
    version: tuple[int, int]
    is_keep_alive: bool
    status: int | None = field(default=None, init=False)
    phase: Phase = field(default=Phase.WAITING, init=False)
    probe: bytes | None = field(default=None, init=False)
    origin: bytes | None = field(default=None, init=False)  # of a page, where the owner wants to know
    owner: ExchangeOwner | None = field(default=None, init=False)
    _head: bytes = field(default=b"", init=False)
    _is_stalled: bool = field(default=False, init=False)
    _is_streaming: bool = field(default=False, init=False)  # chunks go out with nothing before them
    _done: asyncio.Future[None] | None = field(default=None, init=False)

    def __repr__(self) -> str:
        return f"<Exchange {self.id} {self.method.decode('latin-1')} {self.phase.value}>"

    @property
    def is_open(self) -> bool:
        """Whether something may still be written to it."""
        return self.phase not in OVER

    @property
    def has_started(self) -> bool:
        """Whether an answer was begun: there is no second status line after this."""
        return self.status is not None

    def respond(self, status: int, headers: Headers, body: bytes = b"", reason: bytes | None = None) -> None:
        """Answer whole, with `Content-Length`. 202 and 204 carry neither body nor type."""
        if self.phase is not Phase.WAITING:
            return
        if status in WITHOUT_TYPE:
            headers, body = without(headers, (b"content-type",)), b""
        self._start(Phase.SIZED, status, headers, reason, length_line(None if status == 204 else len(body)))
        self.end(body)

    def open(
        self, status: int, headers: Headers, reason: bytes | None = None, *, is_delimited: bool = False
    ) -> None:
        """Start an answer of unknown length; its head goes out with the next write.

        `is_delimited` lets the end of the connection be its end even for HTTP/1.1.
        """
        if self.phase is not Phase.WAITING:
            return
        if is_delimited or self.version < (1, 1):
            self.is_keep_alive = False
            self._start(Phase.DELIMITED, status, headers, reason, b"")
        else:
            self._start(Phase.CHUNKED, status, headers, reason, CHUNKED)

    def open_sized(
        self, status: int, headers: Headers, length: int | None, reason: bytes | None = None
    ) -> None:
        """Start an answer of `length` bytes; None for one without body that states none."""
        if self.phase is Phase.WAITING:
            self._start(Phase.SIZED, status, headers, reason, length_line(length))

    def write(self, data: bytes) -> None:
        """Write body bytes; empty bytes send the head alone if it still waits."""
        if self._is_streaming and data and (transport := self._line.transport) is not None:
            if transport.is_closing():
                return
            transport.write(b"%x\r\n%b\r\n" % (len(data), data))
            if self._line.writing_paused:
                self._stall()
        elif self.phase in STARTED:
            self._send(self._framed(data))

    def end(self, data: bytes = b"") -> None:
        """Write the last bytes and the end of the framing in one write."""
        if self.phase not in STARTED:
            return
        last = self._framed(data)
        if self.phase is Phase.CHUNKED and self._has_body_out():
            last += LAST_CHUNK
        head, self._head = self._head, b""
        self._finish(Phase.ENDED)
        self._send(head + last)

    def abort(self) -> None:
        """Break the connection, so that the answer cannot look complete."""
        if self.phase in OVER:
            return
        transport = self._line.transport
        if transport is not None and self.phase is Phase.DELIMITED:
            reset_on_close(transport)
        self._finish(Phase.ABORTED)
        self.is_keep_alive = False
        if transport is not None:
            transport.abort()

    def let_go(self) -> None:
        """The request was taken over: hold its headers and body no longer than its owner does."""
        self.raw_headers = ()
        self.body = b""

    async def wait_done(self) -> None:
        """Return when the answer ended, was aborted, or the client left."""
        if self.phase not in OVER:
            self._done = self._done or asyncio.get_running_loop().create_future()
            await self._done

    # what the connection calls

    def left(self) -> None:
        """The client is gone."""
        if self.phase in OVER:
            return
        self.is_keep_alive = False
        owner = self.owner
        self._finish(Phase.LEFT)
        if owner is not None:
            owner.client_left(self.id)

    def drained(self) -> None:
        """Our buffers are below half the write limit again."""
        if self._is_stalled:
            self._is_stalled = False
            if self.is_open and self.owner is not None:
                self.owner.client_drained(self.id)

    # what aiohttp calls on the object that a handler returns

    @property
    def keep_alive(self) -> bool:
        """Whether the connection goes on: as the head said, so that no client is surprised."""
        return self.is_keep_alive and not self._line.is_closing_now

    async def prepare(self, request: BaseRequest) -> None:
        """Everything was written already."""

    async def write_eof(self) -> None:
        """Everything was written already."""

    def _start(
        self, phase: Phase, status: int, headers: Headers, reason: bytes | None, framing: bytes
    ) -> None:
        self.phase = phase
        self.status = status
        self.is_keep_alive = self.is_keep_alive and not self._line.is_closing_soon
        connection = b"" if self.is_keep_alive else b"close"
        if self.is_keep_alive and self.version < (1, 1):
            connection = b"keep-alive"
        self._head = build_head(status, reason, headers, framing, connection)

    def _has_body_out(self) -> bool:
        return self.method != b"HEAD" and self.status not in WITHOUT_BODY

    def _framed(self, data: bytes) -> bytes:
        if not self._has_body_out():
            return b""
        return chunk(data) if self.phase is Phase.CHUNKED else data

    def _send(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            self._write_out(data)

    def _write_out(self, data: bytes) -> None:
        transport = self._line.transport
        if transport is None or transport.is_closing():
            return
        transport.write(data)
        self._is_streaming = self.phase is Phase.CHUNKED and not self._head and self._has_body_out()
        if self._line.writing_paused:
            self._stall()

    def _stall(self) -> None:
        if not self._is_stalled and self.is_open:
            self._is_stalled = True
            if self.owner is not None:
                self.owner.client_stalled(self.id)

    def _finish(self, phase: Phase) -> None:
        self.phase = phase
        self._head = b""
        self._is_streaming = False
        self.owner = None  # aiohttp keeps the exchange until the next one
        if self._done is not None and not self._done.done():
            self._done.set_result(None)
