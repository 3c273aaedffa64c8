"""Upstream legs of streams: what was sent, what came back, and what a broken leg leads to.

A POST is written once; only one of which no byte was accepted is tried again in its own generation
(design, section 6). A leg that breaks with an answer owed is resumed where the judge can be given a
proof, and otherwise its stream is restarted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import (
    classify,
    clientleg,
    epoch,
    http,
    jsonrpc,
    relaying,
    restarting,
    silence,
    sse,
    standalone,
)
from epochgate.core.commands import Judged, OpenAnswer, UpstreamFailed, Write
from epochgate.core.errors import OUTCOME_UNKNOWN
from epochgate.core.events import LegEnd
from epochgate.core.http import Headers
from epochgate.core.policy import PollWithoutEpoch, Stamps
from epochgate.core.scan import TopLevelReplacer
from epochgate.core.states import ClientHalf, ClientInput, Up, UpInput
from epochgate.core.stream import Answer, OwedState, Stream
from epochgate.core.upward import back_off, body_of, head_of_post, headers_of_get, headers_of_post
from epochgate.core.verdict import (
    OUTSIDE,
    AnswerEvidence,
    Break,
    BreakEvidence,
    Leg,
    Match,
    Named,
    Owed,
    Poll,
    Provable,
    Ruling,
    Scope,
    Shape,
    Strikes,
    Time,
    Verdict,
    judge,
)

if TYPE_CHECKING:
    from epochgate.core.session import Session

_FIRST_BACKOFF_S = 0.1
_LAST_BACKOFF_S = 1.0


# --- sending ----------------------------------------------------------------------------------------


def send_post(session: Session, stream: Stream) -> None:
    """Write the stream's POST in its generation."""
    if stream.up not in (Up.WAITING, Up.SENT) or stream.leg is not None:
        return
    if not stream.open_owed:
        clientleg.cancel_due(session, stream)
        return
    head = head_of_post(session, stream)
    headers = headers_of_post(head, stream.generation)
    if stream.failing_since is None:
        stream.sent_at = session.now
    session.move_stream(stream, UpInput.SENT)
    stream.answer = None
    stream.last_read_at = session.now
    stream.leg = session.send(stream, b"POST", head, headers, body_of(stream))
    silence.watch(session, stream)


def send_resume(session: Session, stream: Stream) -> None:
    """Ask for the stream's events behind the last upstream id."""
    if stream.failing_since is None:
        stream.failing_since = session.now
    stream.answer = None
    stream.framer = sse.Framer()
    stream.header_epoch = None
    head = session.head_for(stream)
    headers = headers_of_get(head, stream.generation, stream.ids.last)
    within = session.policy.resume_headers_s
    stream.leg = session.send(stream, b"GET", stream.head, headers, None, within)


def retry_due(session: Session, stream: Stream) -> None:
    """The back-off, or the wait that a server asked for before a poll, is over."""
    match stream.up:
        case Up.SENT:
            send_post(session, stream)
        case Up.RETRY:
            send_resume(session, stream)
        case Up.POLL:
            session.move_stream(stream, UpInput.POLL_DUE)
            stream.failing_since = None
            send_resume(session, stream)
        case _:
            pass


def reopen_due(session: Session, stream: Stream) -> None:
    standalone.reopen(session, stream)


def _back_off(session: Session, stream: Stream) -> None:
    delay = back_off(_FIRST_BACKOFF_S, _LAST_BACKOFF_S, stream.attempts)
    stream.attempts += 1
    session.set_timer("retry", stream.handle, delay)


def _is_time_up(session: Session, stream: Stream) -> bool:
    since = stream.failing_since
    grace = session.policy.resume_deadline_s
    if stream.poll_retry_ms is not None:  # a server that polls may be away for as long as it said (R4)
        grace = max(session.policy.poll_grace_s, 2 * stream.poll_retry_ms / 1000)
    return since is not None and session.now - since >= grace


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
    else:
        _post_answered(session, stream, answer)


