"""The driver of the simulation: feeds one session with events and performs what it asks for."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from epochgate.core import commands, events
from tests.properties.simulation.clock import Clock, Runaway
from tests.properties.simulation.connection import Connection
from tests.properties.simulation.durability import Durability
from tests.properties.simulation.server import Server
from tests.properties.simulation.trace import Trace
from tests.properties.simulation.wire import Pairs, Sink, Wire

WRITE_LIMIT = 400  # bytes that wait for a client before it counts as stalled: small, so that it happens
MAX_DEADLINES_AT_ONCE = 50
# What a mistake in the core raises; caught so that the story of the run is printed with it.
MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
)


class Crashed(Exception):
    """The core raised where it must have returned."""


class Middle(Protocol):
    """What stands between client and server: the core, or the naive relay it is compared with."""

    def handle(self, event: events.Event, now: float) -> Sequence[commands.Step]: ...
    def next_deadline(self) -> float | None: ...


class Exchange:
    """The client's side of one HTTP exchange: what the proxy writes travels to `sink`."""

    def __init__(self, number: int, clock: Clock, rng: Random, sink: Sink, trace: Trace) -> None:
        self.number = number
        self.wire = Wire(clock, rng, self, self._broke)
        self.host: Host | None = None
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

    def ended(self, is_clean: bool) -> None:
        self._sink.ended(is_clean)


class Leg:
    """The proxy's side of one upstream exchange; it turns what arrives into events."""

    def __init__(self, host: Host, command: commands.SendUpstream) -> None:
        self.host, self.command = host, command
        self.sent_at = host.clock.now
        self.is_over = False
        self.is_answered = False
        self.connection: Connection | None = None

    def head(self, status: int, headers: Pairs) -> None:
        self.is_answered = True
        self._tell(events.LegAnswered(self.command.leg, status, headers))

    def data(self, data: bytes) -> None:
        self._tell(events.LegRead(self.command.leg, data))

    def ended(self, is_clean: bool) -> None:
        self.fail(events.LegEnd.CLEAN if is_clean else events.LegEnd.BROKEN)

    def fail(self, end: events.LegEnd) -> None:
        if self.is_over:
            return
        self._tell(events.LegEnded(self.command.leg, end))
        self.is_over = True

    def give_up(self) -> None:
        """The limit for the answer's headers has passed."""
        if not self.is_answered and not self.is_over:
            self.fail(events.LegEnd.SILENT)
            self.hang_up()

    def hang_up(self) -> None:
        self.is_over = True
        if self.connection is not None and self.connection.is_open:
            self.connection.disconnected()

    def _tell(self, event: events.Event) -> None:
        if not self.is_over:
            self.host.feed(event)


