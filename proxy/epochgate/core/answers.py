"""What comes back on the upstream legs of streams: heads, bodies, ends.

An SSE answer goes to `relaying` read by read, any other to `bodies`. A
leg that ends with an answer owed goes to `breaks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import (
    bodies,
    breaks,
    classify,
    delivery,
    drifting,
    epoch,
    http,
    legs,
    passing,
    relaying,
    restarting,
    sending,
    silence,
    standalone,
)
from epochgate.core.axes import AnswerEvidence, Leg, Match, Named, Shape, Time
from epochgate.core.commands import UpstreamFailed
from epochgate.core.events import LegCompleted, LegEnd
from epochgate.core.http import Headers
from epochgate.core.states import ClientHalf, Up, UpInput
from epochgate.core.stream import Answer, Stream
from epochgate.core.verdict import OUTSIDE, SERVER_GONE, Ruling, Verdict, judge

if TYPE_CHECKING:
    from epochgate.core.session import Session


# --- heads ------------------------------------------------------------------------------------------


def answered(
    session: Session, stream: Stream, status: int, headers: Headers, reason: bytes | None = None
) -> None:
    """The head of an answer on a stream's leg."""
    answer = Answer(status, headers, [], reason=reason)
    stream.answer = answer
    stream.last_read_at = session.now
    if 200 <= status < 300:
        stream.generation.last_sign_of_life = session.now
    if stream.up is Up.RETRY:
        _resume_answered(session, stream, answer)
    elif not stream.is_request:
        standalone.answered(session, stream)
        drifting.note_opened(session, stream)
    else:
        _post_answered(session, stream, answer)


def may_complete(session: Session, stream: Stream, event: LegCompleted) -> bool:
    """Whether an answer that came whole is the whole answer to a POST, and no stream."""
    return (
        stream.up is Up.SENT
        and stream.is_request
        and len(event.body) <= session.policy.max_json_buffer_bytes
        and http.media_type(event.headers) != b"text/event-stream"
        and not http.is_coded(event.headers)
    )


def completed(session: Session, stream: Stream, event: LegCompleted) -> None:
    """A POST was answered whole, in one read."""
    stream.leg = None
    stream.is_leg_paused = False
    stream.last_read_at = session.now
    answer = Answer(event.status, event.headers, [event.body], len(event.body), reason=event.reason)
    stream.answer = answer
    if 200 <= event.status < 300:
        stream.generation.last_sign_of_life = session.now
        _post_answered(session, stream, answer)
    if stream.up is Up.SENT:
        bodies.complete(session, stream, answer)


def _post_answered(session: Session, stream: Stream, answer: Answer) -> None:
    if not 200 <= answer.status < 300:
        return  # the body decides
    restarting.accept(session, stream.head)
    if _named(stream, answer) is Named.OTHER:
        restarting.restart(session, stream, judge(_answer_evidence(session, stream, Shape.SSE)), [])
        return
    stream.header_epoch = epoch.stated_in_headers(answer.headers, session.policy.epoch_header)
    if http.is_coded(answer.headers):
        bodies.take_coded(session, stream, answer)
        return
    if http.media_type(answer.headers) != b"text/event-stream":
        return
    answer.is_sse = True
    stream.begin_sse()
    stream.leg_kind = Leg.UNBROKEN
    session.move_stream(stream, UpInput.STREAM_OPENED)
    stream.failing_since = None
    stream.attempts = 0
    if stream.client is ClientHalf.UNBORN:
        headers = delivery.client_headers(session, answer.headers)
        delivery.open_sse(session, stream, headers, answer.reason)


def _named(stream: Stream, answer: Answer) -> Named:
    name = http.find(answer.headers, http.SESSION_ID)
    return Named.OURS if name is None or name == stream.generation.upstream_id else Named.OTHER


def _answer_evidence(session: Session, stream: Stream, shape: Shape) -> AnswerEvidence:
    answer = stream.answer
    named, match = Named.OURS, Match.EQUAL
    if answer is not None and shape is Shape.SSE:
        named = _named(stream, answer)
        stated = epoch.stated_in_headers(answer.headers, session.policy.epoch_header)
        if epoch.compare(stream.generation.epoch, None, stated) is Match.DIFFERENT:
            match = Match.DIFFERENT
    time = Time.UP if sending.is_time_up(session, stream) else Time.LEFT
    return AnswerEvidence(shape, named, match, time)


def _resume_answered(session: Session, stream: Stream, answer: Answer) -> None:
    if answer.status in classify.NEEDS_BODY:
        return
    shape = classify.shape(session.policy, answer.status, answer.headers, b"")
    if shape is not Shape.SSE:
        legs.end(session, stream, is_answered=True)
    _rule_on_resume(session, stream, judge(_answer_evidence(session, stream, shape)))


