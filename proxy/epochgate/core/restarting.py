"""A stream whose verdict is restart: what becomes of it, of its session, and of what it owes.

A loss names its generation (R26); only streams whose verdict is restart are touched by it (R18). A
stream-scope restart heals only to re-issue (R21), and what is withheld ends in an explicit error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from epochgate.core import (
    answers,
    clientleg,
    epoch,
    heal,
    healing,
    http,
    jsonrpc,
    progress,
    reissue,
    standalone,
)
from epochgate.core.commands import Counted, Discarded, Drifted, Judged, Reissued
from epochgate.core.errors import OUTCOME_UNKNOWN, SESSION_NOT_RESTORED
from epochgate.core.events import RequestHead
from epochgate.core.evidence import Reading
from epochgate.core.generation import Generation
from epochgate.core.inquiry import Inquiry, Outcome
from epochgate.core.policy import SessionLoss
from epochgate.core.records import ReissueRecord
from epochgate.core.reissue import Choice
from epochgate.core.states import ClientHalf, ClientInput, SessionInput, SessionState, Up, UpInput
from epochgate.core.stream import Answer, Kind, Owed, OwedState, Restart, Stream
from epochgate.core.upward import headers_of_own_post, rest_of_body, stamp_again
from epochgate.core.verdict import OUTSIDE, Claim, Ruling, Scope, Verdict

if TYPE_CHECKING:
    from epochgate.core.session import Session

_LIFE_S = 5.0  # a 2xx that young makes one 404 doubtful (R26)
_NO_WARNINGS = ("error", "critical", "alert", "emergency")


def accept(session: Session, head: RequestHead) -> None:
    """The upstream accepted this caller's credentials in this session (R32)."""
    session.accepted[head.fingerprint] = head
    session.last_head = head


# --- a verdict against a stream ---------------------------------------------------------------------


def restart(session: Session, stream: Stream, ruling: Ruling, readings: list[Reading]) -> None:
    """Carry out a ruling that ends the stream's run: restart, or fail."""
    if stream.is_over or stream.up is Up.VOID:
        return
    session.do(Judged("upstream", stream.kind.value, ruling.verdict.value, ruling.reason, stream.exchange))
    clientleg.end_leg(session, stream)
    if ruling.verdict is Verdict.FAIL or stream.up is Up.OPAQUE:
        clientleg.fail(session, stream, OUTCOME_UNKNOWN, ruling.reason)
        stream_over(session, stream)
        return
    session.clear_timer("silence", stream.handle)
    session.clear_timer("retry", stream.handle)
    stream.void_reason = ruling
    session.move_stream(stream, UpInput.RESTARTED)
    if ruling.reason == "request_id_reset":
        _restart_asker(session, stream, readings)
    if not stream.is_request:
        standalone.voided(session, stream, ruling)
        return
    if not stream.open_owed:
        clientleg.cancel_due(session, stream)
        return
    if ruling.scope is Scope.SESSION:
        stream.generation.is_gone = True
    attend(session, stream)


def _restart_asker(session: Session, stream: Stream, readings: list[Reading]) -> None:
    """One server id asked twice while open: the session was re-created, both questions are void (R19)."""
    for reading in readings:
        if reading.claim not in (Claim.QUESTION, Claim.PING):
            continue
        for question in session.questions.values():
            if (
                question.is_open
                and question.server_id == reading.message.id
                and question.stream is not stream
            ):
                question.is_open = False
                restart(session, question.stream, OUTSIDE["request_id_reset"], [])


def void_question(session: Session, stream: Stream, *, is_session_gone: bool) -> None:
    """Nobody can answer what this stream asked any more (R18)."""
    ruling = OUTSIDE["question_void"]
    if is_session_gone:
        ruling = Ruling(ruling.verdict, ruling.reason, Scope.SESSION)
    restart(session, stream, ruling, [])