class Host:
    """Performs every command in order; events that arise meanwhile wait their turn."""

    def __init__(
        self,
        name: str,
        middle: Middle,
        clock: Clock,
        rng: Random,
        server: Server,
        trace: Trace,
        new_connection: Callable[[Leg], Connection],
        register: Callable[[bytes, Host], None],
    ) -> None:
        self.name, self.middle, self.clock, self.server, self.trace = name, middle, clock, server, trace
        self.exchanges: dict[int, Exchange] = {}
        self.legs: dict[int, Leg] = {}
        self.facts: list[commands.Fact] = []
        self.is_forgotten = False
        self._rng, self._new_connection, self._register = rng, new_connection, register
        self._queue: deque[events.Event] = deque()
        self._is_busy = False
        self._armed: float | None = None
        self._reached: tuple[float, int] = (-1.0, 0)
        self._last_persisted = 0.0
        self._durability = Durability()

    def feed(self, event: events.Event) -> None:
        self._queue.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        while self._queue:
            self._take(self._queue.popleft())
        self._is_busy = False
        self._arm()

    def _take(self, event: events.Event) -> None:
        if self._is_stale(event):
            return
        self.trace.add(self.clock.now, f"{self.name} >>", event)
        if isinstance(event, events.Persisted):
            self._durability.persisted(event.token)
        for step in self._handle(event):
            self.trace.add(self.clock.now, f"{self.name} <<", step)
            self._perform(step)

    def _handle(self, event: events.Event) -> Sequence[commands.Step]:
        try:
            return self.middle.handle(event, self.clock.now)
        except MISTAKES as mistake:
            place = traceback.extract_tb(mistake.__traceback__)[-1]
            where = f"{place.filename.rsplit('/', 1)[-1]}:{place.lineno} in {place.name}"
            raise Crashed(f"{type(mistake).__name__}: {mistake} ({where})") from mistake

    def _is_stale(self, event: events.Event) -> bool:
        """Events that were on their way when the core closed the leg or ended the answer."""
        match event:
            case events.LegAnswered() | events.LegRead():
                return self.legs[event.leg].is_over
            case events.ClientLeft() | events.ClientStalled() | events.ClientDrained():
                return self.exchanges[event.exchange].is_ended
            case _:
                return False

    def _perform(self, step: commands.Step) -> None:
        match step:
            case commands.SendUpstream():
                self._send(step)
            case commands.PauseLeg() | commands.ResumeLeg():
                connection = self.legs[step.leg].connection
                if connection is not None:
                    connection.wire.pause(isinstance(step, commands.PauseLeg))
            case commands.CloseLeg() | commands.DrainLeg():
                self.legs[step.leg].hang_up()
            case commands.Respond():
                exchange = self.exchanges[step.exchange]
                exchange.open(step.status, step.headers)
                exchange.is_sse = False
                exchange.write(step.body)
                exchange.end()
            case commands.OpenAnswer():
                self.exchanges[step.exchange].open(step.status, step.headers)
            case commands.Probe():
                pass  # no simulated client ends one direction alone
            case commands.Write():
                self.exchanges[step.exchange].write(step.data)
            case commands.EndAnswer():
                self.exchanges[step.exchange].write(step.data)
                self.exchanges[step.exchange].end()
            case commands.AbortAnswer():
                self.exchanges[step.exchange].abort()
            case commands.Persist():
                self._durability.asked(step)
                self._persist(step.token)
            case commands.Register():
                self._register(step.visible_id, self)
            case commands.Forget():
                self.is_forgotten = True
            case commands.Adopt():
                raise AssertionError("no simulated client repeats its initialize")
            case _:
                self.facts.append(step)

    def _persist(self, token: int) -> None:
        delay = self._rng.choice((0.0, 0.0, 0.0, 0.0, 0.01, 0.5))
        due = max(self._last_persisted, self.clock.now + delay)  # a store answers in order
        self._last_persisted = due
        if due <= self.clock.now:
            self._queue.append(events.Persisted(token))
        else:
            self.clock.after(due - self.clock.now, lambda: self.feed(events.Persisted(token)))

    def _send(self, command: commands.SendUpstream) -> None:
        if command.leg in self.legs:
            self.trace.wrong(self.clock.now, f"command: leg {command.leg} was opened twice")
        wrong = self._durability.find_wrong(command)
        if wrong is not None:
            self.trace.wrong(self.clock.now, wrong)
        leg = self.legs[command.leg] = Leg(self, command)
        delay = self._rng.choice((0.0, 0.001, 0.02))
        if self.server.is_down:
            self.clock.after(delay, lambda: leg.fail(events.LegEnd.NOT_SENT))
            return
        leg.connection = connection = self._new_connection(leg)
        headers = {k.decode().lower(): v.decode() for k, v in command.headers}
        self.clock.after(delay, lambda: self._reach(connection, command, headers))
        if command.headers_within is not None:
            self.clock.after(command.headers_within, leg.give_up)

    def _reach(self, connection: Connection, command: commands.SendUpstream, headers: dict[str, str]) -> None:
        if not connection.is_open:
            return
        if self.server.is_down:
            connection.wire.cut()
            return
        self.server.handle(command.method.decode(), headers, command.body or b"", connection)

    def _arm(self) -> None:
        deadline = self.middle.next_deadline()
        if deadline is None or deadline == self._armed:
            return
        self._armed = deadline
        self.clock.after(max(0.0, deadline - self.clock.now), lambda: self._reach_deadline(deadline))

    def _reach_deadline(self, deadline: float) -> None:
        if self._armed != deadline or self.is_forgotten:
            return
        self._armed = None
        at, count = self._reached
        self._reached = (self.clock.now, count + 1 if at == self.clock.now else 1)
        if self._reached[1] > MAX_DEADLINES_AT_ONCE:
            raise Runaway(f"deadline {deadline} is due again and again at {self.clock.now}")
        self.feed(events.DeadlineReached())
