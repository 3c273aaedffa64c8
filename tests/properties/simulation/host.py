"""The driver of the simulation: feeds one session with events and performs what it asks for."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from epochgate.core import commands, events
from epochgate.core.generation import Generation
from tests.properties.simulation.clock import Clock, Runaway
from tests.properties.simulation.connection import Connection
from tests.properties.simulation.durability import Durability
from tests.properties.simulation.exchange import Exchange
from tests.properties.simulation.invariants import Invariants
from tests.properties.simulation.payload import calls_in
from tests.properties.simulation.server import Server
from tests.properties.simulation.trace import Trace
from tests.properties.simulation.trespass import Trespass
from tests.properties.simulation.upstream import Leg

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
        adopt: Callable[[Middle, Exchange], None],
    ) -> None:
        self.name, self.middle, self.clock, self.server, self.trace = name, middle, clock, server, trace
        self.exchanges: dict[int, Exchange] = {}
        self.legs: dict[int, Leg] = {}
        self.facts: list[commands.Fact] = []
        self.sent: dict[str, list[float]] = {}  # when each call went up, by its key
        self.begun: list[float] = []  # when `initialize` went up
        self.ended_upstream: set[str] = set()  # session ids that were DELETEd
        self.is_forgotten = False
        self.trespass = Trespass()
        self._invariants = Invariants(middle)
        self._rng, self._new_connection = rng, new_connection
        self._register, self._adopt = register, adopt
        self._queue: deque[events.Event] = deque()
        self._is_busy = False
        self._armed: float | None = None
        self._reached: tuple[float, int] = (-1.0, 0)
        self._last_persisted = 0.0
        self._durability = Durability()

    @property
    def generations(self) -> tuple[Generation, ...]:
        """Every generation that the session ever had, oldest first."""
        return tuple(self._invariants.generations.values())

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
        match event:
            case events.Persisted():
                self._durability.persisted(event.token)
            case events.PostArrived() if b'"initialize"' in event.raw:
                self.trespass.asked_for.add(event.raw)
            case _:
                pass
        for step in self._handle(event):
            self.trace.add(self.clock.now, f"{self.name} <<", step)
            self._perform(step)
        for broken in self._invariants.broken():
            self.trace.wrong(self.clock.now, broken)

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
            case events.LegAnswered() | events.LegRead() | events.LegCompleted() | events.LegEnded():
                return self.legs[event.leg].is_hung_up
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
                self._write(exchange, step.body)
                exchange.end()
            case commands.OpenAnswer():
                self.exchanges[step.exchange].open(step.status, step.headers)
            case commands.Probe():
                pass  # no simulated client ends one direction alone
            case commands.Write():
                self._write(self.exchanges[step.exchange], step.data)
            case commands.EndAnswer():
                self._write(self.exchanges[step.exchange], step.data)
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
                self._adopt(step.session, self.exchanges[step.exchange])
            case _:
                self.facts.append(step)

    def _write(self, exchange: Exchange, data: bytes) -> None:
        wrong = self.trespass.find_wrong_write(exchange.token, data)
        if wrong is not None:
            self.trace.wrong(self.clock.now, wrong)
        exchange.write(data)

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
        calls = calls_in(command.body)
        for wrong in (self._durability.find_wrong(calls), self.trespass.find_wrong_send(command, calls)):
            if wrong is not None:
                self.trace.wrong(self.clock.now, wrong)
        for call in calls:
            self.sent.setdefault(call["params"]["arguments"]["key"], []).append(self.clock.now)
        if b'"initialize"' in (command.body or b""):
            self.begun.append(self.clock.now)
        leg = self.legs[command.leg] = Leg(self, command)
        delay = self._rng.choice((0.0, 0.001, 0.02))
        headers = {k.decode().lower(): v.decode() for k, v in command.headers}
        if command.method == b"DELETE":
            self.ended_upstream.add(headers["mcp-session-id"])
        is_gone = headers.get("mcp-session-id") in self.server.left_behind
        if is_gone or self.server.is_down:
            how = events.LegEnd.GONE if is_gone else events.LegEnd.NOT_SENT
            self.clock.after(delay, lambda: leg.fail(how))
            return
        leg.connection = connection = self._new_connection(leg)
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