def refused(session: Session, stream: Stream, ruling: Ruling) -> None:
    """401 or 403 on a resume: never a heal; with nobody to pass it to, the outcome is unknown."""
    session.do(Judged("upstream", stream.kind.value, "pass", ruling.reason, stream.exchange))
    if stream.is_request:
        clientleg.fail(session, stream, OUTCOME_UNKNOWN, ruling.reason)
        stream_over(session, stream)
    else:
        session.move_stream(stream, UpInput.RESTARTED)
        standalone.voided(session, stream, ruling)


# --- what a restarted stream waits for --------------------------------------------------------------


def attend(session: Session, stream: Stream) -> None:
    """Take care of a void stream: fail it, wait for its client, queue on a heal, or begin one."""
    if stream.up is not Up.VOID:
        return
    if stream.exchange is None and not session.policy.reissue_when_away:
        if stream.client is not ClientHalf.AWAY:
            clientleg.fail(session, stream, OUTCOME_UNKNOWN, _reason(stream))
            stream_over(session, stream)
        elif stream.generation is session.current and stream.generation.is_gone:
            _note_unattended_loss(session)
        return
    if not _may_be_sent(session, stream):
        withhold(session, stream)
        _heal_for_others(session, stream)
        return
    if stream.generation is not session.current and session.state is SessionState.LIVE:
        _join(session, stream)
        return
    wait(session, stream)
    healing.begin(session, heal.trigger_of(_reason(stream)), session.head_for(stream))


def _join(session: Session, stream: Stream) -> None:
    """A late loss joins the heal that was: again in the current generation (R26), once the tools are
    known on which that hangs (R20)."""
    if not any(reissue.needs_tools(session.policy, owed, session.tools) for owed in stream.open_owed):
        send_again(session, stream)
        return
    wait(session, stream)
    healing.list_tools(
        session, session.head_for(stream), session.current, lambda: attend_after_commit(session, stream)
    )


def _reason(stream: Stream) -> str:
    return stream.void_reason.reason if stream.void_reason is not None else "upstream_lost"


def _note_unattended_loss(session: Session) -> None:
    if session.state in (SessionState.LIVE, SessionState.PARKED):
        session.move(SessionInput.LOSS_UNATTENDED)


def _heal_for_others(session: Session, stream: Stream) -> None:
    """The withheld stream needs no heal, but its session is gone: heal with the next caller."""
    if stream.generation is session.current and stream.generation.is_gone:
        _note_unattended_loss(session)


def _may_be_sent(session: Session, stream: Stream) -> bool:
    """Whether some owed request may go up again, or could once annotations are asked for (R20)."""
    for owed in stream.open_owed:
        decision = _decide(session, stream, owed)
        if decision.choice is Choice.SENT:
            return True
        is_undecided = decision.reason in reissue.UNDECIDED
        if is_undecided and reissue.needs_tools(session.policy, owed, session.tools):
            return True
    return False


def _decide(session: Session, stream: Stream, owed: Owed) -> reissue.Decision:
    return reissue.decide(
        session.policy,
        owed,
        session.tools,
        is_not_run=stream.is_not_run,
        count=stream.reissues,
        not_run_count=stream.not_run_reissues,
    )


def wait(session: Session, stream: Stream) -> None:
    """Wait for a heal's commit, counted from the request's first failure (R24, R27)."""
    if ("wait", stream.handle) in session.timers:
        return
    since = stream.failing_since if stream.failing_since is not None else session.now
    left = since + session.policy.heal_deadline_s - session.now
    session.set_timer("wait", stream.handle, max(left, 0.0))


def wait_expired(session: Session, stream: Stream) -> None:
    """The session could not be re-established in time."""
    if stream.up in (Up.VOID, Up.WAITING):
        clientleg.fail(session, stream, SESSION_NOT_RESTORED, "heal_deadline")
        stream_over(session, stream)
    healing.park_if_unwanted(session)


