"""Traffic outside the guard: one request up, one answer down, byte for byte.

Both legs live and die together. The client leaves: the upstream leg is closed at once, which is the
cancellation these revisions know. The upstream fails: before its first byte the client's connection
is closed without an answer (W4), later it is broken, so that nothing cut can look complete. A client
that stops reading pauses the upstream leg.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from epochgate.core.commands import SendUpstream
from epochgate.core.events import LegEnd
from epochgate.core.http import Headers
from epochgate.shell.exchange import Exchange
from epochgate.shell.leg import Leg
from epochgate.shell.parser import Delimiter, Framing
from epochgate.shell.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Relayed:
    """How it went: the upstream's status (None: it gave none), and what failed there, or ""."""

    status: int | None
    error: str
    why: str = field(default="", compare=False)  # in words, where there are any
    upstream: Upstream | None = field(default=None, compare=False)  # who was asked last


_Round = tuple[Upstream, Sequence[Upstream]]


async def relay(
    exchange: Exchange,
    upstreams: Sequence[Upstream],
    headers: Headers,
    leg: int,
    host: bytes | None = None,
    *,
    is_search: bool = False,
) -> Relayed:
    """Relay `exchange` and return when both sides are done.

    The first of `upstreams` is asked, the others in turn while none is reached; in a search also while the
    answer is 404, by which a server says that it did nothing since it does not know the session. `headers`
    are the end-to-end headers to send, `leg` is a number for the log, `host` replaces the upstream's own
    `Host`. Cancelling breaks both sides.
    """
    body = exchange.body if exchange.has_body else None
    request = SendUpstream(leg, exchange.method, exchange.target, headers, body)
    pump = _Pump(exchange, request, host)
    if is_search:
        pump.ask(*[(one, ()) for one in upstreams])
    else:
        pump.ask((upstreams[0], upstreams[1:]))
    try:
        await exchange.wait_done()
    finally:
        pump.stop()
    return Relayed(pump.status, pump.error, pump.why, pump.asked)


class _Pump:
    """Moves one upstream leg into one exchange, and the client's moods back."""

    def __init__(self, exchange: Exchange, request: SendUpstream, host: bytes | None) -> None:
        self.status: int | None = None
        self.error = ""
        self.why = ""
        self._exchange = exchange
        self._request = request
        self._host = host
        self._rounds: list[_Round] = []  # what is asked if this one says 404, or is not reached
        self._leg: Leg | None = None
        self._loop = asyncio.get_running_loop()

    def ask(self, *rounds: _Round) -> None:
        """Ask a server, and those beside it while none is reached; the next round if it says 404."""
        (upstream, others), *self._rounds = rounds
        self._leg = upstream.send(self._request, self, self._host, others=others)
        self._exchange.owner = self

    @property
    def asked(self) -> Upstream | None:
        """Who was asked last."""
        return None if self._leg is None else self._leg.upstream

    def stop(self) -> None:
        """Break whatever is not over yet."""
        if self._leg is not None:
            self._leg.close()
        self._exchange.abort()

    # ExchangeOwner

    def client_left(self, exchange: int) -> None:
        """Nobody waits for the answer any more: `relay` goes on."""

    def client_stalled(self, exchange: int) -> None:
        if self._leg is not None:
            self._leg.pause()

    def client_drained(self, exchange: int) -> None:
        if self._leg is not None:
            self._leg.resume()

    # LegSink

    def leg_answered(self, leg: int, status: int, headers: Headers, reason: bytes) -> None:
        if status == 404 and self._rounds:
            if self._leg is not None:
                self._leg.drain()
            self.ask(*self._rounds)
            return
        self.status = status
        framing = self._leg.framing if self._leg is not None else None
        self._open(status, headers, reason, framing or Framing(Delimiter.CLOSE))
        self._loop.call_soon(self._exchange.write, b"")  # the head alone, if no body came with it

    def leg_read(self, leg: int, data: bytes) -> None:
        self._exchange.write(data)

    def leg_whole(self, leg: int, status: int, headers: Headers, reason: bytes, body: bytes) -> None:
        is_last = status != 404 or not self._rounds
        self.leg_answered(leg, status, headers, reason)
        if is_last and body:
            self.leg_read(leg, body)
        if is_last:
            self.leg_ended(leg, LegEnd.CLEAN, "")

    def leg_ended(self, leg: int, end: LegEnd, error: str) -> None:
        if end is LegEnd.NOT_SENT and self._rounds:
            self.ask(*self._rounds)
            return
        self.error = error
        self.why = "" if self._leg is None else self._leg.why
        if end is LegEnd.CLEAN or (self.status is not None and not error):
            self._exchange.end()
        else:
            self._exchange.abort()

    def _open(self, status: int, headers: Headers, reason: bytes, framing: Framing) -> None:
        match framing.delimiter:
            case Delimiter.NOTHING | Delimiter.LENGTH:
                self._exchange.open_sized(status, headers, framing.length, reason)
            case Delimiter.CHUNKS:
                self._exchange.open(status, headers, reason)
            case Delimiter.CLOSE:
                self._exchange.open(status, headers, reason, is_delimited=True)
