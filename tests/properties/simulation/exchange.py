"""The client's side of one HTTP exchange, as the proxy writes it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from epochgate.core import events
from tests.properties.simulation.clock import Clock
from tests.properties.simulation.trace import Trace
from tests.properties.simulation.wire import Pairs, Sink, Wire

if TYPE_CHECKING:
    from tests.properties.simulation.host import Host

WRITE_LIMIT = 400  # bytes that wait for a client before it counts as stalled: small, so that it happens


class Exchange:
    """What the proxy writes travels to `sink`. `token`: the credentials of the request."""

    def __init__(self, number: int, token: str, clock: Clock, rng: Random, sink: Sink, trace: Trace) -> None:
        self.number, self.token = number, token
        self.wire = Wire(clock, rng, self, self._broke)
        self.host: Host | None = None
        self.arrived_at: float | None = None  # at the proxy
        self.is_answered = False
        self.is_ended = False
        self.is_sse = False
        self.is_gone = False
        self._is_stalled = False
        self._clock, self._rng, self._sink, self._trace = clock, rng, sink, trace
        self._tail = b""

    def cut(self) -> None:
        """The connection breaks; each side notices in its own time."""
        self.wire.cut()

    def leave(self) -> None:
        """The client hangs up."""
        self.wire.close()
        self._broke()

    def _broke(self) -> None:
        self.is_gone = True
        self._clock.after(self._rng.choice((0.0, 0.0, 0.05, 2.0, 8.0)), self._tell_left)

    def _tell_left(self) -> None:
        if self.host is not None and not self.is_ended:
            self.host.feed(events.ClientLeft(self.number))

    # --- the proxy writes -----------------------------------------------------------------------

    def open(self, status: int, headers: Pairs) -> None:
        if self.is_answered:
            self._wrong("answered twice")
            return
        self.is_answered = True
        self.is_sse = any(k.lower() == b"content-type" and b"event-stream" in v for k, v in headers)
        self.wire.push_head(status, headers)

    def write(self, data: bytes) -> None:
        if not self.is_answered or self.is_ended:
            self._wrong("a write outside an open answer")
            return
        if self.is_sse and data and not data.endswith((b"\n\n", b"\r\n\r\n", b": keepalive\n")):
            self._wrong(f"half an event was written: {data[-60:]!r}")
        self.wire.push(data)
        if self.wire.waiting > WRITE_LIMIT and not self._is_stalled and self.host is not None:
            self._is_stalled = True
            self.host.feed(events.ClientStalled(self.number))

    def end(self) -> None:
        if not self.is_answered or self.is_ended:
            self._wrong("an end outside an open answer")
            return
        self.is_ended = True
        self.wire.finish()

    def abort(self) -> None:
        self.is_ended = True
        self.wire.cut()

    def _wrong(self, text: str) -> None:
        self._trace.wrong(self._clock.now, f"command: exchange {self.number}: {text}")

    # --- the wire's far end: the client receives ------------------------------------------------

    def head(self, status: int, headers: Pairs) -> None:
        self._sink.head(status, headers)

    def data(self, data: bytes) -> None:
        self._sink.data(data)
        if self._is_stalled and self.wire.waiting < WRITE_LIMIT // 2:
            self._is_stalled = False
            if self.host is not None and not self.is_ended and not self.is_gone:
                self.host.feed(events.ClientDrained(self.number))

    def whole(self, status: int, headers: Pairs, data: bytes) -> None:
        self._sink.whole(status, headers, data)

    def ended(self, is_clean: bool) -> None:
        self._sink.ended(is_clean)