# --- losses -----------------------------------------------------------------------------------------


def lose(session: Session, generation: Generation, reason: str, head: RequestHead) -> None:
    """A generation is proven gone, and no request of this caller hangs on it."""
    generation.is_gone = True
    if session.state is not SessionState.LIVE:
        return
    if generation is not session.current:
        held = session.standalone
        if held is not None and held.generation is generation and held.up is Up.VOID:
            standalone.move_to(session, session.current)
        return
    if session.standalone is not None and session.standalone.exchange is not None:
        healing.begin(session, heal.trigger_of(reason), head)
    else:
        session.move(SessionInput.LOSS_UNATTENDED)


def post_found_session_gone(session: Session, stream: Stream) -> None:
    """The server does not know the session of a POST: it provably did not run (R21, R26)."""
    generation = stream.generation
    if stream.head.fingerprint not in session.accepted:
        answers.refuse(session, stream, current_answer(stream))  # a stranger's 404 passes (R32)
        return
    if generation is session.current and not generation.is_gone and _shows_life(session, generation):
        _check_affinity(session, stream)
        return
    take_loss(session, stream)


def _shows_life(session: Session, generation: Generation) -> bool:
    if session.now - generation.last_sign_of_life < _LIFE_S:
        return True
    return any(one.up is Up.OPEN and one.generation is generation for one in session.streams.values())


def _check_affinity(session: Session, stream: Stream) -> None:
    """One ping tells a lost session from another replica's 404 (R26)."""

    def pinged(outcome: Outcome) -> None:
        if stream.is_over:
            return
        is_alive = outcome.is_accepted and outcome.message is not None
        if is_alive and not stream.attempts:
            session.do(Counted("affinity_faults"))
            stream.attempts = 1
            answers.send_post(session, stream)
        elif is_alive:
            answers.refuse(session, stream, current_answer(stream))
        else:
            take_loss(session, stream)

    session.ping(session.head_for(stream), stream.generation, pinged)


def take_loss(session: Session, stream: Stream) -> None:
    """The session of an unrun POST is gone: heal, or show the 404 to the client (R21)."""
    if stream.is_over:
        return
    generation = stream.generation
    if generation is session.current and not generation.is_gone and should_surface(session, generation):
        generation.is_gone = True
        session.do(Judged("upstream", stream.kind.value, "restart", "session_gone", stream.exchange))
        surface(session, stream)
        return
    stream.is_not_run = True
    restart(session, stream, OUTSIDE["session_gone"], [])


def current_answer(stream: Stream) -> Answer:
    """The answer that stands on the stream's last leg."""
    assert stream.answer is not None
    return stream.answer


def should_surface(session: Session, generation: Generation) -> bool:
    match session.policy.session_loss:
        case SessionLoss.SURFACE:
            return True
        case SessionLoss.HEAL:
            return False
        case SessionLoss.AUTO:
            return generation.has_state


def surface(session: Session, stream: Stream) -> None:
    """The client sees the 404 and negotiates anew; nothing is healed any more."""
    if session.state in (SessionState.LIVE, SessionState.PARKED):
        session.move(SessionInput.SURFACED)
    answers.refuse(session, stream, current_answer(stream))
    fail_waiting(session, "session_lost")


def fail_waiting(session: Session, reason: str) -> None:
    """What waits for a session that will not come back gets its error; unbroken streams go on."""
    for stream in list(session.streams.values()):
        if stream.is_request and stream.up in (Up.VOID, Up.WAITING, Up.RETRY, Up.POLL):
            clientleg.fail(session, stream, SESSION_NOT_RESTORED, reason)


