"""Drives one session's core: events in, commands performed in order, facts shown to the observer.

Nothing here decides. An event that comes up while commands are performed (a client's buffers fill in
the middle of a write) waits its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from epochgate.core import commands as do
from epochgate.core import ending, http
from epochgate.core.events import (
    ClientDrained,
    ClientLeft,
    ClientStalled,
    DeadlineReached,
    Event,
    Fenced,
    LegAnswered,
    LegCompleted,
    LegEnd,
    LegEnded,
    LegRead,
    Persisted,
)
from epochgate.core.http import Headers
from epochgate.core.session import Session
from epochgate.core.states import SessionState
from epochgate.observe.logs import session_hash
from epochgate.shell.accesslog import Verdicts
from epochgate.shell.exchange import Exchange
from epochgate.shell.exchanges import Exchanges
from epochgate.shell.leg import Leg
from epochgate.shell.pinning import Pins
from epochgate.shell.timer import Timer
from epochgate.state.store import Outcome

if TYPE_CHECKING:
    from epochgate.shell.gateway import Gateway


_OVER = frozenset((SessionState.LOST, SessionState.ENDED))


class Driver:
    """One session with its open exchanges, legs and timer. Owner of its exchanges, sink of its legs."""

    __slots__ = (
        "_events",
        "_gateway",
        "_is_busy",
        "_legs",
        "_timer",
        "core",
        "exchanges",
        "host",
        "key",
        "label",
        "pins",
        "verdicts",
    )

    def __init__(self, gateway: Gateway, core: Session, host: bytes | None, pins: Pins) -> None:
        self.core = core
        self.host = host
        self.pins = pins
        self.key: tuple[bytes, bytes] | None = None
        self.label = ""
        self.verdicts = Verdicts()
        self._gateway = gateway
        self._events: list[Event] = []
        self._is_busy = False
        self.exchanges = Exchanges()
        self._legs: dict[int, Leg] = {}
        self._timer = Timer(gateway.loop, self._ring)

    def __repr__(self) -> str:
        return f"<Driver {self.label or 'opening'} {self.core!r}>"

    def admit(self, exchange: Exchange, event: Event) -> None:
        """Take a client's request; the core answers it in its own time."""
        self.verdicts.begin(exchange.id)
        self.take(exchange)
        self.feed(event)

    def take(self, exchange: Exchange) -> None:
        """The exchange is this session's: what its client does is told to the core."""
        self.exchanges.take(exchange, self)

    def feed(self, event: Event) -> None:
        """Take an event and everything that follows from it."""
        self._events.append(event)
        if not self._is_busy:
            self._go_on()

    def _go_on(self) -> None:
        """Handle the events that wait, then look at the clock."""
        self._is_busy = True
        loop = self._gateway.loop
        try:
            while self._events:
                for step in self.core.handle(self._events.pop(0), loop.time()):
                    self._perform(step)
            self._is_busy = False
        finally:
            if self._is_busy:
                self._break_off()
        if self.core.state in _OVER:
            self.pins.close()
        self._set_timer()

    def _break_off(self) -> None:
        """The core failed: nothing it holds can be trusted. Cut every client rather than let one wait
        or be answered wrongly; the session is unknown from now on."""
        self.exchanges.abort_all()
        self._forget()

    @property
    def is_unused(self) -> bool:
        """Whether the session may make room for another."""
        return not self._legs and not self.exchanges and not self._events and ending.is_unused(self.core)

    @property
    def idle_seconds(self) -> float:
        """Since its client asked something of it."""
        return self._gateway.loop.time() - self.core.touched_at

    def close(self) -> None:
        """Break everything off; the core is not asked."""
        self._timer.cancel()
        self.pins.close()
        for leg in self._legs.values():
            leg.close()
        self._legs.clear()

    # --- ExchangeOwner --------------------------------------------------------------------------

    def client_left(self, exchange: int) -> None:
        self.exchanges.pop(exchange, None)
        self.feed(ClientLeft(exchange))

    def client_stalled(self, exchange: int) -> None:
        self.feed(ClientStalled(exchange))

    def client_drained(self, exchange: int) -> None:
        self.feed(ClientDrained(exchange))

    # --- LegSink --------------------------------------------------------------------------------

    def leg_answered(self, leg: int, status: int, headers: Headers, reason: bytes) -> None:
        headers = self._note(self._legs.get(leg), status, headers)
        self.feed(LegAnswered(leg, status, headers, reason))

    def leg_read(self, leg: int, data: bytes) -> None:
        if self._is_busy or self._events:
            self.feed(LegRead(leg, data))
            return
        self._is_busy = True
        try:
            for step in self.core.read(leg, data, self._gateway.loop.time()):
                if type(step) is do.Write:
                    exchange = self.exchanges.get(step.exchange)
                    if exchange is not None:
                        exchange.write(step.data)
                elif type(step) is do.Relayed:
                    self._gateway.observer.relayed += step.events
                else:
                    self._perform(step)
            self._is_busy = False
        finally:
            if self._is_busy:
                self._break_off()
        if self._events or self.core.has_new_deadline:
            self._go_on()

    def leg_whole(self, leg: int, status: int, headers: Headers, reason: bytes, body: bytes) -> None:
        headers = self._note(self._legs.pop(leg, None), status, headers)
        self.feed(LegCompleted(leg, status, headers, body, reason))

    def _note(self, leg: Leg | None, status: int, headers: Headers) -> Headers:
        if leg is None:
            return headers
        browsers = self.exchanges.browsers
        if browsers is not None and leg.origin is not None:
            browsers.told(leg.origin, headers)
        return self.pins.answered(leg, status, headers)

    def leg_ended(self, leg: int, end: LegEnd, error: str) -> None:
        ended = self._legs.pop(leg, None)
        self._gateway.observer.why = "" if ended is None else ended.why
        is_closed = end is LegEnd.BROKEN and not error  # only that a close-delimited body ended
        self.feed(LegEnded(leg, LegEnd.CLOSED if is_closed else end))
        self._gateway.observer.why = ""

    # --- the one exhaustive match ---------------------------------------------------------------

    def _perform(self, step: do.Step) -> None:
        match step:
            case do.SendUpstream():
                self._send(step)
            case do.Respond() | do.OpenAnswer() | do.Write() | do.EndAnswer() | do.AbortAnswer() | do.Probe():
                self.exchanges.perform(step)
            case do.PauseLeg() | do.ResumeLeg() | do.CloseLeg() | do.DrainLeg():
                self._steer(step)
            case do.Relayed() | do.Dropped() | do.HealBegun() | do.Discarded() | do.Drifted():
                self._gateway.observer.saw(self.label, step)
            case do.Counted() | do.UpstreamFailed():
                self._gateway.observer.saw(self.label, step)
            case do.Judged() | do.Reissued() | do.HealEnded():
                self._gateway.observer.saw(self.label, step)
                self.verdicts.add(step)
            case do.Persist():
                self._persist(step)
            case do.Register():
                self._gateway.sessions.register(self, step.visible_id)
                self.pins.count()
                self.label = session_hash(step.visible_id)
            case do.Adopt():
                self._gateway.adopt(step.session, self, self.exchanges.pop(step.exchange, None))
            case do.Forget():
                self._forget()
            case _:
                assert_never(step)

    def _send(self, step: do.SendUpstream) -> None:
        leg = self.pins.send(step, self, self.host)
        self._legs[step.leg] = leg
        if self.exchanges.browsers is not None:
            leg.origin = http.find(step.headers, http.ORIGIN)

    def _steer(self, step: do.PauseLeg | do.ResumeLeg | do.CloseLeg | do.DrainLeg) -> None:
        leg = self._legs.get(step.leg)
        if leg is None:
            return
        match step:
            case do.PauseLeg():
                leg.pause()
            case do.ResumeLeg():
                leg.resume()
            case do.CloseLeg():
                del self._legs[step.leg]
                leg.close()
            case do.DrainLeg():
                del self._legs[step.leg]
                leg.drain()
            case _:
                assert_never(step)

    def _persist(self, step: do.Persist) -> None:
        def done(outcome: Outcome) -> None:
            is_durable = outcome is Outcome.DURABLE
            self.feed(Persisted(step.token) if is_durable else Fenced(step.token))

        self._gateway.store.persist(step.record, done)

    def _forget(self) -> None:
        self.exchanges.abort_all()  # nothing of the session is left that could answer
        self.close()
        self._gateway.sessions.forget(self)

    # --- time -----------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        if self.core.has_new_deadline and (at := self.core.next_deadline()) is not None:
            self._timer.set(at)

    def _ring(self) -> None:
        self.core.timers.has_new = True
        self.feed(DeadlineReached())
