"""A stream whose verdict is restart: what becomes of it, of its session, and of what it owes.

A loss names its generation (R26); only streams whose verdict is restart are touched by it (R18). A
stream-scope restart heals only to re-issue (R21).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from epochgate.core import (
    bodies,
    clientleg,
    delivery,
    heal,
    healing,
    legs,
    reissue,
    reissuing,
    restoring,
    sending,
    silence,
    standalone,
)
from epochgate.core.axes import Claim
from epochgate.core.commands import Counted, Judged
from epochgate.core.errors import OUTCOME_UNKNOWN, SESSION_NOT_RESTORED
from epochgate.core.events import RequestHead
from epochgate.core.evidence import Reading
from epochgate.core.generation import Generation
from epochgate.core.inquiry import Outcome
from epochgate.core.policy import SessionLoss
from epochgate.core.states import ClientHalf, SessionInput, SessionState, Up, UpInput
from epochgate.core.stream import Answer, Stream
from epochgate.core.timers import Timer
from epochgate.core.verdict import OUTSIDE, Ruling, Scope, Verdict

if TYPE_CHECKING:
    from epochgate.core.session import Session

MAX_CALLERS = 64  # of a session; tokens are refreshed: the one used longest ago is a stranger again
_LIFE_S = 5.0  # a 2xx that young makes one 404 doubtful (R26)


def accept(session: Session, head: RequestHead) -> None:
    """The upstream accepted this caller's credentials in this session (R32)."""
    callers = session.accepted
    if callers.pop(head.fingerprint, None) is None and len(callers) >= MAX_CALLERS:
        del callers[next(iter(callers))]
    callers[head.fingerprint] = head
    session.last_head = head


# --- a verdict against a stream ---------------------------------------------------------------------


def restart(session: Session, stream: Stream, ruling: Ruling, readings: list[Reading]) -> None:
    """Carry out a ruling that ends the stream's run: restart, or fail."""
    if stream.is_over or stream.up is Up.VOID:
        return
    session.do(Judged("upstream", stream.kind.value, ruling.verdict.value, ruling.reason, stream.exchange))
    legs.end(session, stream)
    delivery.break_off(session, stream)
    if stream.is_request and (ruling.verdict is Verdict.FAIL or stream.is_body_passed_on):
        delivery.fail(session, stream, OUTCOME_UNKNOWN, ruling.reason)
        return
    session.clear_timer(Timer.SILENCE, stream.handle)
    session.clear_timer(Timer.RETRY, stream.handle)
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
    """401 or 403 on a resume: never a heal. A client that is away may return with other credentials (R32);
    for one that waits the outcome is unknown."""
    session.do(Judged("upstream", stream.kind.value, "pass", ruling.reason, stream.exchange))
    if stream.is_request and stream.client is ClientHalf.AWAY:
        stream.failing_since = None  # in RETRY, with no timer, until it returns or is given up
    elif stream.is_request:
        delivery.fail(session, stream, OUTCOME_UNKNOWN, ruling.reason)
    else:
        session.move_stream(stream, UpInput.RESTARTED)
        standalone.voided(session, stream, ruling)


# --- what a restarted stream waits for --------------------------------------------------------------


def attend(session: Session, stream: Stream) -> None:
    """Take care of a void stream: fail it, wait for its client, queue on a heal, or begin one."""
    if stream.exchange is None and stream.client is not ClientHalf.AWAY:  # nobody can come back for it
        delivery.fail(session, stream, OUTCOME_UNKNOWN, reissuing.reason_of(stream))
        return
    if stream.exchange is None and not session.policy.reissue_when_away:
        if stream.generation is session.current and stream.generation.is_gone:
            _note_unattended_loss(session)
        return
    if not reissuing.may_be_sent(session, stream):
        reissuing.withhold(session, stream)
        _heal_for_others(session, stream)
        return
    if stream.generation is not session.current and session.state is SessionState.LIVE:
        _join(session, stream)
        return
    if stream.caller.fingerprint not in session.accepted:  # may not heal, nor ride on a heal (R32)
        delivery.fail(session, stream, SESSION_NOT_RESTORED, reissuing.reason_of(stream))
        return
    wait(session, stream)
    healing.begin(session, heal.trigger_of(reissuing.reason_of(stream)), session.head_for(stream))


