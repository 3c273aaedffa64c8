"""The client's side of a stream: it leaves, is slow, comes back, or does not.

A client that leaves does not end the work (design, section 5): its stream is held, journalled by
`delivery` and redelivered. What was not fetched in time becomes a tombstone, never silence (R13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import cursor, delivery, jsonrpc, legs, opening, restarting, sse
from epochgate.core.commands import (
    EndAnswer,
    PauseLeg,
    ResumeLeg,
    Write,
)
from epochgate.core.errors import OUTCOME_UNKNOWN
from epochgate.core.events import DrainBegun
from epochgate.core.http import Headers
from epochgate.core.states import ClientHalf, ClientInput, Up, UpInput
from epochgate.core.stream import Owed, Stream, Tombstone
from epochgate.core.timers import OF_STREAMS, Timer
from epochgate.core.verdict import OUTSIDE

if TYPE_CHECKING:
    from epochgate.core.session import Session

_SSE_HEADERS: Headers = (
    (b"Content-Type", b"text/event-stream"),
    (b"Cache-Control", b"no-cache, no-transform"),
    (b"X-Accel-Buffering", b"no"),
)
_NEARLY_S = 0.001  # closer to its time than a clock can tell


# --- the client comes and goes ----------------------------------------------------------------------


def left(session: Session, exchange: int) -> None:
    """The client's connection is gone. Nothing of its stream ends but this leg."""
    attempt = opening.find(session, exchange)
    if attempt is not None:
        attempt.has_client = False  # its answer counts all the same
        return
    session.asking.pop(exchange, None)
    session.opened.pop(exchange, None)
    stream = session.exchanges.get(exchange)
    if stream is None or stream.exchange != exchange:
        return
    delivery.release(session, stream)
    if stream.client is ClientHalf.ATTACHED and (stream.has_id or not stream.is_request):
        stream.move_client(ClientInput.LEFT)
        session.set_timer(Timer.HOLD, stream.handle, session.policy.hold_s)
    else:
        stream.move_client(ClientInput.LEFT_WITHOUT_ID)
    session.clear_timer(Timer.WAIT, stream.handle)
    if stream.passing is not None:  # nothing of it was kept that could come again
        restarting.restart(session, stream, OUTSIDE["event_too_large"], [])
        return
    if stream.up in (Up.WAITING, Up.VOID) and stream.client is ClientHalf.DONE:
        _abandon(session, stream)
        return
    delivery.adjust_flow(session, stream)


def _abandon(session: Session, stream: Stream) -> None:
    """Nobody waits for a request that is to be sent, or sent again: it will not be."""
    session.move_stream(stream, UpInput.FAILED)
    session.set_timer(Timer.RETAIN, stream.handle, session.policy.retain_s)


def stalled(session: Session, exchange: int) -> None:
    """The client reads slowly: what comes for it is not read on."""
    stream = session.exchanges.get(exchange)
    if stream is not None:
        stream.is_stalled = True
        delivery.adjust_flow(session, stream)
    elif (attempt := opening.find(session, exchange)) is not None and attempt.leg in session.legs:
        session.do(PauseLeg(attempt.leg))


def drained(session: Session, exchange: int) -> None:
    """The client has read on."""
    stream = session.exchanges.get(exchange)
    if stream is not None:
        stream.is_stalled = False
        delivery.adjust_flow(session, stream)
    elif (attempt := opening.find(session, exchange)) is not None and attempt.leg in session.legs:
        session.do(ResumeLeg(attempt.leg))


def attach(session: Session, stream: Stream, exchange: int, position: int, before: bytes = b"") -> None:
    """Redeliver what is behind `position` (-1: everything) to a new leg, which then goes on live.

    `before` are events of a stream that this one follows.

    Of two legs the newer wins; the older ends with the final chunk (R35). Nothing to replay: a priming
    event instead, so that the client keeps a cursor (R10).
    """
    if stream.passing is not None:
        restarting.restart(session, stream, OUTSIDE["event_too_large"], [])
    if stream.exchange is not None:
        session.do(EndAnswer(delivery.release(session, stream)))
    stream.exchange = exchange
    session.exchanges[exchange] = stream
    stream.move_client(ClientInput.RETURNED if stream.client is not ClientHalf.UNBORN else ClientInput.OPENED)
    session.clear_timer(Timer.HOLD, stream.handle)
    session.clear_timer(Timer.RETAIN, stream.handle)
    headers = stream.client_head or sse_headers(session)
    delivery.open_answer(session, exchange, headers, delivery.keepalive(stream.caller))
    data = before + b"".join(stream.journal.after(position)) or delivery.priming(session, stream)
    session.do(Write(exchange, data))
    stream.journal.written_to = stream.numbering.next_position
    if stream.is_over:
        delivery.finish(session, stream)
        return
    delivery.watch(session, stream)
    delivery.adjust_flow(session, stream)


def attach_void(session: Session, stream: Stream, exchange: int, position: int, before: bytes) -> None:
    """The client of a stream that has to be restarted: it is attached, and of the dead run no more than
    `before` is replayed to it."""
    if stream.exchange is not None:
        session.do(EndAnswer(delivery.release(session, stream)))
    stream.exchange = exchange
    session.exchanges[exchange] = stream
    stream.move_client(ClientInput.RETURNED)
    session.clear_timer(Timer.HOLD, stream.handle)
    headers = stream.client_head or sse_headers(session)
    delivery.open_answer(session, exchange, headers, delivery.keepalive(stream.caller))
    session.do(Write(exchange, before or delivery.priming(session, stream)))
    stream.journal.written_to = position + 1
    delivery.watch(session, stream)