def _rule_on_resume(session: Session, stream: Stream, ruling: Ruling) -> None:
    match ruling.verdict:
        case Verdict.WAIT:
            assert stream.answer is not None
            stream.answer.is_sse = True
            stream.header_epoch = epoch.stated_in_headers(stream.answer.headers, session.policy.epoch_header)
            stream.leg_kind = Leg.RESUMED if stream.generation.epoch.is_captured else Leg.POLLED
            stream.is_resume_counted = False
            stream.attempts = 0
            stream.announced_retry_ms = None
            session.move_stream(stream, UpInput.STREAM_OPENED)
            silence.watch(session, stream)
        case Verdict.RETRY:
            session.move_stream(stream, UpInput.BROKE_PROVABLE)
            sending.again_later(session, stream)
        case Verdict.PASS:
            restarting.refused(session, stream, ruling)
        case _:
            restarting.restart(session, stream, ruling, [])


# --- bodies -----------------------------------------------------------------------------------------


def read(session: Session, stream: Stream, data: bytes) -> None:
    """Body bytes on a stream's leg."""
    answer = stream.answer
    assert answer is not None
    stream.last_byte_at = session.now
    if not data.startswith(b":") or b"data" in data:  # comments show nothing to be at work (R22)
        stream.last_read_at = session.now
    if answer.is_sse:
        block = stream.framer.feed(data)
        if stream.passing is not None:
            passing.read(session, stream, block)
        elif block:
            relaying.take_block(session, stream, block)
        if block is data:
            return  # nothing is left over of a read that holds whole events
        if stream.framer.pending > session.policy.max_event_bytes and stream.passing is None:
            passing.begin(session, stream)
    elif stream.up is Up.OPAQUE:
        bodies.pass_on(session, stream, data)
    else:
        bodies.collect(session, stream, answer, data)


# --- ends -------------------------------------------------------------------------------------------


def ended(session: Session, stream: Stream, end: LegEnd) -> None:
    """A stream's leg ended. What is owed decides whether that is its end."""
    stream.leg = None
    stream.is_leg_paused = False
    if stream.up in (Up.OPEN, Up.PROVING) and not _goes_on(
        session, stream, stream.framer.finish(is_cut=end is not LegEnd.CLEAN)
    ):
        return
    if stream.is_body_passed_on:
        bodies.passed_on(session, stream, end)
    elif stream.up is Up.RETRY:
        _resume_ended(session, stream, end)
    elif not stream.is_request and stream.up is Up.SENT:
        standalone.refused(session, stream, end)
    elif stream.answer is None and end in (LegEnd.NOT_SENT, LegEnd.GONE):
        _not_sent(session, stream, end)
    elif stream.answer is None or stream.answer.is_sse:
        breaks.broke(session, stream, end)
    elif end is LegEnd.CLEAN or (end is LegEnd.CLOSED and bodies.is_whole(stream.answer)):
        bodies.complete(session, stream, stream.answer)
    else:
        breaks.broke(session, stream, end)


def _goes_on(session: Session, stream: Stream, block: bytes) -> bool:
    """Take the event that the end of the leg completed; whether the end is still to be judged."""
    if block:
        relaying.take_block(session, stream, block)
    return not stream.is_over and stream.up is not Up.VOID


def _not_sent(session: Session, stream: Stream, end: LegEnd) -> None:
    """No byte was accepted: try again in the same generation until the deadline (design, 6), unless there
    is nobody left to try."""
    session.do(UpstreamFailed("connect"))
    if stream.failing_since is None:
        stream.failing_since = session.now
    is_gone = end is LegEnd.GONE
    if is_gone or sending.is_time_up(session, stream) or session.drain_until is not None:
        stream.is_not_run = True
        restarting.restart(session, stream, SERVER_GONE if is_gone else OUTSIDE["upstream_lost"], [])
        return
    sending.again_later(session, stream)


def _resume_ended(session: Session, stream: Stream, end: LegEnd) -> None:
    answer = stream.answer
    if answer is None or end not in (LegEnd.CLEAN, LegEnd.CLOSED):
        shape = Shape.UNREACHABLE
        session.do(UpstreamFailed("headers_timeout" if end is LegEnd.SILENT else "connect"))
        if end is LegEnd.GONE:
            restarting.restart(session, stream, SERVER_GONE, [])
            return
    else:
        shape = classify.shape(session.policy, answer.status, answer.headers, answer.body)
    _rule_on_resume(session, stream, judge(_answer_evidence(session, stream, shape)))
