"""Owed requests go up again, as far as the policy allows, and the rest is answered (design, section 9).

What is sent again is a new stream with the old one's client; its counter is durable before its POST is
written (R16). What is withheld ends in an explicit error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from epochgate.core import (
    delivery,
    ending,
    jsonrpc,
    legs,
    progress,
    reissue,
    sending,
)
from epochgate.core.commands import Discarded, Reissued
from epochgate.core.errors import OUTCOME_UNKNOWN
from epochgate.core.inquiry import Outcome
from epochgate.core.records import ReissueRecord
from epochgate.core.reissue import Choice
from epochgate.core.states import ClientHalf, ClientInput, Up, UpInput
from epochgate.core.stream import Kind, Owed, OwedState, Restart, Stream
from epochgate.core.timers import Timer
from epochgate.core.upward import rest_of_body, stamp_again

if TYPE_CHECKING:
    from epochgate.core.session import Session


_NO_WARNINGS = ("error", "critical", "alert", "emergency")


def reason_of(stream: Stream) -> str:
    return stream.void_reason.reason if stream.void_reason is not None else "upstream_lost"


def may_be_sent(session: Session, stream: Stream) -> bool:
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
    session.clear_timer(Timer.WAIT, stream.handle)
    successor = _succeed(session, stream, allowed)
    is_same = stream.generation.upstream_id == session.current.upstream_id  # after drift (R1)
    if not stream.is_not_run and (is_same or not stream.generation.is_gone):
        for owed in allowed:
            cancel_upstream(session, stream, owed)
    record = ReissueRecord(session.visible_id, stream.handle, successor.handle, successor.reissues)
    session.persist(record, lambda: sending.send_post(session, successor))


def withhold(session: Session, stream: Stream) -> None:
    """Nothing of the stream may go up again: the outcome is unknown, and said so."""
    for owed in stream.open_owed:
        decision = _decide(session, stream, owed)
        session.do(Reissued(owed.method, decision.choice.value, decision.reason, stream.exchange))
    _fail_withheld(session, stream)


def _fail_withheld(session: Session, stream: Stream) -> None:
    _count_discarded(session, stream)
    stream.restart = Restart(reason_of(stream), stream.generation.number, stream.relayed, reissued=False)
    delivery.fail(session, stream, OUTCOME_UNKNOWN, reason_of(stream))


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
        successor.restart = Restart(reason_of(stream), session.current.number, discarded, reissued=True)
    stream.successor, successor.predecessor = successor, stream
    _hand_over(session, stream, successor)
    session.move_stream(stream, UpInput.SUPERSEDED)
    delivery.ended_upstream(session, stream)
    return successor


def _answer_withheld(session: Session, stream: Stream, allowed: list[Owed]) -> None:
    """The members of a batch that may not go up again get their error first (R41)."""
    kept = {id(owed) for owed in allowed}
    for owed in stream.open_owed:
        if id(owed) not in kept:
            owed.state = OwedState.ANSWERED
            text = delivery.error(stream, owed, OUTCOME_UNKNOWN, reason_of(stream))
            if stream.client is ClientHalf.UNBORN:
                stream.withheld.append(text)
            else:
                owed.answered_at = stream.numbering.next_position
                delivery.deliver_message(session, stream, text)


def _hand_over(session: Session, stream: Stream, successor: Stream) -> None:
    was = stream.client
    if stream.exchange is not None:
        successor.exchange = delivery.release(session, stream)
        session.exchanges[successor.exchange] = successor
    if was is ClientHalf.UNBORN:
        stream.move_client(ClientInput.FINISHED)
        return
    successor.move_client(ClientInput.OPENED)
    if was is ClientHalf.AWAY:
        successor.move_client(ClientInput.LEFT)
        session.timers.hand_over(Timer.HOLD, stream.handle, successor.handle)
    stream.move_client(ClientInput.FINISHED)
    delivery.watch(session, successor)
    delivery.tell_given_up(session, stream, successor)
    _tell_of_restart(session, stream, successor)


def _tell_of_restart(session: Session, stream: Stream, successor: Stream) -> None:
    """The notice comes before anything of the new run; who cannot be told gets little of it (R5)."""
    is_told_of = successor.restart is stream.restart  # it did not run, and another did before it
    is_read = stream.journal.written_to == stream.numbering.next_position
    if successor.restart is None or (is_told_of and is_read):
        return
    if can_notify(session):
        delivery.deliver_message(session, successor, notice(successor.restart))
    else:
        successor.is_mute = stream.is_mute or stream.relayed > 0 or is_told_of


def can_notify(session: Session) -> bool:
    """Whether logging was negotiated and the client's level lets a warning through (R5, W16)."""
    return "logging" in session.initialize_result.capabilities and session.log_level not in _NO_WARNINGS


def notice(mark: Restart) -> bytes:
    """What tells the client of a restart before any message of the new run."""
    params = {"level": "warning", "logger": "epochgate", "data": mark.as_data()}
    return jsonrpc.notification("notifications/message", params)


def cancel_upstream(session: Session, stream: Stream, owed: Owed, reason: str = "superseded") -> None:
    """Tell a server session that may still run a request that nobody wants its answer (R26)."""
    params = {"requestId": msgspec.Raw(owed.stamp), "reason": reason}
    body = jsonrpc.notification("notifications/cancelled", params)
    generation = stream.generation
    generation.cancels_open += 1

    def told(_outcome: Outcome) -> None:
        generation.cancels_open -= 1
        ending.end_if_over(session, generation)

    legs.inquire(session, session.head_for(stream), generation, body, None, told)