def sse_headers(session: Session) -> Headers:
    return (*_SSE_HEADERS, (b"Mcp-Session-Id", session.visible_id))


def error_stream(session: Session, exchange: int, missing: tuple[bytes, ...]) -> None:
    """A cursor of a stream that is gone: 200, and an error for each id without an answer (R13)."""
    block = session.blocks.take()
    first = cursor.mint(block, 0)
    owed = tuple((id, position) for position, id in enumerate(missing, 1))
    _set_stone(session, block, Tombstone(owed, first + len(owed), is_standalone=False))
    delivery.open_answer(session, exchange, sse_headers(session), b"")
    events = [sse.priming(first)] if delivery.may_prime(session) else []
    for request_id, position in owed:
        data = {"reason": "expired", "generation": session.current.number}
        text = "epochgate: outcome unknown (expired)"
        error = jsonrpc.error_response(request_id, OUTCOME_UNKNOWN, text, data)
        events.append(sse.message(error, first + position))
    session.do(EndAnswer(exchange, b"".join(events)))


# --- timers -----------------------------------------------------------------------------------------


def keep_alive(session: Session, exchange: int) -> None:
    stream = session.exchanges[exchange]
    idle = session.now - stream.last_write_at
    if stream.up is Up.OPAQUE:
        idle = 0.0  # a comment inside what is passed on would be part of it
    elif idle >= session.policy.keepalive_s - _NEARLY_S:
        session.do(Write(exchange, delivery.keepalive(stream.caller)))
        stream.last_write_at = session.now
        idle = 0.0
    session.set_timer(Timer.KEEPALIVE, exchange, session.policy.keepalive_s - idle)


def hold_expired(session: Session, stream: Stream) -> None:
    """The client did not come back in time: what it is owed becomes a tombstone (R13)."""
    if not stream.is_over:
        delivery.fail(session, stream, OUTCOME_UNKNOWN, "expired")
    forget(session, stream)


def forget(session: Session, stream: Stream) -> None:
    """Drop a finished stream; its cursors lead to a tombstone from now on."""
    legs.end(session, stream)
    session.timers.clear_each(OF_STREAMS, stream.handle)
    if stream.up is not Up.GONE:
        session.move_stream(stream, UpInput.FORGOTTEN)
    if session.streams.pop(stream.handle, None) is None:
        return
    stream.journal.clear()
    _bury(session, stream)
    is_known = bool(session.questions)
    for owed in stream.owed:
        _retire(session, stream, owed)
        is_known = is_known or owed.message.is_task
    if is_known:
        stream.let_go()
    if session.standalone is stream:
        session.standalone = None
    if stream.successor is not None:
        stream.successor.predecessor = None
    if stream.predecessor is not None:
        forget(session, stream.predecessor)  # its cursors lead nowhere any more


def _retire(session: Session, stream: Stream, owed: Owed) -> None:
    """Keep only that the stamp was answered; a task's token lives on with its task (R30)."""
    generation = stream.generation
    if generation.stamps.pop(owed.key, None) is not None and owed.is_stamped:
        generation.retire(owed.key, session.now)
    key = owed.token_key
    if key is None:
        return
    if owed.message.is_task:
        generation.keep_task(key)
        return
    if generation.tokens.pop(key, None) is not None and owed.is_stamped:
        generation.retire(key, session.now)


def _bury(session: Session, stream: Stream) -> None:
    if not stream.numbering.blocks:
        return
    # At the last event of a superseded stream its client still waits for the answer.
    last_cursor = stream.numbering.next_cursor - 1 if stream.successor is None else -1
    for block, first in stream.numbering.blocks:
        session.block_owners.pop(block, None)
        _set_stone(session, block, Tombstone(stream.answers, last_cursor, not stream.is_request, first))


def _set_stone(session: Session, block: int, stone: Tombstone) -> None:
    session.tombstones[block] = stone
    while len(session.tombstones) > session.policy.max_tombstones:
        session.tombstones.pop(next(iter(session.tombstones)))


def cancel_due(session: Session, stream: Stream) -> None:
    """A cancelled request had its time to be answered all the same (R29)."""
    if stream.is_over or stream.open_owed:
        return
    if stream.is_body_passed_on:
        delivery.abort(session, stream)
        return
    legs.end(session, stream)
    delivery.break_off(session, stream)
    session.move_stream(stream, UpInput.CANCELLED)
    delivery.clear_timers(session, stream)
    if stream.client is ClientHalf.UNBORN:
        text = delivery.error(stream, stream.owed[0], OUTCOME_UNKNOWN, "cancelled")
        delivery.respond_errors(session, stream, [text])
        return
    delivery.finish(session, stream)


# --- going away -------------------------------------------------------------------------------------


def begin_drain(session: Session, event: DrainBegun) -> None:
    """No heal is begun from now on, owed answers have until `until`; idle legs end cleanly, but not while
    their clients could come back (W10)."""
    session.drain_until = event.until
    session.set_timer(Timer.DRAIN, 0, max(event.until - session.now, 0.0))
    if event.is_listening:
        return
    for stream in list(session.streams.values()):
        if stream.is_request:
            continue
        delivery.break_off(session, stream)
        if stream.exchange is not None:
            if stream.client is ClientHalf.UNBORN:  # the server has not answered yet
                delivery.open_sse(session, stream, sse_headers(session))
            session.do(EndAnswer(delivery.release(session, stream)))
            stream.move_client(ClientInput.LEFT)


def drain_expired(session: Session) -> None:
    for stream in list(session.streams.values()):
        if stream.is_request and not stream.is_over and stream.exchange is not None:
            delivery.fail(session, stream, OUTCOME_UNKNOWN, "draining")
