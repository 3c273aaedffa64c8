"""One exchange with the upstream, as its owner sees it.

A leg tells its sink at most one answer, then reads, then exactly one end; after `close` or `drain`,
nothing. One that is to be decoded takes gzip and deflate off its answer (W16). A body that ends inside
its coding is broken, however it was framed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from aiohttp.http import RawResponseMessage

from epochgate.core.enums import Enum
from epochgate.core.events import LegEnd
from epochgate.core.http import Headers
from epochgate.shell.codings import decoded_headers, find_decoder
from epochgate.shell.decoding import Decoding
from epochgate.shell.headers import answer_headers
from epochgate.shell.locations import Home
from epochgate.shell.parser import Delimiter, Framing

if TYPE_CHECKING:
    from epochgate.shell.connection import LegConnection
    from epochgate.shell.upstream import Upstream


class LegSink(Protocol):
    """Who owns a leg. Called from the event loop, never from inside a call to the leg."""

    def leg_answered(self, leg: int, status: int, headers: Headers, reason: bytes) -> None:
        """The answer's status and end-to-end headers; its framing is in `Leg.framing`."""

    def leg_read(self, leg: int, data: bytes) -> None:
        """Body bytes, one call per read of the socket unless they were decoded."""

    def leg_whole(self, leg: int, status: int, headers: Headers, reason: bytes, body: bytes) -> None:
        """An answer that came whole in one read: its head, its body and a clean end, the last call."""

    def leg_ended(self, leg: int, end: LegEnd, error: str) -> None:
        """The last call of a leg.

        `error` is connect, headers_timeout, reset, truncated or protocol; empty when CLEAN, and on
        the BROKEN that only says that a close-delimited body ended.
        """


class LegState(Enum):
    CONNECTING = "connecting"
    SENT = "sent"
    ANSWERED = "answered"
    OVER = "over"


class Leg:
    """One request and its answer. Made by `Upstream.send`."""

    __slots__ = (
        "_connecting",
        "_connection",
        "_is_decoded",
        "_loop",
        "_sink",
        "_timer",
        "decoding",
        "framing",
        "home",
        "is_paused",
        "number",
        "origin",
        "state",
        "upstream",
        "why",
    )

    def __init__(
        self,
        number: int,
        sink: LegSink,
        loop: asyncio.AbstractEventLoop,
        home: Home,
        *,
        is_decoded: bool = False,
    ) -> None:
        self.number = number
        self.origin: bytes | None = None  # of the page that asked, if its owner wants to know
        self.state = LegState.CONNECTING
        self.why = ""  # it failed, in the words of the system or of OpenSSL, where they said any
        self.framing: Framing | None = None
        self.decoding: Decoding | None = None
        self.is_paused = False
        self._sink: LegSink | None = sink
        self._loop = loop
        self.home = home
        self.upstream: Upstream | None = None  # who is asked
        self._is_decoded = is_decoded
        self._connection: LegConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Leg {self.number} {self.state.value}>"

    def pause(self) -> None:
        """Stop reading. What was read already is still told, unless it has to be decoded."""
        self.is_paused = True
        if self._connection is not None:
            self._connection.transport.pause_reading()

    def resume(self) -> None:
        self.is_paused = False
        if self.decoding is not None and self.decoding.is_due:
            self.decoding.go_on()
        elif self._connection is not None:
            self._connection.transport.resume_reading()

    def close(self) -> None:
        """Break the exchange at once. The sink hears nothing more."""
        self._sink = None
        if self._connecting is not None:
            self._connecting.cancel()
        self.abandon()
        self.over()

    def drain(self, seconds: float = 1.0) -> None:
        """Read the rest into the void for at most `seconds`, then close (W7)."""
        self._sink = None
        decoding, self.decoding = self.decoding, None
        if decoding is not None and decoding.has_ended:
            self.over()
        if self.state is LegState.OVER:
            return
        self.resume()
        self._set_timer(seconds, self.close)

    def connect_by(self, task: asyncio.Task[None]) -> None:
        self._connecting = task

    def carried_by(self, connection: LegConnection, headers_within: float | None) -> None:
        """The request was handed to `connection`."""
        self.state = LegState.SENT
        self._connecting = None
        self._connection = connection
        if headers_within is not None and self._sink is not None:
            self._set_timer(headers_within, self._give_up)
        if self.is_paused:
            connection.transport.pause_reading()

    def answered(self, message: RawResponseMessage, framing: Framing) -> None:
        self.state = LegState.ANSWERED
        self.framing = framing
        if self._sink is None:
            return
        self._clear_timer()
        headers = self._headers(message)
        if self._is_decoded and framing.delimiter is not Delimiter.NOTHING:
            decoder = find_decoder(headers)
            if decoder is not None:
                self.decoding = Decoding(self, decoder, self._loop)
                headers = decoded_headers(headers)
        self._sink.leg_answered(self.number, message.code, headers, _reason(message))

    def whole(self, message: RawResponseMessage, framing: Framing, body: bytes) -> None:
        """Tell the sink an answer that is over already."""
        sink, self.framing = self._sink, framing
        headers = self._headers(message)
        if self._is_decoded and body and find_decoder(headers) is not None:
            self._connection = None
            self.answered(message, framing)
            self.read(body)
            self.ended(LegEnd.CLEAN)
            return
        self.over()
        if sink is not None:
            sink.leg_whole(self.number, message.code, headers, _reason(message), body)

    def read(self, data: bytes) -> None:
        if self.decoding is not None:
            self.decoding.read(data)
        elif self._sink is not None:
            self._sink.leg_read(self.number, data)

    def ended(self, end: LegEnd, error: str = "") -> None:
        """The answer ended, and with it what the connection has of the leg."""
        if self.decoding is not None:
            self.decoding.ended(end, error)
        else:
            self.finish(end, error)

    def finish(self, end: LegEnd, error: str) -> None:
        """Tell the sink the end, unless it closed or drained the leg."""
        sink = self._sink
        self.over()
        if sink is not None:
            sink.leg_ended(self.number, end, error)

    def over(self) -> None:
        self.state = LegState.OVER
        self._sink = None
        self._connection = None
        self._connecting = None
        self.decoding = None
        self._clear_timer()

    def _headers(self, message: RawResponseMessage) -> Headers:
        return answer_headers(message.raw_headers, self.home.localised)

    # what its decoding calls

    def tell(self, data: bytes) -> None:
        if self._sink is not None:
            self._sink.leg_read(self.number, data)

    def hold_socket(self, *, is_held: bool) -> None:
        """Let nothing come that could not be decoded yet."""
        if self._connection is None or self._connection.transport.is_closing():
            return
        if is_held:
            self._connection.transport.pause_reading()
        else:
            self._connection.transport.resume_reading()

    def part(self) -> None:
        """The connection has all of the answer out and goes on without the leg."""
        self.hold_socket(is_held=False)
        self._connection = None

    def abandon(self) -> None:
        """Drop the connection, if it still carries the leg."""
        if self._connection is not None:
            self._connection.abandon()

    # the limits of time

    def _give_up(self) -> None:
        self.abandon()
        self.finish(LegEnd.SILENT, "headers_timeout")

    def _set_timer(self, seconds: float, action: Callable[[], None]) -> None:
        self._clear_timer()
        self._timer = self._loop.call_later(seconds, action)

    def _clear_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _reason(message: RawResponseMessage) -> bytes:
    return message.reason.encode("utf-8", "surrogateescape")
