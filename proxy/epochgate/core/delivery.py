"""What a stream gives its client: journalled, written if somebody reads, and ended.

Half-delivered is not delivered; after the last owed answer the leg is done (W7). Of a client that left,
nobody knows what it read, so that nothing it may lack is evicted (R13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from epochgate.core import http, jsonrpc, legs, questions, sse
from epochgate.core.commands import (
    AbortAnswer,
    Counted,
    EndAnswer,
    Fact,
    OpenAnswer,
    PauseLeg,
    Relayed,
    Respond,
    ResumeLeg,
    Write,
)
from epochgate.core.errors import OUTCOME_UNKNOWN
from epochgate.core.events import RequestHead
from epochgate.core.http import Headers
from epochgate.core.journal import Entry
from epochgate.core.states import ClientHalf, ClientInput, Up, UpInput
from epochgate.core.stream import Owed, OwedState, Stream
from epochgate.core.timers import OF_UPSTREAM_HALVES, Timer

if TYPE_CHECKING:
    from epochgate.core.session import Session


PRIMING_SINCE = "2025-11-25"  # clients that ask for an older revision cannot parse one (R10)


JSON_HEADERS: Headers = ((b"Content-Type", b"application/json"),)
TEXT_HEADERS: Headers = ((b"Content-Type", b"text/plain; charset=utf-8"),)


def may_prime(session: Session) -> bool:
    """Priming is for clients whose own `initialize` asked for a revision that knows it (R10)."""
    return session.client_version >= PRIMING_SINCE


def client_headers(session: Session, headers: Headers) -> Headers:
    """An answer's headers with the session id that the client knows; none is added (design, 10)."""
    if http.find(headers, http.SESSION_ID) not in (None, session.visible_id):
        headers = http.with_value(headers, http.SESSION_ID, session.visible_id)
    if session.policy.advertise_epoch:
        return http.with_value(headers, session.policy.epoch_header, b"%d" % session.current.number)
    if session.current.number > 1:
        headers = http.without(headers, (session.policy.epoch_header,))  # R39
    return headers


_STREAMED: Headers = ((b"Cache-Control", b"no-cache, no-transform"), (b"X-Accel-Buffering", b"no"))


def streamed(headers: Headers) -> Headers:
    """The headers of an SSE answer, so that nothing on its way keeps or gathers it (W11)."""
    there = http.fields(headers)
    return headers + tuple([pair for pair in _STREAMED if pair[0].lower() not in there])


def open_sse(session: Session, stream: Stream, headers: Headers, reason: bytes | None = None) -> None:
    """Begin the SSE answer of a stream whose upstream answered so, with a priming event (R10)."""
    headers = stream.client_head = streamed(headers)
    assert stream.exchange is not None  # whose client left before has no answer to begin
    stream.move_client(ClientInput.OPENED)
    open_answer(session, stream.exchange, headers, keepalive(stream.caller), reason)
    session.do(Write(stream.exchange, priming(session, stream)))
    watch(session, stream)
    for text in stream.withheld:
        deliver_message(session, stream, text)
    stream.withheld = []


def open_answer(
    session: Session, exchange: int, headers: Headers, probe: bytes, reason: bytes | None = None
) -> None:
    """Begin an SSE answer, unless that was done while its caller was asked about (R32)."""
    if exchange in session.opened:
        del session.opened[exchange]
    else:
        session.do(OpenAnswer(exchange, 200, headers, reason, probe))


def keepalive(head: RequestHead) -> bytes:
    """The comment for this client: a blank line costs Java's a unit of demand (W13)."""
    return sse.KEEPALIVE_ONE_LINE if is_java(head) else sse.KEEPALIVE


def is_java(head: RequestHead) -> bool:
    """Java's client, to which `retry:` is an error as well (W13)."""
    return (http.find(head.headers, b"user-agent") or b"").lower().startswith(b"java-http-client")


def end_answer(session: Session, exchange: int) -> None:
    """End an answer; what was written to it last goes out in one write with the final chunk."""
    for at in range(len(session.steps) - 1, -1, -1):
        step = session.steps[at]
        if isinstance(step, Write) and step.exchange == exchange:
            del session.steps[at]
            session.do(EndAnswer(exchange, step.data))
            return
        if not isinstance(step, Fact):
            break
    session.do(EndAnswer(exchange))


def watch(session: Session, stream: Stream) -> None:
    """Keep the stream's leg alive with comments while it is quiet."""
    stream.last_write_at = session.now
    if stream.exchange is not None:
        session.set_timer(Timer.KEEPALIVE, stream.exchange, session.policy.keepalive_s)


def priming(session: Session, stream: Stream) -> bytes:
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
    if stream.client is ClientHalf.ATTACHED and stream.exchange is not None and stream.passing is None:
        steps.append(Write(stream.exchange, data))
        stream.last_write_at = session.now
        journal.written_to = numbering.next_position
    if is_exceeding or journal.size > session.policy.journal_stream_bytes:
        _keep_within_limits(session, stream)


def deliver_message(session: Session, stream: Stream, data: bytes) -> None:
    """`deliver` for one message of the proxy's own making."""
    ensure_room(session, stream)
    deliver(session, stream, sse.message(data, stream.numbering.next_cursor), 1)
    stream.relayed -= 1  # nothing of the server's run (R2)


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
    is_kept_waiting = stream.is_stalled or (is_full and has_undelivered)
    should_pause = stream.leg is not None and (
        is_kept_waiting or _has_large_event_for_nobody(session, stream)
    )
    if should_pause == stream.is_leg_paused or stream.leg is None:
        return
    stream.is_leg_paused = should_pause
    stream.last_read_at = session.now
    session.do(PauseLeg(stream.leg) if should_pause else ResumeLeg(stream.leg))