def drift(session: Session, stream: Stream, readings: list[Reading]) -> None:
    """The session was re-created between two calls: the new object is a new generation (R1)."""
    old = stream.generation
    if old is not session.current or session.state not in (SessionState.LIVE, SessionState.PARKED):
        return
    meta = next((reading.stated for reading in readings if reading.stated is not None), old.epoch.meta)
    header = stream.header_epoch if stream.header_epoch is not None else old.epoch.header
    session.add_generation(old.upstream_id, epoch.Epoch(meta, header))
    old.is_ended = True  # the id lives on in the new generation
    session.do(Drifted(session.current.number))
    session.move(SessionInput.DRIFTED)
    session.persist_session(lambda: healing.restore_into_current(session))


# --- again ------------------------------------------------------------------------------------------


def send_again(session: Session, stream: Stream) -> None:
    """Re-issue in the current generation what the policy allows, and answer the rest (R41)."""
    if stream.up is not Up.VOID:
        return
    allowed: list[Owed] = []
    for owed in stream.open_owed:
        decision = _decide(session, stream, owed)
        session.do(Reissued(owed.method, decision.choice.value, decision.reason, stream.exchange))
        if decision.choice is Choice.SENT:
            allowed.append(owed)
    if not allowed:
        _fail_withheld(session, stream)
        return
    session.clear_timer("wait", stream.handle)
    successor = _succeed(session, stream, allowed)
    is_same = stream.generation.upstream_id == session.current.upstream_id  # after drift (R1)
    if not stream.is_not_run and (is_same or not stream.generation.is_gone):
        for owed in allowed:
            cancel_upstream(session, stream, owed)
    record = ReissueRecord(session.visible_id, stream.handle, successor.handle, successor.reissues)
    session.persist(record, lambda: answers.send_post(session, successor))
    stream_over(session, stream)


def withhold(session: Session, stream: Stream) -> None:
    """Nothing of the stream may go up again: the outcome is unknown, and said so."""
    for owed in stream.open_owed:
        decision = _decide(session, stream, owed)
        session.do(Reissued(owed.method, decision.choice.value, decision.reason, stream.exchange))
    _fail_withheld(session, stream)


def _fail_withheld(session: Session, stream: Stream) -> None:
    _count_discarded(session, stream)
    stream.restart = Restart(_reason(stream), stream.generation.number, stream.relayed, reissued=False)
    clientleg.fail(session, stream, OUTCOME_UNKNOWN, _reason(stream))
    stream_over(session, stream)


def _count_discarded(session: Session, stream: Stream) -> None:
    session.do(Discarded(stream.relayed, max(session.now - stream.sent_at, 0.0)))


def _succeed(session: Session, stream: Stream, allowed: list[Owed]) -> Stream:
    """The stream that takes this one's place, with its client (R11)."""
    assert stream.body is not None
    _answer_withheld(session, stream, allowed)
    successor = session.new_stream(Kind.REQUEST, stream.head)
    successor.caller = stream.caller
    for owed in allowed:
        progress.remember(stream, owed, stream.journal.written_to)
    successor.body = rest_of_body(stream.body, tuple(owed.message for owed in allowed))
    successor.owed = [stamp_again(session, successor, owed) for owed in allowed]
    successor.reissues = stream.reissues + (0 if stream.is_not_run else 1)
    successor.not_run_reissues = stream.not_run_reissues + (1 if stream.is_not_run else 0)
    successor.client_head = stream.client_head
    successor.withheld = stream.withheld
    successor.sent_at = session.now
    if stream.is_not_run:
        successor.restart, successor.is_mute = stream.restart, stream.is_mute  # of an earlier run
    else:
        _count_discarded(session, stream)
        discarded = stream.relayed + (stream.restart.discarded_events if stream.restart is not None else 0)
        successor.restart = Restart(_reason(stream), session.current.number, discarded, reissued=True)
    stream.successor, successor.predecessor = successor, stream
    _hand_over(session, stream, successor)
    session.move_stream(stream, UpInput.SUPERSEDED)
    clientleg.ended_upstream(session, stream)
    return successor


