"""Answers that are a body, not a stream of events: JSON, refusals, and what cannot be read.

A body is kept until it is whole, up to a size; a larger one is passed on as it comes (R34).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import (
    classify,
    delivery,
    drifting,
    evidence,
    http,
    jsonedit,
    jsonrpc,
    relaying,
    restarting,
)
from epochgate.core.axes import Claim
from epochgate.core.commands import Dropped, Judged, OpenAnswer, UpstreamFailed, Write
from epochgate.core.errors import OUTCOME_UNKNOWN
from epochgate.core.events import LegEnd
from epochgate.core.jsonrpc import Body
from epochgate.core.scan import TopLevelReplacer
from epochgate.core.states import ClientHalf, ClientInput, Up, UpInput
from epochgate.core.stream import Answer, OwedState, Stream
from epochgate.core.verdict import OUTSIDE, Ruling, Verdict

if TYPE_CHECKING:
    from epochgate.core.session import Session


def collect(session: Session, stream: Stream, answer: Answer, data: bytes) -> None:
    """Keep an answer that is no SSE until it is whole; above the buffer's size pass it on (R34)."""
    answer.chunks.append(data)
    answer.size += len(data)
    if answer.size <= session.policy.max_json_buffer_bytes:
        return
    can_be_passed_on = (
        stream.is_request
        and stream.up is Up.SENT
        and 200 <= answer.status < 300
        and len(stream.owed) == 1
        and not stream.withheld
        and stream.client is ClientHalf.UNBORN
    )
    if can_be_passed_on:
        owed = stream.owed[0]
        replacer = TopLevelReplacer(b"id", owed.stamp, owed.id)
        _begin_passing_on(session, stream, answer, replacer)
    elif answer.size > session.policy.max_event_bytes:
        restarting.restart(session, stream, OUTSIDE["event_too_large"], [])


def _begin_passing_on(
    session: Session, stream: Stream, answer: Answer, replacer: TopLevelReplacer | None
) -> None:
    session.move_stream(stream, UpInput.PASSED_ON)
    answer.replacer = replacer
    data, answer.chunks = answer.body, []
    if stream.exchange is not None:
        stream.move_client(ClientInput.OPENED)
        headers = delivery.client_headers(session, answer.headers)
        session.do(OpenAnswer(stream.exchange, answer.status, headers, answer.reason))
    pass_on(session, stream, data)


def pass_on(session: Session, stream: Stream, data: bytes) -> None:
    assert stream.answer is not None
    replacer = stream.answer.replacer
    out = data if replacer is None else replacer.feed(data)
    if out and stream.exchange is not None:
        session.do(Write(stream.exchange, out))


def take_coded(session: Session, stream: Stream, answer: Answer) -> None:
    """An answer that cannot be read, though none was asked for (W16): it passes only where the client's
    own id stands in it."""
    if any(owed.is_stamped for owed in stream.owed):
        restarting.restart(session, stream, OUTSIDE["content_coding"], [])
    else:
        _begin_passing_on(session, stream, answer, None)


def passed_on(session: Session, stream: Stream, end: LegEnd) -> None:
    """An answer that was passed on as it came is over. Broken inside, or without the id that it answers,
    it must not look whole (R34)."""
    assert stream.answer is not None
    replacer = stream.answer.replacer
    for owed in stream.owed:
        owed.state = OwedState.ANSWERED
    if end is LegEnd.CLEAN and (replacer is None or replacer.count == 1):
        rest = b"" if replacer is None else replacer.finish()
        session.move_stream(stream, UpInput.ANSWERED)
        if rest and stream.exchange is not None:
            session.do(Write(stream.exchange, rest))
        delivery.ended_upstream(session, stream)
        delivery.finish(session, stream)
    else:
        session.do(UpstreamFailed("truncated"))
        session.do(Judged("upstream", stream.kind.value, "fail", "event_too_large", stream.exchange))
        delivery.abort(session, stream)


