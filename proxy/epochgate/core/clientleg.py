"""The client leg: what is written to the client, and what happens when it leaves or is slow.

A client that leaves does not end the work (design, section 5): its stream is held, journalled and
redelivered. Half-delivered is not delivered; after the last owed answer the leg is done (W7).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from epochgate.core import cursor, http, jsonrpc, sse
from epochgate.core.commands import (
    AbortAnswer,
    CloseLeg,
    Counted,
    DrainLeg,
    EndAnswer,
    PauseLeg,
    Relayed,
    Respond,
    ResumeLeg,
    Write,
)
from epochgate.core.errors import OUTCOME_UNKNOWN
from epochgate.core.http import Headers
from epochgate.core.journal import Entry
from epochgate.core.states import ClientHalf, ClientInput, Up, UpInput
from epochgate.core.stream import Owed, OwedState, Stream

if TYPE_CHECKING:
    from epochgate.core.session import Session

PRIMING_SINCE = "2025-11-25"  # clients that ask for an older revision cannot parse one (R10)
JSON_HEADERS: Headers = ((b"Content-Type", b"application/json"),)
_SSE_HEADERS: Headers = (
    (b"Content-Type", b"text/event-stream"),
    (b"Cache-Control", b"no-cache, no-transform"),
    (b"X-Accel-Buffering", b"no"),
)
_NEARLY_S = 0.001  # closer to its time than a clock can tell
_JAVA = b"java-http-client"
_STREAM_TIMERS = ("silence", "retry", "wait", "cancel", "reopen")


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is left of a stream: what it owed and its last cursor (R13, R14)."""

    ids: tuple[bytes, ...]
    last_cursor: int
    is_standalone: bool


# --- writing ----------------------------------------------------------------------------------------


def may_prime(session: Session) -> bool:
    """Priming is for clients whose own `initialize` asked for a revision that knows it (R10)."""
    return session.client_version >= PRIMING_SINCE


def client_headers(session: Session, headers: Headers) -> Headers:
    """An answer's headers with the session id that the client knows; none is added (design, 10)."""
    if http.find(headers, http.SESSION_ID) is not None:
        headers = http.with_value(headers, http.SESSION_ID, session.visible_id)
    if session.policy.advertise_epoch:
        return http.with_value(headers, session.policy.epoch_header, b"%d" % session.current.number)
    if len(session.generations) > 1:
        headers = http.without(headers, (session.policy.epoch_header,))  # R39
    return headers


def open_sse(session: Session, stream: Stream, headers: Headers, reason: bytes | None = None) -> None:
    """Begin the SSE answer of a stream whose upstream answered so, with a priming event (R10)."""
    stream.client_head = headers
    if stream.exchange is None:
        return
    stream.move_client(ClientInput.OPENED)
    session.open_answer(stream.exchange, headers, reason)
    session.do(Write(stream.exchange, _priming(session, stream)))
    watch(session, stream)
    for text in stream.withheld:
        deliver_message(session, stream, text)
    stream.withheld = []


def watch(session: Session, stream: Stream) -> None:
    """Keep the stream's leg alive with comments while it is quiet."""
    stream.last_write_at = session.now
    if stream.exchange is not None:
        session.set_timer("keepalive", stream.exchange, session.policy.keepalive_s)


def _priming(session: Session, stream: Stream) -> bytes:
    """A priming event behind everything journalled; b"" for a client that cannot parse one."""
    if not may_prime(session):
        return b""
    ensure_room(session, stream)
    event = sse.priming(stream.numbering.next_cursor)
    stream.numbering.advance(1)
    return event


def ensure_room(session: Session, stream: Stream) -> int:
    """Take another block when the last one is full (R15); how many events fit."""
    if stream.numbering.room == 0:
        block = session.blocks.take()
        stream.numbering.add_block(block)
        session.block_owners[block] = stream
    return stream.numbering.room


def deliver(session: Session, stream: Stream, data: bytes, count: int) -> None:
    """Journal `count` events that already carry their cursors, and write them if somebody reads."""
    numbering, journal = stream.numbering, stream.journal
    is_exceeding = journal.append(Entry(numbering.next_position, count, numbering.next_cursor, data))
    numbering.advance(count)
    stream.relayed += count
    steps = session.steps
    steps.append(Relayed(count))
    if stream.client is ClientHalf.ATTACHED and stream.exchange is not None:
        steps.append(Write(stream.exchange, data))
        stream.last_write_at = session.now
        journal.written_to = numbering.next_position
    if is_exceeding or journal.size > session.policy.journal_stream_bytes:
        _keep_within_limits(session, stream)


