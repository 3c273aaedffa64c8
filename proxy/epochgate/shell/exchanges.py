"""The open exchanges of one session, and what the core has done to each.

An exchange that was answered, cut off or left by its client is none of them any more: what the core still
says of it does nothing. Answers carry the lines that browsers need (`browsers`).
"""

from __future__ import annotations

from typing import assert_never

from epochgate.core import commands as do
from epochgate.core.http import Headers
from epochgate.shell.browsers import Browsers
from epochgate.shell.exchange import Exchange, ExchangeOwner

Step = do.Respond | do.OpenAnswer | do.Write | do.Probe | do.EndAnswer | do.AbortAnswer


class Exchanges(dict[int, Exchange]):
    """By their numbers."""

    __slots__ = ("browsers",)

    def __init__(self) -> None:
        super().__init__()
        self.browsers: Browsers | None = None  # as soon as a request has an Origin

    def take(self, exchange: Exchange, owner: ExchangeOwner) -> None:
        """`owner` is told what its client does."""
        if exchange.origin is not None:
            self.browsers = self.browsers or Browsers()
        exchange.owner = owner
        self[exchange.id] = exchange

    def perform(self, step: Step) -> None:
        exchange = self.get(step.exchange)
        if exchange is None:
            return
        match step:
            case do.Write():
                exchange.write(step.data)
            case do.Respond():
                del self[step.exchange]
                exchange.respond(step.status, self._allowed(exchange, step.headers), step.body, step.reason)
            case do.OpenAnswer():
                exchange.probe = step.probe
                exchange.open(step.status, self._allowed(exchange, step.headers), step.reason)
            case do.Probe():
                exchange.probe = step.probe
            case do.EndAnswer():
                del self[step.exchange]
                exchange.end(step.data)
            case do.AbortAnswer():
                del self[step.exchange]
                exchange.abort()
            case _:
                assert_never(step)

    def abort_all(self) -> None:
        for exchange in tuple(self.values()):
            exchange.abort()
        self.clear()

    def _allowed(self, exchange: Exchange, headers: Headers) -> Headers:
        if exchange.origin is None or self.browsers is None:
            return headers
        return self.browsers.allowed(exchange.origin, headers)