def _post_answered(session: Session, stream: Stream, answer: Answer) -> None:
    if not 200 <= answer.status < 300:
        return  # the body decides
    restarting.accept(session, stream.head)
    if _named(stream, answer) is Named.OTHER:
        restarting.restart(session, stream, judge(_answer_evidence(session, stream, Shape.SSE)), [])
        return
    stream.header_epoch = epoch.stated_in_headers(answer.headers, session.policy.epoch_header)
    if http.media_type(answer.headers) != b"text/event-stream":
        return
    answer.is_sse = True
    stream.framer = sse.Framer()
    stream.leg_kind = Leg.UNBROKEN
    session.move_stream(stream, UpInput.STREAM_OPENED)
    stream.failing_since = None
    stream.attempts = 0
    if stream.client is ClientHalf.UNBORN:
        headers = clientleg.client_headers(session, answer.headers)
        clientleg.open_sse(session, stream, headers, answer.reason)


def _named(stream: Stream, answer: Answer) -> Named:
    name = http.find(answer.headers, http.SESSION_ID)
    return Named.OURS if name is None or name == stream.generation.upstream_id else Named.OTHER


def _answer_evidence(session: Session, stream: Stream, shape: Shape) -> AnswerEvidence:
    answer = stream.answer
    named, match = Named.OURS, Match.EQUAL
    if answer is not None and shape is Shape.SSE:
        named = _named(stream, answer)
        stated = epoch.stated_in_headers(answer.headers, session.policy.epoch_header)
        if stated is not None and stream.generation.epoch.header is not None:
            match = Match.EQUAL if stated == stream.generation.epoch.header else Match.DIFFERENT
    time = Time.UP if _is_time_up(session, stream) else Time.LEFT
    return AnswerEvidence(shape, named, match, time)


def _resume_answered(session: Session, stream: Stream, answer: Answer) -> None:
    if answer.status in classify.NEEDS_BODY:
        return
    shape = classify.shape(session.policy, answer.status, answer.headers, b"")
    if shape is not Shape.SSE:
        clientleg.end_leg(session, stream, is_answered=True)
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
            _back_off(session, stream)
        case Verdict.PASS:
            restarting.refused(session, stream, ruling)
        case _:
            restarting.restart(session, stream, ruling, [])


# --- bodies -----------------------------------------------------------------------------------------


def read(session: Session, stream: Stream, data: bytes) -> None:
    """Body bytes on a stream's leg."""
    answer = stream.answer
    assert answer is not None
    stream.last_read_at = session.now
    if answer.is_sse:
        block = stream.framer.feed(data)
        if block:
            relaying.take_block(session, stream, block)
        elif stream.framer.pending > session.policy.max_event_bytes:
            _stop_at_large_event(session, stream)
    elif stream.up is Up.OPAQUE:
        _pass_on(session, stream, data)
    else:
        _collect(session, stream, answer, data)


def _stop_at_large_event(session: Session, stream: Stream) -> None:
    if not stream.is_over and stream.leg is not None:
        restarting.restart(session, stream, _too_large(stream), [])


_TOO_LARGE = Ruling(Verdict.FAIL, "event_too_large")


def _too_large(stream: Stream) -> Ruling:
    """An event above the cap: unverified bytes must not pass on a leg that broke (R9)."""
    if stream.leg_kind is Leg.UNBROKEN:
        return _TOO_LARGE
    return Ruling(Verdict.RESTART, "event_too_large", Scope.STREAM)


def _collect(session: Session, stream: Stream, answer: Answer, data: bytes) -> None:
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
        and stream.client is ClientHalf.UNBORN
    )
    if can_be_passed_on:
        _begin_passing_on(session, stream, answer)
    elif answer.size > session.policy.max_event_bytes:
        restarting.restart(session, stream, _TOO_LARGE, [])


def _begin_passing_on(session: Session, stream: Stream, answer: Answer) -> None:
    owed = stream.owed[0]
    session.move_stream(stream, UpInput.PASSED_ON)
    answer.replacer = TopLevelReplacer(b"id", owed.stamp, owed.id)
    data, answer.chunks = answer.body, []
    if stream.exchange is not None:
        stream.move_client(ClientInput.OPENED)
        headers = clientleg.client_headers(session, answer.headers)
        session.do(OpenAnswer(stream.exchange, answer.status, headers, answer.reason))
    _pass_on(session, stream, data)


