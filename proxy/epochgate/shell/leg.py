"""One exchange with the upstream, as its owner sees it.

A leg tells its sink at most one answer, then reads, then exactly one end; after `close` or `drain`,
nothing. One that is to be decoded takes gzip and deflate off its answer (W16): slice by slice, and no
further than its owner reads. A body that ends inside its coding is broken, however it was framed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from aiohttp.http import RawResponseMessage

from epochgate.core.enums import Enum
from epochgate.core.events import LegEnd
from epochgate.core.http import Headers
from epochgate.shell.codings import Corrupt, Decoder, decoded_headers, find_decoder
from epochgate.shell.headers import answer_headers
from epochgate.shell.locations import Home
from epochgate.shell.parser import Delimiter, Framing

if TYPE_CHECKING:
    from epochgate.shell.connection import LegConnection


_SLICES_AT_ONCE = 16  # then others have a turn


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
        "_decoder",
        "_end",
        "_home",
        "_is_decoded",
        "_loop",
        "_more",
        "_sink",
        "_timer",
        "framing",
        "is_paused",
        "number",
        "origin",
        "state",
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
        self.framing: Framing | None = None
        self.is_paused = False
        self._sink: LegSink | None = sink
        self._loop = loop
        self._home = home
        self._is_decoded = is_decoded
        self._decoder: Decoder | None = None
        self._more: asyncio.Handle | None = None  # decoding goes on
        self._end: tuple[LegEnd, str] | None = None  # told when all is decoded
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
        if self._decoder is not None and (self._decoder.has_more or self._end is not None):
            self._decode_soon()
        elif self._connection is not None:
            self._connection.transport.resume_reading()

    def close(self) -> None:
        """Break the exchange at once. The sink hears nothing more."""
        self._sink = None
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.abandon()
        self.over()

    def drain(self, seconds: float = 1.0) -> None:
        """Read the rest into the void for at most `seconds`, then close (W7)."""
        self._sink = None
        self._decoder = None
        if self._end is not None:
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
            self._decoder = find_decoder(headers)
            if self._decoder is not None:
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
        if self._decoder is not None:
            self._decoder.feed(data)
            if self._more is None:
                self._decode()
        elif self._sink is not None:
            self._sink.leg_read(self.number, data)

    def ended(self, end: LegEnd, error: str = "") -> None:
        """Tell the sink the end, unless it closed or drained the leg."""
        sink, decoder = self._sink, self._decoder
        if sink is not None and decoder is not None:
            if decoder.has_more:
                self._end = (end, error)
                self._hold_socket(is_held=False)
                self._connection = None
                return
            if not decoder.is_whole and not error:
                end, error = LegEnd.BROKEN, "truncated"
        self.over()
        if sink is not None:
            sink.leg_ended(self.number, end, error)

    def over(self) -> None:
        self.state = LegState.OVER
        self._sink = None
        self._connection = None
        self._connecting = None
        self._decoder = None
        self._end = None
        self._clear_timer()

    # decoding

    def _decode_soon(self) -> None:
        if self._more is None:
            self._more = self._loop.call_soon(self._decode)

    def _decode(self) -> None:
        """Tell what can be decoded, while the owner reads; the socket is not read meanwhile."""
        self._more = None
        decoder, connection = self._decoder, self._connection
        if decoder is None:
            return
        try:
            for _ in range(_SLICES_AT_ONCE):
                if self.is_paused or self._sink is None or not decoder.has_more:
                    break
                data = decoder.take()
                if data:
                    self._sink.leg_read(self.number, data)
        except Corrupt:
            if connection is not None:
                connection.abandon()
            decoder.has_more = False
            self.ended(LegEnd.BROKEN, "protocol")
            return
        if self._decoder is None or self.is_paused:
            return
        if decoder.has_more:
            self._hold_socket(is_held=True)
            self._decode_soon()
        elif self._end is not None:
            self.ended(*self._end)
        else:
            self._hold_socket(is_held=False)

    def _hold_socket(self, *, is_held: bool) -> None:
        """Let nothing come that could not be decoded yet."""
        if self._connection is None or self._connection.transport.is_closing():
            return
        if is_held:
            self._connection.transport.pause_reading()
        else:
            self._connection.transport.resume_reading()

    def _headers(self, message: RawResponseMessage) -> Headers:
        return answer_headers(message.raw_headers, self._home.localised)

    def _give_up(self) -> None:
        if self._connection is not None:
            self._connection.abandon()
        self.ended(LegEnd.SILENT, "headers_timeout")

    def _set_timer(self, seconds: float, action: Callable[[], None]) -> None:
        self._clear_timer()
        self._timer = self._loop.call_later(seconds, action)

    def _clear_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _reason(message: RawResponseMessage) -> bytes:
    return message.reason.encode("utf-8", "surrogateescape")
