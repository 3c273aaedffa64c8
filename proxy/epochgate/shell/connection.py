"""A connection to the upstream: sends one request at a time and reads its answer.

aiohttp's parser reads the answer; everything else of its client is left out, and with it hidden
retries, cookies, redirects, added headers and timers. Bytes that are no HTTP, whenever they come,
end the leg: nothing is left waiting for a reader.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol, cast

from aiohttp.http import HttpResponseParser, RawResponseMessage
from aiohttp.streams import StreamReader

from epochgate.core.events import LegEnd
from epochgate.core.policy import KIB
from epochgate.shell.leg import Leg
from epochgate.shell.parser import PARSE_ERRORS, BodyReader, framing_of, make_parser, read_body
from epochgate.shell.sockets import find_socket, is_readable, tune_transport
from epochgate.shell.tls import reason_of_connect

# Bodies up to this are copied into one write with their head.
_ONE_WRITE_BYTES = 64 * KIB
_FIRST_FINAL_STATUS = 200


@dataclass(frozen=True, slots=True)
class UpstreamLimits:
    """Seconds (`_s`), bytes (`_bytes`), counts. W2 says why the pool forgets so fast."""

    connect_s: float = 3.0
    header_bytes: int = 64 * KIB
    max_headers: int = 256
    reuse_s: float = 2.0  # a POST never goes out on a connection that idled longer
    pool_s: float = 4.0  # uvicorn and Node close theirs after 5
    max_idle: int = 128  # idle connections kept; those in use are not limited


class Pool(Protocol):
    """Where a connection goes between legs."""

    def opened(self, connection: LegConnection) -> None: ...

    def idled(self, connection: LegConnection) -> None: ...

    def lost(self, connection: LegConnection) -> None: ...


class LegConnection(asyncio.Protocol):
    """One TCP connection to the upstream."""

    __slots__ = (
        "_body",
        "_descriptor",
        "_has_message",
        "_is_head",
        "_is_last",
        "_limits",
        "_loop",
        "_parser",
        "_pool",
        "idle_since",
        "leg",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, pool: Pool, limits: UpstreamLimits, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._limits = limits
        self._loop = loop
        self._parser: HttpResponseParser | None = None
        self._has_message = False  # the answer's head came
        self._is_last = True  # and says that nothing follows it on this connection
        self._body: BodyReader | None = None
        self._is_head = False
        self._descriptor: int | None = None  # of a connection on which nothing may come unasked
        self.leg: Leg | None = None
        self.idle_since = 0.0

    def is_usable(self) -> bool:
        """Whether a request may be written: neither closing nor told anything unasked (W2)."""
        if self.transport.is_closing():
            return False
        return self._descriptor is None or not is_readable(self._descriptor)

    def carry(self, leg: Leg, head: bytes, body: bytes | None, is_head: bool, within: float | None) -> None:
        """Write the request of `leg`. `is_head`: its answer has no body whatever it says."""
        self.leg = leg
        self._is_head = is_head
        self._has_message = False
        self._is_last = True
        self._body = None
        limits = self._limits
        self._parser = make_parser(self, self._loop, limits.header_bytes, limits.max_headers, is_head=is_head)
        if body is not None and len(body) > _ONE_WRITE_BYTES:
            self.transport.write(head)
            self.transport.write(body)
        else:
            self.transport.write(head + body if body else head)
        leg.carried_by(self, within)

    def abandon(self) -> None:
        """Drop the connection and whatever runs on it."""
        self.leg = None
        self.transport.abort()

    # What the parser's reader calls on its protocol. Back-pressure is `Leg.pause`, so these are void.

    def pause_reading(self) -> None:
        return

    def resume_reading(self, resume_parser: bool = True) -> None:
        return

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        tune_transport(transport)
        if transport.get_extra_info("ssl_object") is None:
            self._expect_silence()
        self._pool.opened(self)

    def data_received(self, data: bytes) -> None:
        if self.leg is None or self._parser is None:
            self.transport.abort()  # bytes that nobody asked for
            return
        try:
            messages, is_upgraded, _ = self._parser.feed_data(data)
        except PARSE_ERRORS:
            self.transport.abort()  # first, so that nobody is given this connection again
            self._deliver()
            self._fail("protocol")
            return
        for message, payload in messages:
            self._begin(message, payload)
        self._deliver()
        if is_upgraded:
            self._fail("protocol")

    def eof_received(self) -> None:
        self._lose(None)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.lost(self)
        self._lose(exc)

    # the answer

    def _begin(self, message: RawResponseMessage, payload: StreamReader) -> None:
        if message.code < _FIRST_FINAL_STATUS:
            return  # an interim answer; 101, which ends the HTTP, is told by the parser
        if self._has_message:
            self.transport.abort()  # a second answer to one request; the first stands
            return
        self._has_message = True
        self._is_last = message.should_close
        if self.leg is None:
            return
        framing = framing_of(message, is_head=self._is_head)
        if payload.is_eof():
            leg, body = self.leg, payload.read_nowait()
            self._let_go(leg)
            leg.whole(message, framing, body)
        else:
            self._body = read_body(payload)
            self.leg.answered(message, framing)

    def _deliver(self) -> None:
        body = self._body
        if body is None or self.leg is None:
            return
        data = body.take()
        if data:
            self.leg.read(data)
        if body.is_eof() and self.leg is not None:  # reading may have closed the leg
            self._complete(self.leg)

    def _complete(self, leg: Leg) -> None:
        self._let_go(leg)
        leg.ended(LegEnd.CLEAN)

    def _let_go(self, leg: Leg) -> None:
        """The answer is complete: the connection may carry the next request, if it lives on."""
        is_paused = leg.is_paused
        self.leg = None
        self._parser = None
        self._body = None
        if self._is_last or self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            if is_paused:
                self.transport.resume_reading()
            self._expect_silence()
            self._pool.idled(self)

    def _expect_silence(self) -> None:
        """Nothing may come unasked from now on: with TLS, whose handshake is followed by tickets, that is so
        once an answer was read."""
        sock = find_socket(self.transport)
        self._descriptor = None if sock is None else sock.fileno()

    def _fail(self, error: str) -> None:
        leg, self.leg = self.leg, None
        self.transport.abort()
        if leg is not None:
            leg.ended(LegEnd.BROKEN, error)

    def _lose(self, exc: Exception | None) -> None:
        leg, self.leg = self.leg, None
        if leg is not None:
            leg.why = reason_of_connect(exc) if isinstance(exc, OSError) else ""
            leg.ended(LegEnd.BROKEN, self._why_lost(exc))

    def _why_lost(self, exc: Exception | None) -> str:
        if exc is not None or not self._has_message or self._parser is None:
            return "reset"
        try:
            self._parser.feed_eof()
        except PARSE_ERRORS:
            return "truncated"
        return ""  # close-delimited: the end, or a cut that looks like one