def _answer_withheld(session: Session, stream: Stream, allowed: list[Owed]) -> None:
    """The members of a batch that may not go up again get their error first (R41)."""
    kept = {id(owed) for owed in allowed}
    for owed in stream.open_owed:
        if id(owed) not in kept:
            owed.state = OwedState.ANSWERED
            text = clientleg.error(stream, owed, OUTCOME_UNKNOWN, _reason(stream))
            if stream.client is ClientHalf.UNBORN:
                stream.withheld.append(text)
            else:
                clientleg.deliver_message(session, stream, text)


def _hand_over(session: Session, stream: Stream, successor: Stream) -> None:
    was = stream.client
    if stream.exchange is not None:
        successor.exchange = clientleg.release(session, stream)
        session.exchanges[successor.exchange] = successor
    if was is ClientHalf.UNBORN:
        stream.move_client(ClientInput.FINISHED)
        return
    successor.move_client(ClientInput.OPENED)
    if was is ClientHalf.AWAY:
        successor.move_client(ClientInput.LEFT)
        session.set_timer("hold", successor.handle, session.policy.hold_s)
    session.clear_timer("hold", stream.handle)
    stream.move_client(ClientInput.FINISHED)
    clientleg.watch(session, successor)
    if successor.restart is stream.restart:
        return  # it did not run: what was told of an earlier run still holds
    assert successor.restart is not None
    if can_notify(session):
        clientleg.deliver_message(session, successor, notice(successor.restart))
    else:
        successor.is_mute = stream.is_mute or stream.relayed > 0


def can_notify(session: Session) -> bool:
    """Whether logging was negotiated and the client's level lets a warning through (R5, W16)."""
    return "logging" in session.initialize_result.capabilities and session.log_level not in _NO_WARNINGS


def notice(mark: Restart) -> bytes:
    """What tells the client of a restart before any message of the new run."""
    params = {"level": "warning", "logger": "epochgate", "data": mark.as_data()}
    return jsonrpc.notification("notifications/message", params)


def cancel_upstream(session: Session, stream: Stream, owed: Owed) -> None:
    """Tell a server session that may still run a request that nobody wants its answer (R26)."""
    params = {"requestId": msgspec.Raw(owed.stamp), "reason": "superseded"}
    body = jsonrpc.notification("notifications/cancelled", params)
    generation = stream.generation
    generation.cancels_open += 1

    def told(_outcome: Outcome) -> None:
        generation.cancels_open -= 1
        end_if_over(session, generation)

    session.inquire(session.head_for(stream), generation, body, None, told)


def _nothing(_outcome: Outcome) -> None:
    """A best effort: nothing hangs on what comes of it."""


def attend_after_commit(session: Session, stream: Stream) -> None:
    """A heal is committed: send the void stream again if somebody waits for it."""
    if stream.exchange is not None or session.policy.reissue_when_away:
        send_again(session, stream)


def stream_over(session: Session, stream: Stream) -> None:
    """A stream came to its end: perhaps the last one of an old generation."""
    end_if_over(session, stream.generation)


def end_if_over(session: Session, generation: Generation) -> None:
    """End an old upstream session when its last stream has ended (R26)."""
    if not session.generations:
        return
    if generation is session.current or generation.is_gone or generation.is_ended or generation.cancels_open:
        return
    if any(one.generation is generation and not one.is_over for one in session.streams.values()):
        return
    generation.is_ended = True
    end_upstream(session, generation)


def end_upstream(session: Session, generation: Generation) -> None:
    """DELETE an upstream session that the proxy leaves behind."""
    head = session.last_head
    if head is None:
        return
    headers = http.without(headers_of_own_post(head, generation), (b"content-type",))
    inquiry = Inquiry(None, _nothing)
    leg = session.send(inquiry, b"DELETE", head, headers, None, session.policy.ping_s)
    session.set_timer("inquiry", leg, session.policy.ping_s)
