"""A naive transparent relay with the interface of the core: what the guard is compared with.

It forwards requests, `Last-Event-ID` and bytes, and breaks the client's connection where the
upstream's broke. The same seeds must show splices with it, or the oracle sees nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from epochgate.core import commands, events
from epochgate.core.http import SESSION_ID, find


class Relay:
    """One per session, as the core's `Session`."""

    def __init__(self) -> None:
        self._next_leg = 0
        self._exchange: dict[int, int] = {}  # leg -> exchange
        self._leg: dict[int, int] = {}  # exchange -> leg
        self._answered: set[int] = set()

    def next_deadline(self) -> float | None:
        return None

    def handle(self, event: events.Event, now: float) -> Sequence[commands.Step]:
        match event:
            case events.PostArrived():
                return self._forward(event.exchange, b"POST", event.head, event.raw)
            case events.GetArrived():
                return self._forward(event.exchange, b"GET", event.head, None)
            case events.DeleteArrived():
                return self._forward(event.exchange, b"DELETE", event.head, None)
            case events.LegAnswered():
                return self._answer(event)
            case events.LegRead():
                return [commands.Write(self._exchange[event.leg], event.data)]
            case events.LegEnded():
                return self._end(event)
            case events.ClientLeft() if event.exchange in self._leg:
                leg = self._leg.pop(event.exchange)
                return [commands.CloseLeg(leg)]
            case _:
                return []

    def _forward(
        self, exchange: int, method: bytes, head: events.RequestHead, body: bytes | None
    ) -> Sequence[commands.Step]:
        self._next_leg += 1
        self._exchange[self._next_leg] = exchange
        self._leg[exchange] = self._next_leg
        return [commands.SendUpstream(self._next_leg, method, head.target, head.headers, body)]

    def _answer(self, event: events.LegAnswered) -> Sequence[commands.Step]:
        exchange = self._exchange[event.leg]
        self._answered.add(event.leg)
        steps: list[commands.Step] = [commands.OpenAnswer(exchange, event.status, event.headers)]
        visible = find(event.headers, SESSION_ID)
        if visible is not None:
            steps.insert(0, commands.Register(visible))
        return steps

    def _end(self, event: events.LegEnded) -> Sequence[commands.Step]:
        exchange = self._exchange[event.leg]
        self._leg.pop(exchange, None)
        if event.leg not in self._answered:
            return [commands.Respond(exchange, 502, (), b"")]
        if event.end is events.LegEnd.CLEAN:
            return [commands.EndAnswer(exchange)]
        return [commands.AbortAnswer(exchange)]