def _pass_on(session: Session, stream: Stream, data: bytes) -> None:
    assert stream.answer is not None
    replacer = stream.answer.replacer
    assert replacer is not None
    out = replacer.feed(data)
    if out and stream.exchange is not None:
        session.do(Write(stream.exchange, out))


# --- ends -------------------------------------------------------------------------------------------


def ended(session: Session, stream: Stream, end: LegEnd) -> None:
    """A stream's leg ended. What is owed decides whether that is its end."""
    stream.leg = None
    stream.is_leg_paused = False
    if stream.up is Up.OPAQUE:
        _passed_on(session, stream, end)
    elif stream.up is Up.RETRY:
        _resume_ended(session, stream, end)
    elif not stream.is_request and stream.up is Up.SENT:
        standalone.refused(session, stream, end)
    elif stream.answer is None and end is LegEnd.NOT_SENT:
        _not_sent(session, stream)
    elif stream.answer is None or stream.answer.is_sse:
        _broke(session, stream, end)
    elif end is LegEnd.CLEAN or (end is LegEnd.CLOSED and _is_whole(stream.answer)):
        _complete(session, stream, stream.answer)
    else:
        _broke(session, stream, end)


def _is_whole(answer: Answer) -> bool:
    """A body delimited by the connection's end: JSON says itself whether it is whole, and a refusal
    stands in its status."""
    return not 200 <= answer.status < 300 or jsonrpc.read_body(answer.body) is not None


def _not_sent(session: Session, stream: Stream) -> None:
    """No byte was accepted: try again in the same generation until the deadline (design, 6)."""
    session.do(UpstreamFailed("connect"))
    if stream.failing_since is None:
        stream.failing_since = session.now
    if _is_time_up(session, stream) or session.drain_until is not None:
        stream.is_not_run = True
        restarting.restart(session, stream, OUTSIDE["upstream_lost"], [])
        return
    _back_off(session, stream)


def _passed_on(session: Session, stream: Stream, end: LegEnd) -> None:
    """An answer that was passed on as it came is over; broken inside, it must not look whole (R34)."""
    assert stream.answer is not None
    assert stream.answer.replacer is not None
    stream.owed[0].state = OwedState.ANSWERED
    if end is LegEnd.CLEAN:
        rest = stream.answer.replacer.finish()
        session.move_stream(stream, UpInput.ANSWERED)
        if rest and stream.exchange is not None:
            session.do(Write(stream.exchange, rest))
        clientleg.ended_upstream(session, stream)
        clientleg.finish(session, stream)
    else:
        session.do(UpstreamFailed("truncated"))
        session.do(Judged("upstream", stream.kind.value, "fail", "event_too_large", stream.exchange))
        clientleg.abort(session, stream)
    restarting.stream_over(session, stream)


def _resume_ended(session: Session, stream: Stream, end: LegEnd) -> None:
    answer = stream.answer
    if answer is None or end not in (LegEnd.CLEAN, LegEnd.CLOSED):
        shape = Shape.UNREACHABLE
        session.do(UpstreamFailed("headers_timeout" if end is LegEnd.SILENT else "connect"))
    else:
        shape = classify.shape(session.policy, answer.status, answer.headers, answer.body)
    _rule_on_resume(session, stream, judge(_answer_evidence(session, stream, shape)))


def _complete(session: Session, stream: Stream, answer: Answer) -> None:
    """A POST was answered whole, and not by SSE."""
    if classify.is_session_gone(session.policy, answer.status, answer.body):
        restarting.post_found_session_gone(session, stream)
        return
    if not 200 <= answer.status < 300:
        refuse(session, stream, answer)
        return
    body = jsonrpc.read_body(answer.body)
    if body is not None and relaying.complete_json(session, stream, body) is not None:
        return
    if not stream.is_over:
        clientleg.fail(session, stream, OUTCOME_UNKNOWN, "no_answer")
        restarting.stream_over(session, stream)


