"""The server's side of one upstream exchange, and what the simulation knows about each byte of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from tests.properties.simulation.clock import Clock
from tests.properties.simulation.trespass import Trespass
from tests.properties.simulation.wire import Pairs, Sink, Wire


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message reached the proxy whole, on this connection, stating this epoch (None: none)."""

    connection: Connection
    tag: int | None


@dataclass
class Log:
    """Where each message arrived first, by its serial number, and when the proxy was first told that a
    session object is there: by a message, or by the head of an answer to a GET."""

    arrivals: dict[int, list[Arrival]] = field(default_factory=dict)
    told: dict[int, float] = field(default_factory=dict)


class Attached(Protocol):
    """Whatever writes to a connection; told when it is gone."""

    def detach(self, connection: Connection) -> None: ...


class Connection:
    """An answer being written. The wire calls `head`, `data` and `ended` when the proxy receives."""

    def __init__(
        self, number: int, clock: Clock, rng: Random, sink: Sink, log: Log, trespass: Trespass
    ) -> None:
        self.number = number
        self.wire = Wire(clock, rng, self, self.disconnected)
        self.trespass = trespass
        self.opens: str | None = None  # the id of the session that this answer tells
        self.is_clients_own = False  # its request is the client's own `initialize`
        self.head_epoch: int | None = None
        self.is_get = False
        self.sent_at = clock.now  # when the proxy sent the request
        self.is_resumed = False
        self.is_poll_announced = False
        self.has_retry = False  # a priming event on it told when to come back
        self.writer: Attached | None = None
        self._sink, self._log, self._clock = sink, log, clock
        self._has_epoch_in_head = False
        self._ends_with_cr = False
        self._written = 0
        self._arrived = 0
        self._marks: deque[tuple[int, tuple[int, ...], int | None, bool]] = deque()
        self.arrived_ids = 0

    def __repr__(self) -> str:
        return f"<Connection {self.number} {'resumed' if self.is_resumed else 'first'}>"

    @property
    def is_open(self) -> bool:
        return self.wire.is_open

    def open(self, status: int, headers: Pairs) -> None:
        self.wire.push_head(status, headers)

    def write(
        self, data: bytes, serials: tuple[int, ...] = (), tag: int | None = None, has_id: bool = False
    ) -> None:
        self._written += len(data)
        if serials or has_id:
            self._marks.append((self._written, serials, tag, has_id))
            self._ends_with_cr = data.endswith(b"\r\n")
        self.wire.push(data)

    def finish(self) -> None:
        self.writer = None
        self.wire.finish()

    def respond(self, status: int, headers: Pairs, body: bytes = b"") -> None:
        self.open(status, headers)
        self.write(body)
        self.finish()

    def disconnected(self) -> None:
        """The connection broke, or the proxy closed it: the handler goes on without it."""
        self.wire.close()
        if self.writer is not None:
            self.writer.detach(self)
            self.writer = None

    # --- the wire's far end: the proxy receives -------------------------------------------------

    def head(self, status: int, headers: Pairs) -> None:
        self._note_session(headers)
        if self.is_get:
            self._tell(self._stated(None))
        self._sink.head(status, headers)

    def data(self, data: bytes) -> None:
        self._count(data)
        self._sink.data(data)

    def whole(self, status: int, headers: Pairs, data: bytes) -> None:
        self._note_session(headers)
        self._count(data)
        self._sink.whole(status, headers, data)

    def _note_session(self, headers: Pairs) -> None:
        self._has_epoch_in_head = any(name == b"Mcp-Session-Epoch" for name, _ in headers)
        if self.opens is not None:
            self.trespass.sessions.append(self.opens)
            if self.is_clients_own:
                self.trespass.own.add(self.opens)

    def _count(self, data: bytes) -> None:
        """Log the messages that are whole with these bytes."""
        self._arrived += len(data)
        while self._marks and self._marks[0][0] <= self._arrived:
            _, serials, tag, has_id = self._marks.popleft()
            self.arrived_ids += has_id
            if serials:
                self._tell(self._stated(tag))
            for serial in serials:
                self._log.arrivals.setdefault(serial, []).append(Arrival(self, tag))

    def _stated(self, tag: int | None) -> int | None:
        return self.head_epoch if tag is None and self._has_epoch_in_head else tag

    def _tell(self, owner: int | None) -> None:
        if owner is not None:
            self._log.told.setdefault(owner, self._clock.now)

    def ended(self, is_clean: bool) -> None:
        if self._ends_with_cr and self._marks and self._marks[0][0] == self._arrived + 1:
            self._count(b"\n")  # the carriage return ends the event by itself
        self._sink.ended(is_clean)