def _join(session: Session, stream: Stream) -> None:
    """A late loss joins the heal that was: again in the current generation (R26), once the tools are
    known on which that hangs (R20)."""
    if not any(reissue.needs_tools(session.policy, owed, session.tools) for owed in stream.open_owed):
        reissuing.send_again(session, stream)
        return
    wait(session, stream)
    restoring.list_tools(
        session, session.head_for(stream), session.current, lambda: attend_after_commit(session, stream)
    )


def _note_unattended_loss(session: Session) -> None:
    if session.state in (SessionState.LIVE, SessionState.PARKED):
        session.move(SessionInput.LOSS_UNATTENDED)


def _heal_for_others(session: Session, stream: Stream) -> None:
    """The withheld stream needs no heal, but its session is gone: heal with the next caller."""
    if stream.generation is session.current and stream.generation.is_gone:
        _note_unattended_loss(session)


def wait(session: Session, stream: Stream) -> None:
    """Wait for a heal's commit, counted from the request's first failure (R24, R27)."""
    if session.timers.is_set(Timer.WAIT, stream.handle):
        return
    since = stream.failing_since if stream.failing_since is not None else session.now
    left = since + session.policy.heal_deadline_s - session.now
    session.set_timer(Timer.WAIT, stream.handle, max(left, 0.0))


def wait_expired(session: Session, stream: Stream) -> None:
    """The session could not be re-established in time."""
    assert stream.up in (Up.VOID, Up.WAITING)
    delivery.fail(session, stream, SESSION_NOT_RESTORED, "heal_deadline")
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
    if stream.head.fingerprint not in session.accepted:
        bodies.refuse(session, stream, current_answer(stream))  # a stranger's 404 passes (R32)
        return

    def elsewhere() -> None:
        if stream.is_over:
            return
        if stream.attempts:
            bodies.refuse(session, stream, current_answer(stream))
            return
        stream.attempts = 1
        sending.send_post(session, stream)

    check_affinity(
        session, stream.generation, session.head_for(stream), elsewhere, lambda: take_loss(session, stream)
    )


def _shows_life(session: Session, generation: Generation) -> bool:
    if session.now - generation.last_sign_of_life < _LIFE_S:
        return True
    return any(
        one.up in (Up.OPEN, Up.OPAQUE) and one.generation is generation for one in session.streams.values()
    )


def check_affinity(
    session: Session,
    generation: Generation,
    head: RequestHead,
    elsewhere: Callable[[], None],
    gone: Callable[[], None],
) -> None:
    """A 404 came. While the session shows life one ping tells its loss from another replica's 404 (R26)."""
    if generation is not session.current or generation.is_gone or not _shows_life(session, generation):
        gone()
        return

    def pinged(outcome: Outcome) -> None:
        is_alive = outcome.is_accepted and outcome.message is not None
        if is_alive and not silence.states_other_epoch(session, generation, outcome):
            session.do(Counted("affinity_faults"))
            elsewhere()
        else:
            gone()

    legs.ping(session, head, generation, pinged)


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
        case _:
            assert_never(session.policy.session_loss)


def surface(session: Session, stream: Stream) -> None:
    """The client sees the 404 and negotiates anew; nothing is healed any more."""
    if session.state in (SessionState.LIVE, SessionState.PARKED):
        session.move(SessionInput.SURFACED)
    bodies.refuse(session, stream, current_answer(stream))
    fail_waiting(session, "session_lost")


def fail_waiting(session: Session, reason: str) -> None:
    """What waits for a session that will not come back gets its error, a broken standalone stream its
    end; unbroken streams go on."""
    for stream in list(session.streams.values()):
        if stream.is_request and stream.up in (Up.VOID, Up.WAITING, Up.RETRY, Up.POLL):
            delivery.fail(session, stream, SESSION_NOT_RESTORED, reason)
    held = session.standalone
    if held is not None and held.up is Up.VOID:
        standalone.close(session, held)


# --- again ------------------------------------------------------------------------------------------


def attend_after_commit(session: Session, stream: Stream) -> None:
    """A heal is committed: send the void stream again if somebody waits for it."""
    is_away = stream.client is ClientHalf.AWAY and session.policy.reissue_when_away
    if stream.exchange is not None or is_away:
        reissuing.send_again(session, stream)
