"""Traffic outside the guard: one request up, one answer down, byte for byte.

Both legs live and die together. The client leaves: the upstream leg is closed at once, which is the
cancellation these revisions know. The upstream fails: before its first byte the client's connection
is closed without an answer (W4), later it is broken, so that nothing cut can look complete. A client
that stops reading pauses the upstream leg.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from epochgate.core.classify import NEEDS_BODY
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


Answered = Callable[[int, Upstream], None]
IsGone = Callable[[int, bytes], bool]  # by the status and the body of an answer
_Round = tuple[Upstream, Sequence[Upstream]]
_MAX_REFUSAL_BYTES = 65_536  # a body that speaks of a session is far shorter


async def relay(
    exchange: Exchange,
    upstreams: Sequence[Upstream],
    headers: Headers,
    leg: int,
    host: bytes | None = None,
    answered: Answered | None = None,
    is_gone: IsGone | None = None,
) -> Relayed:
    """Relay `exchange` and return when both sides are done.

    The first of `upstreams` is asked, the others in turn while none is reached; in a search also while the
    answer says, by `is_gone`, that the server does not know the session: it did nothing. `headers` are the
    end-to-end headers to send, `leg` is a number for the log, `host` replaces the upstream's own `Host`.
    `answered` is told the status that is passed on, and whose it is. Cancelling breaks both sides.
    """
    body = exchange.body if exchange.has_body else None
    request = SendUpstream(leg, exchange.method, exchange.target, headers, body)
    pump = _Pump(exchange, request, host, answered, is_gone)
    if is_gone is None:
        pump.ask((upstreams[0], upstreams[1:]))
    else:
        pump.ask(*[(one, ()) for one in upstreams])
    try:
        await exchange.wait_done()
    finally:
        pump.stop()
    return Relayed(pump.status, pump.error, pump.why)


@dataclass(slots=True)
class _Refusal:
    """An answer whose body says whether the session is known there, until it is whole."""

    status: int
    headers: Headers
    reason: bytes
    body: bytes = b""


class _Pump:
    """Moves one upstream leg into one exchange, and the client's moods back."""

    def __init__(
        self,
        exchange: Exchange,
        request: SendUpstream,
        host: bytes | None,
        answered: Answered | None,
        is_gone: IsGone | None,
    ) -> None:
        self.status: int | None = None
        self.error = ""
        self.why = ""
        self._exchange = exchange
        self._request = request
        self._host = host
        self._answered = answered
        self._is_gone = is_gone
        self._rounds: list[_Round] = []  # who is asked next, if this one is not it
        self._refusal: _Refusal | None = None
        self._leg: Leg | None = None
        self._loop = asyncio.get_running_loop()

    def ask(self, *rounds: _Round) -> None:
        """Ask a server, and those beside it while none is reached; the next round if it does not know the
        session."""
        (upstream, others), *self._rounds = rounds
        self._leg = upstream.send(self._request, self, self._host, others=others)
        self._exchange.owner = self

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
        if self._rounds and status in NEEDS_BODY:
            self._refusal = _Refusal(status, headers, reason)
        else:
            self._begin(status, headers, reason)

    def leg_read(self, leg: int, data: bytes) -> None:
        if self._refusal is None:
            self._exchange.write(data)
            return
        self._refusal.body += data
        if len(self._refusal.body) > _MAX_REFUSAL_BYTES:
            self._judge(self._refusal, b"")

    def leg_whole(self, leg: int, status: int, headers: Headers, reason: bytes, body: bytes) -> None:
        self.leg_answered(leg, status, headers, reason)
        if body:
            self.leg_read(leg, body)
        self.leg_ended(leg, LegEnd.CLEAN, "")

    def leg_ended(self, leg: int, end: LegEnd, error: str) -> None:
        if end in (LegEnd.NOT_SENT, LegEnd.GONE) and self._rounds:
            self.ask(*self._rounds)
            return
        is_over = end is LegEnd.CLEAN or (self._has_answer and not error)
        if is_over and self._refusal is not None and self._judge(self._refusal, self._refusal.body):
            return
        self.error = error
        self.why = "" if self._leg is None else self._leg.why
        if is_over:
            self._exchange.end()
        else:
            self._exchange.abort()

    @property
    def _has_answer(self) -> bool:
        return self.status is not None or self._refusal is not None

    def _judge(self, refusal: _Refusal, body: bytes) -> bool:
        """Whether the next one is asked; else what came of the refusal is passed on."""
        self._refusal = None
        if self._is_gone is not None and self._is_gone(refusal.status, body):
            if self._leg is not None:
                self._leg.drain()
            self.ask(*self._rounds)
            return True
        self._begin(refusal.status, refusal.headers, refusal.reason)
        self._exchange.write(refusal.body)
        return False

    def _begin(self, status: int, headers: Headers, reason: bytes) -> None:
        self.status = status
        if self._answered is not None and self._leg is not None and self._leg.upstream is not None:
            self._answered(status, self._leg.upstream)
        framing = self._leg.framing if self._leg is not None else None
        self._open(status, headers, reason, framing or Framing(Delimiter.CLOSE))
        self._loop.call_soon(self._exchange.write, b"")  # the head alone, if no body came with it

    def _open(self, status: int, headers: Headers, reason: bytes, framing: Framing) -> None:
        match framing.delimiter:
            case Delimiter.NOTHING | Delimiter.LENGTH:
                self._exchange.open_sized(status, headers, framing.length, reason)
            case Delimiter.CHUNKS:
                self._exchange.open(status, headers, reason)
            case Delimiter.CLOSE:
                self._exchange.open(status, headers, reason, is_delimited=True)