def deliver_message(session: Session, stream: Stream, data: bytes) -> None:
    """`deliver` for one message of the proxy's own making."""
    ensure_room(session, stream)
    deliver(session, stream, sse.message(data, stream.numbering.next_cursor), 1)


def _keep_within_limits(session: Session, stream: Stream) -> None:
    limit = 0 if stream.journal.is_exceeding else session.policy.journal_stream_bytes
    if not _may_be_undelivered(stream) and stream.journal.trim(limit):
        session.do(Counted("journal_evictions"))
    adjust_flow(session, stream)


def _may_be_undelivered(stream: Stream) -> bool:
    """Written is not delivered: of a client that left, nobody knows what it read (R13)."""
    return stream.is_request and stream.client is ClientHalf.AWAY


def adjust_flow(session: Session, stream: Stream) -> None:
    """Read upstream unless the client is slow, or what it has not read yet fills the journal (R13)."""
    journal = stream.journal
    is_full = journal.size > session.policy.journal_stream_bytes or journal.is_exceeding
    is_behind = journal.written_to < stream.numbering.next_position
    has_undelivered = is_behind or _may_be_undelivered(stream)
    should_pause = stream.leg is not None and (stream.is_stalled or (is_full and has_undelivered))
    if should_pause == stream.is_leg_paused or stream.leg is None:
        return
    stream.is_leg_paused = should_pause
    stream.last_read_at = session.now
    session.do(PauseLeg(stream.leg) if should_pause else ResumeLeg(stream.leg))


def finish(session: Session, stream: Stream) -> None:
    """The stream's last event is journalled: end the leg with it, or hold it for the client's return.

    The final chunk goes out in one write with what was delivered last (W7).
    """
    if stream.exchange is None:
        if stream.client is ClientHalf.DONE or not stream.has_id:
            session.finished.append(stream)
        return
    session.end_answer(release(session, stream))
    stream.move_client(ClientInput.FINISHED)
    stream.journal.written_to = stream.numbering.next_position
    session.set_timer("retain", stream.handle, session.policy.retain_s)


def respond(
    session: Session,
    stream: Stream,
    status: int,
    headers: Headers,
    body: bytes,
    reason: bytes | None = None,
) -> None:
    """Answer a stream's POST whole. No cursor leads to the stream: nothing of it is kept."""
    if stream.exchange is not None:
        session.do(Respond(release(session, stream), status, headers, body, reason))
        stream.move_client(ClientInput.FINISHED)
    session.finished.append(stream)


def fail(session: Session, stream: Stream, code: int, reason: str) -> None:
    """End a stream with a JSON-RPC error for each request that is still owed an answer (G3).

    Inside an answer that is passed on as it comes there is no place for one: it is broken off (R34).
    """
    if stream.up is Up.OPAQUE:
        abort(session, stream)
        return
    end_leg(session, stream)
    errors = [*stream.withheld, *(error(stream, owed, code, reason) for owed in stream.open_owed)]
    session.move_stream(stream, UpInput.FAILED)
    _clear_timers(session, stream)
    for owed in stream.owed:
        owed.state = OwedState.ANSWERED
    if stream.client is ClientHalf.UNBORN:
        is_batch = len(errors) > 1 or (stream.body is not None and stream.body.is_batch)
        body = b"[" + b",".join(errors) + b"]" if is_batch else b"".join(errors)
        status = 200 if errors else 202
        respond(session, stream, status, JSON_HEADERS if errors else (), body)
        return
    for text in errors:
        deliver_message(session, stream, text)
    finish(session, stream)


def abort(session: Session, stream: Stream) -> None:
    """Break the client's leg inside an event or answer, so that it cannot look whole (R9, R34)."""
    end_leg(session, stream)
    session.move_stream(stream, UpInput.FAILED)
    _clear_timers(session, stream)
    if stream.exchange is not None:
        session.do(AbortAnswer(release(session, stream)))
        stream.move_client(ClientInput.FINISHED)
    session.set_timer("retain", stream.handle, session.policy.retain_s)


def error(stream: Stream, owed: Owed, code: int, reason: str) -> bytes:
    """The JSON-RPC error for one owed request, with what the client may want to know."""
    text = "outcome unknown" if code == OUTCOME_UNKNOWN else "session could not be re-established"
    data: dict[str, object] = {
        "reason": reason,
        "method": owed.method,
        "generation": stream.generation.number,
    }
    if stream.restart is not None:
        data["dev.epochgate/restart"] = stream.restart.as_data()
    return jsonrpc.error_response(owed.id, code, f"epochgate: {text} ({reason})", data)


# --- legs and exchanges -----------------------------------------------------------------------------