def is_whole(answer: Answer) -> bool:
    """A body delimited by the connection's end: JSON says itself whether it is whole, and a refusal
    stands in its status."""
    return not 200 <= answer.status < 300 or jsonrpc.read_body(answer.body) is not None


def complete(session: Session, stream: Stream, answer: Answer) -> None:
    """A POST was answered whole, and not by SSE."""
    if classify.is_session_gone(session.policy, answer.status, answer.body):
        restarting.post_found_session_gone(session, stream)
        return
    if not 200 <= answer.status < 300:
        refuse(session, stream, answer)
        return
    body = jsonrpc.read_body(answer.body, is_located=False)
    if body is not None and _answer_owed(session, stream, body) is not None:
        return
    if not stream.is_over:
        delivery.fail(session, stream, OUTCOME_UNKNOWN, "no_answer")


def refuse(session: Session, stream: Stream, answer: Answer) -> None:
    """A status that is the server's own answer passes; in an SSE answer it becomes an error (R34)."""
    for owed in stream.owed:
        owed.state = OwedState.ANSWERED
    session.move_stream(stream, UpInput.FAILED)
    delivery.ended_upstream(session, stream)
    message = jsonrpc.read_message(answer.body)
    text = answer.body
    if message.id is not None and message.is_rewritable:
        for owed in stream.owed:
            if jsonrpc.stamp_key(message.id) == owed.key:
                text = jsonedit.rewrite(message, id=owed.id)
    if stream.client is ClientHalf.UNBORN:
        headers = delivery.client_headers(session, http.without(answer.headers, (http.SESSION_ID,)))
        delivery.respond(session, stream, answer.status, headers, text, answer.reason)
    else:
        for owed in stream.owed:
            data = {"status": answer.status, "generation": stream.generation.number}
            error = jsonrpc.error_response(owed.id, OUTCOME_UNKNOWN, "epochgate: refused by the server", data)
            delivery.deliver_message(session, stream, error)
        delivery.finish(session, stream)


def _answer_owed(session: Session, stream: Stream, body: Body) -> Ruling | None:
    """Judge the messages of a whole JSON answer and deliver them.

    Returns the restarting ruling that stands against it, or None when the stream is answered. What
    does not answer this stream is dropped; the caller sees what is still owed.
    """
    assert stream.answer is not None
    readings = evidence.read(session, stream, body, None, is_first=True)
    has_drifted = False
    answered: set[bytes] = set()
    for reading in readings:
        ruling = reading.ruling
        if ruling.verdict is Verdict.RESTART:
            restarting.restart(session, stream, ruling, readings)
            return ruling
        if ruling.verdict is Verdict.DROP:
            session.do(Dropped(ruling.reason))
            return None
        has_drifted = has_drifted or ruling.reason == "drift"
        if reading.claim is Claim.ANSWER and reading.owed is not None:
            answered.add(reading.owed.key)
    if len(answered) < len(stream.unanswered):
        return None
    if has_drifted:
        drifting.mark_drift(session, session.current.number + 1)
    written = [relaying.outgoing(session, stream, reading) for reading in readings]
    for reading in readings:
        if reading.owed is not None and reading.owed.key in answered:
            reading.owed.state = OwedState.ANSWERED
            evidence.note_answer(session, stream, reading)
    data = jsonedit.rewrite_batch(body, written)
    if stream.withheld:
        data = b"[" + b",".join([*stream.withheld, *written]) + b"]"
    session.move_stream(stream, UpInput.ANSWERED)
    delivery.ended_upstream(session, stream)
    if stream.client in (ClientHalf.ATTACHED, ClientHalf.AWAY):
        for text in written if not body.is_batch else [data]:
            delivery.deliver_message(session, stream, b"".join(text.splitlines()))
        delivery.finish(session, stream)
    else:
        headers = delivery.client_headers(session, stream.answer.headers)
        delivery.respond(session, stream, stream.answer.status, headers, data, stream.answer.reason)
    if has_drifted:
        drifting.drift(session, stream, readings)
    return None