def _has_large_event_for_nobody(session: Session, stream: Stream) -> bool:
    """Whether an event is under way that cannot be kept, only be given to a client that reads (R9)."""
    is_large = stream.framer.pending > session.policy.max_event_bytes
    return is_large and stream.up is Up.OPEN and stream.client is not ClientHalf.ATTACHED


def finish(session: Session, stream: Stream) -> None:
    """The stream's last event is journalled: end the leg with it, or hold it for the client's return.

    The final chunk goes out in one write with what was delivered last (W7).
    """
    if stream.exchange is None:
        if stream.client is ClientHalf.DONE or not stream.has_id:
            session.finished.append(stream)
        return
    end_answer(session, release(session, stream))
    stream.move_client(ClientInput.FINISHED)
    stream.journal.written_to = stream.numbering.next_position
    session.set_timer(Timer.RETAIN, stream.handle, session.policy.retain_s)


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
        respond_whole(session, release(session, stream), status, headers, body, reason)
        stream.move_client(ClientInput.FINISHED)
    session.finished.append(stream)


def not_found(session: Session, exchange: int) -> None:
    """The session is over: plain text, since a JSON-RPC body would keep it alive in Go (W4)."""
    respond_whole(session, exchange, 404, TEXT_HEADERS, b"session not found")


def respond_whole(
    session: Session, exchange: int, status: int, headers: Headers, body: bytes, reason: bytes | None = None
) -> None:
    """Answer a request whole; a GET whose stream was begun has its status already (R32): it ends."""
    if exchange in session.opened:
        del session.opened[exchange]
        session.do(EndAnswer(exchange))
    else:
        session.do(Respond(exchange, status, headers, body, reason))


def fail(session: Session, stream: Stream, code: int, reason: str) -> None:
    """End a stream with a JSON-RPC error for each request that is still owed an answer (G3).

    Inside an answer that is passed on as it comes there is no place for one: it is broken off (R34).
    """
    if stream.is_body_passed_on:
        abort(session, stream)
        return
    legs.end(session, stream)
    break_off(session, stream)
    failed = [(owed, error(stream, owed, code, reason)) for owed in stream.open_owed]
    session.move_stream(stream, UpInput.FAILED)
    clear_timers(session, stream)
    for owed in stream.owed:
        owed.state = OwedState.ANSWERED
    if stream.client is ClientHalf.UNBORN:
        respond_errors(session, stream, [text for _, text in failed])
        return
    tell_given_up(session, stream, stream)
    for owed, text in failed:
        owed.answered_at = stream.numbering.next_position
        deliver_message(session, stream, text)
    finish(session, stream)


def respond_errors(session: Session, stream: Stream, errors: list[bytes]) -> None:
    """Answer a POST whole with these, and with what was withheld of its batch before (R41)."""
    errors = [*stream.withheld, *errors]
    is_batch = len(errors) > 1 or (stream.body is not None and stream.body.is_batch)
    body = b"[" + b",".join(errors) + b"]" if is_batch else b"".join(errors)
    respond(session, stream, 200 if errors else 202, JSON_HEADERS if errors else (), body)


def tell_given_up(session: Session, asker: Stream, stream: Stream) -> None:
    """What `asker` asked has nobody who waits for the answer any more: its client is told so, on `stream`."""
    for visible in questions.give_up(session, asker):
        params = {"requestId": msgspec.Raw(visible), "reason": "the request that asked was abandoned"}
        deliver_message(session, stream, jsonrpc.notification("notifications/cancelled", params))


def abort(session: Session, stream: Stream) -> None:
    """Break the client's leg inside an answer that is passed on, so that it cannot look whole (R34)."""
    legs.end(session, stream)
    session.move_stream(stream, UpInput.FAILED)
    clear_timers(session, stream)
    if stream.exchange is not None:
        session.do(AbortAnswer(release(session, stream)))
        stream.move_client(ClientInput.FINISHED)
    session.set_timer(Timer.RETAIN, stream.handle, session.policy.retain_s)


def break_off(session: Session, stream: Stream) -> None:
    """An event that is passed on will not be whole: the client must not take what it got for one (R9).

    It may come back.
    """
    if stream.passing is None:
        return
    stream.passing = None
    if stream.exchange is not None:
        session.do(AbortAnswer(release(session, stream)))
        stream.move_client(ClientInput.LEFT)
        session.set_timer(Timer.HOLD, stream.handle, session.policy.hold_s)


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


def release(session: Session, stream: Stream) -> int:
    """Part a stream from the exchange that it is attached to."""
    exchange = stream.exchange
    assert exchange is not None
    session.exchanges.pop(exchange, None)
    session.clear_timer(Timer.KEEPALIVE, exchange)
    stream.exchange = None
    stream.is_stalled = False
    return exchange


def clear_timers(session: Session, stream: Stream) -> None:
    session.timers.clear_each(OF_UPSTREAM_HALVES, stream.handle)


def ended_upstream(session: Session, stream: Stream) -> None:
    """The upstream half came to its end: no timer of it is wanted."""
    clear_timers(session, stream)