def release(session: Session, stream: Stream) -> int:
    """Part a stream from the exchange that it is attached to."""
    exchange = stream.exchange
    assert exchange is not None
    session.exchanges.pop(exchange, None)
    session.clear_timer("keepalive", exchange)
    stream.exchange = None
    stream.is_stalled = False
    return exchange


def drop_leg(session: Session, leg: int, *, is_answered: bool) -> None:
    """Nobody waits for this leg any more; one that gave its answer is read to its end (W7)."""
    session.legs.pop(leg, None)
    session.clear_timer("inquiry", leg)
    session.do(DrainLeg(leg) if is_answered else CloseLeg(leg))


def end_leg(session: Session, stream: Stream, *, is_answered: bool = False) -> None:
    if stream.leg is not None:
        drop_leg(session, stream.leg, is_answered=is_answered)
        stream.leg = None
    stream.is_leg_paused = False


def _clear_timers(session: Session, stream: Stream) -> None:
    if session.timers:
        for name in _STREAM_TIMERS:
            session.timers.pop((name, stream.handle), None)


def ended_upstream(session: Session, stream: Stream) -> None:
    """The upstream half came to its end: no timer of it is wanted."""
    _clear_timers(session, stream)


# --- the client comes and goes ----------------------------------------------------------------------


def left(session: Session, exchange: int) -> None:
    """The client's connection is gone. Nothing of its stream ends but this leg."""
    if session.opening is not None and session.opening.exchange == exchange:
        session.opening.has_client = False
        return
    session.asking.pop(exchange, None)
    session.opened.discard(exchange)
    stream = session.exchanges.get(exchange)
    if stream is None or stream.exchange != exchange:
        return
    release(session, stream)
    if stream.client is ClientHalf.ATTACHED and (stream.has_id or not stream.is_request):
        stream.move_client(ClientInput.LEFT)
        session.set_timer("hold", stream.handle, session.policy.hold_s)
    else:
        stream.move_client(ClientInput.LEFT_WITHOUT_ID)
    session.clear_timer("wait", stream.handle)
    if stream.up in (Up.WAITING, Up.VOID) and stream.client is ClientHalf.DONE:
        _abandon(session, stream)
        return
    adjust_flow(session, stream)


def _abandon(session: Session, stream: Stream) -> None:
    """Nobody waits for a request that is to be sent, or sent again: it will not be."""
    session.move_stream(stream, UpInput.FAILED)
    session.set_timer("retain", stream.handle, session.policy.retain_s)


def stalled(session: Session, exchange: int) -> None:
    stream = session.exchanges.get(exchange)
    if stream is not None:
        stream.is_stalled = True
        adjust_flow(session, stream)


def drained(session: Session, exchange: int) -> None:
    stream = session.exchanges.get(exchange)
    if stream is not None:
        stream.is_stalled = False
        adjust_flow(session, stream)


def attach(session: Session, stream: Stream, exchange: int, position: int, before: bytes = b"") -> None:
    """Redeliver what is behind `position` (-1: everything) to a new leg, which then goes on live.

    `before` are events of a stream that this one follows.

    Of two legs the newer wins; the older ends with the final chunk (R35). Nothing to replay: a priming
    event instead, so that the client keeps a cursor (R10).
    """
    if stream.exchange is not None:
        session.do(EndAnswer(release(session, stream)))
    stream.exchange = exchange
    session.exchanges[exchange] = stream
    stream.move_client(ClientInput.RETURNED if stream.client is not ClientHalf.UNBORN else ClientInput.OPENED)
    session.clear_timer("hold", stream.handle)
    session.clear_timer("retain", stream.handle)
    session.open_answer(exchange, stream.client_head or sse_headers(session))
    data = before + b"".join(stream.journal.after(position)) or _priming(session, stream)
    session.do(Write(exchange, data))
    stream.journal.written_to = stream.numbering.next_position
    if stream.is_over:
        finish(session, stream)
        return
    watch(session, stream)
    adjust_flow(session, stream)


def attach_void(session: Session, stream: Stream, exchange: int, position: int) -> None:
    """The client of a stream that has to be restarted: it is attached, and nothing of the dead run
    is replayed to it."""
    if stream.exchange is not None:
        session.do(EndAnswer(release(session, stream)))
    stream.exchange = exchange
    session.exchanges[exchange] = stream
    stream.move_client(ClientInput.RETURNED)
    session.clear_timer("hold", stream.handle)
    session.open_answer(exchange, stream.client_head or sse_headers(session))
    session.do(Write(exchange, _priming(session, stream)))
    stream.journal.written_to = position + 1
    watch(session, stream)


def sse_headers(session: Session) -> Headers:
    return (*_SSE_HEADERS, (b"Mcp-Session-Id", session.visible_id))