def refuse(session: Session, stream: Stream, answer: Answer) -> None:
    """A status that is the server's own answer passes; in an SSE answer it becomes an error (R34)."""
    for owed in stream.owed:
        owed.state = OwedState.ANSWERED
    session.move_stream(stream, UpInput.FAILED)
    clientleg.ended_upstream(session, stream)
    message = jsonrpc.read_message(answer.body)
    text = answer.body
    if message.id is not None and message.is_rewritable:
        for owed in stream.owed:
            if jsonrpc.stamp_key(message.id) == owed.key:
                text = jsonrpc.rewrite(message, id=owed.id)
    if stream.client is ClientHalf.UNBORN:
        headers = clientleg.client_headers(session, http.without(answer.headers, (http.SESSION_ID,)))
        clientleg.respond(session, stream, answer.status, headers, text, answer.reason)
    else:
        for owed in stream.owed:
            data = {"status": answer.status, "generation": stream.generation.number}
            error = jsonrpc.error_response(owed.id, OUTCOME_UNKNOWN, "epochgate: refused by the server", data)
            clientleg.deliver_message(session, stream, error)
        clientleg.finish(session, stream)
    restarting.stream_over(session, stream)


def suspect(session: Session, stream: Stream) -> None:
    """Something that the stream hangs on may not have arrived: probe its session (R37)."""
    silence.probe(session, stream)


def leg_is_broken(session: Session, stream: Stream) -> None:
    """A leg that still stands was found dead (R22)."""
    clientleg.end_leg(session, stream)
    _broke(session, stream, LegEnd.BROKEN)


def _broke(session: Session, stream: Stream, end: LegEnd) -> None:
    """The leg of a running stream ended before its answer."""
    if session.defer_while_deleting(lambda: _broke(session, stream, end)) or stream.is_over:
        return
    if end is not LegEnd.CLEAN:
        session.do(UpstreamFailed("headers_timeout" if end is LegEnd.SILENT else "reset"))
    ruling = judge(_break_evidence(session, stream, end))
    match ruling.verdict:
        case Verdict.RETRY:
            session.move_stream(stream, UpInput.BROKE_PROVABLE)
            stream.failing_since = None
            if stream.strikes:
                _back_off(session, stream)
            else:
                send_resume(session, stream)
        case Verdict.WAIT:
            session.move_stream(stream, UpInput.POLL_ANNOUNCED)
            stream.poll_retry_ms = stream.announced_retry_ms
            session.set_timer("retry", stream.handle, (stream.announced_retry_ms or 0) / 1000)
        case Verdict.END:
            clientleg.cancel_due(session, stream)
        case _:
            restarting.restart(session, stream, ruling, [])


def _break_evidence(session: Session, stream: Stream, end: LegEnd) -> BreakEvidence:
    is_announced = end is LegEnd.CLEAN and stream.announced_retry_ms is not None
    return BreakEvidence(
        owed=_owed(stream),
        how=Break.ANNOUNCED if is_announced else Break.CUT,
        provable=_provable(stream),
        strikes=_strike(session, stream, is_announced=is_announced),
        poll=_poll_setting(session),
    )


def _owed(stream: Stream) -> Owed:
    """A standalone stream owes no answer; it is wanted as long as it stands."""
    if stream.open_owed or not stream.is_request:
        return Owed.ANSWER
    return Owed.CANCELLED if stream.unanswered else Owed.NOTHING


def _provable(stream: Stream) -> Provable:
    has_id = stream.ids.last is not None and stream.can_be_resumed_safely
    if stream.generation.epoch.is_captured:
        return Provable.EPOCH_AND_ID if has_id else Provable.EPOCH_ONLY
    return Provable.ID_ONLY if has_id else Provable.NOTHING


def _strike(session: Session, stream: Stream, *, is_announced: bool) -> Strikes:
    """A resume that brought no new message counts; announced polls bring none by design (R4)."""
    if stream.up is not Up.PROVING or is_announced:
        return Strikes.LEFT
    stream.strikes += 1
    if stream.strikes < session.policy.max_resumes_without_message:
        return Strikes.LEFT
    return Strikes.SPENT if stream.has_leg_event else Strikes.SPENT_EMPTY


def _poll_setting(session: Session) -> Poll:
    is_accepted = session.policy.poll_without_epoch is PollWithoutEpoch.ACCEPT
    return Poll.ACCEPT if is_accepted and session.policy.stamp is not Stamps.OFF else Poll.RESTART