def error_stream(session: Session, exchange: int, stone: Tombstone) -> None:
    """A cursor of a stream that is gone: 200, and an error for each id it owed (R13)."""
    block = session.blocks.take()
    first = cursor.mint(block, 0)
    session.tombstones[block] = replace(stone, last_cursor=first + len(stone.ids))
    session.open_answer(exchange, sse_headers(session))
    events = [sse.priming(first)] if may_prime(session) else []
    for position, request_id in enumerate(stone.ids, 1):
        data = {"reason": "expired", "generation": session.current.number}
        text = "epochgate: outcome unknown (expired)"
        error = jsonrpc.error_response(request_id, OUTCOME_UNKNOWN, text, data)
        events.append(sse.message(error, first + position))
    session.do(EndAnswer(exchange, b"".join(events)))


# --- timers -----------------------------------------------------------------------------------------


def keep_alive(session: Session, exchange: int) -> None:
    stream = session.exchanges.get(exchange)
    if stream is None:
        return
    idle = session.now - stream.last_write_at
    if stream.up is Up.OPAQUE:
        idle = 0.0  # a comment inside an answer that is passed on would be part of it
    elif idle >= session.policy.keepalive_s - _NEARLY_S:
        session.do(Write(exchange, sse.KEEPALIVE_ONE_LINE if is_java(stream) else sse.KEEPALIVE))
        stream.last_write_at = session.now
        idle = 0.0
    session.set_timer("keepalive", exchange, session.policy.keepalive_s - idle)


def is_java(stream: Stream) -> bool:
    """Java's client: a blank line costs it a unit of demand, and `retry:` is an error to it (W13)."""
    return (http.find(stream.caller.headers, b"user-agent") or b"").lower().startswith(_JAVA)


def hold_expired(session: Session, stream: Stream) -> None:
    """The client did not come back in time: what it is owed becomes a tombstone (R13)."""
    if not stream.is_over:
        fail(session, stream, OUTCOME_UNKNOWN, "expired")
    forget(session, stream)


def forget(session: Session, stream: Stream) -> None:
    """Drop a finished stream; its cursors lead to a tombstone from now on."""
    end_leg(session, stream)
    _clear_timers(session, stream)
    session.clear_timer("hold", stream.handle)
    session.clear_timer("retain", stream.handle)
    if stream.up is not Up.GONE:
        session.move_stream(stream, UpInput.FORGOTTEN)
    if session.streams.pop(stream.handle, None) is None:
        return
    stream.journal.clear()
    _bury(session, stream)
    for owed in stream.owed:
        _retire(session, stream, owed)
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
    if key is None or owed.message.is_task:
        return
    if generation.tokens.pop(key, None) is not None and owed.is_stamped:
        generation.retire(key, session.now)


def _bury(session: Session, stream: Stream) -> None:
    if not stream.numbering.blocks:
        return
    # At the last event of a superseded stream its client still waits for the answer.
    last_cursor = stream.numbering.next_cursor - 1 if stream.successor is None else -1
    stone = Tombstone(tuple(owed.id for owed in stream.owed), last_cursor, not stream.is_request)
    for block, _ in stream.numbering.blocks:
        session.block_owners.pop(block, None)
        session.tombstones[block] = stone
    while len(session.tombstones) > session.policy.max_tombstones:
        session.tombstones.pop(next(iter(session.tombstones)))


def cancel_due(session: Session, stream: Stream) -> None:
    """A cancelled request had its time to be answered all the same (R29)."""
    if stream.is_over or stream.open_owed:
        return
    if stream.up is Up.OPAQUE:
        abort(session, stream)
        return
    end_leg(session, stream)
    session.move_stream(stream, UpInput.CANCELLED)
    _clear_timers(session, stream)
    if stream.client is ClientHalf.UNBORN:
        body = b"".join(error(stream, owed, OUTCOME_UNKNOWN, "cancelled") for owed in stream.owed[:1])
        respond(session, stream, 200, JSON_HEADERS, body)
        return
    finish(session, stream)


# --- going away -------------------------------------------------------------------------------------


def begin_drain(session: Session, until: float) -> None:
    """No heal is begun from now on; idle legs end cleanly, owed answers have until `until` (W10)."""
    session.drain_until = until
    session.set_timer("drain", 0, max(until - session.now, 0.0))
    for stream in list(session.streams.values()):
        if not stream.is_request and stream.exchange is not None:
            session.do(EndAnswer(release(session, stream)))
            stream.move_client(ClientInput.LEFT)


def drain_expired(session: Session) -> None:
    for stream in list(session.streams.values()):
        if stream.is_request and not stream.is_over and stream.exchange is not None:
            fail(session, stream, OUTCOME_UNKNOWN, "draining")
