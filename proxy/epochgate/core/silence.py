"""Silence with an answer owed is probed, never waited out blindly (R22).

After `silence` seconds the stream's own upstream session is pinged in the name of its caller. Another
epoch is the loss of the session, no answer means that the leg is broken, anything else goes on up to
`max_silence`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import breaks, classify, delivery, epoch, legs, restarting
from epochgate.core.axes import Match
from epochgate.core.commands import Judged
from epochgate.core.errors import OUTCOME_UNKNOWN
from epochgate.core.events import LegEnd
from epochgate.core.generation import Generation
from epochgate.core.inquiry import Outcome
from epochgate.core.states import Up
from epochgate.core.stream import Stream
from epochgate.core.timers import Timer
from epochgate.core.verdict import OUTSIDE, Ruling, Scope, Verdict

if TYPE_CHECKING:
    from epochgate.core.session import Session

_NEARLY_S = 0.001  # closer to its time than a clock can tell
_LISTENING = (Up.SENT, Up.OPEN, Up.PROVING, Up.OPAQUE)
_SILENT = (*_LISTENING, Up.RETRY, Up.POLL)  # a server that polls may name any time (R4)
_OTHER_EPOCH = Ruling(Verdict.RESTART, "epoch_mismatch", Scope.SESSION)


def watch(session: Session, stream: Stream) -> None:
    """Begin to watch a leg for silence."""
    if stream.is_request:
        session.set_timer(Timer.SILENCE, stream.handle, session.policy.silence_s)


def due(session: Session, stream: Stream) -> None:
    """Look whether the stream was quiet, and probe it if so."""
    idle = session.now - stream.last_read_at
    left = session.policy.silence_s - idle
    if idle >= session.policy.max_silence_s and not stream.is_leg_paused and stream.up in _SILENT:
        session.do(Judged("upstream", stream.kind.value, "fail", "upstream_silent", stream.exchange))
        delivery.fail(session, stream, OUTCOME_UNKNOWN, "upstream_silent")
        return
    if stream.up not in _LISTENING or stream.is_leg_paused or left > _NEARLY_S:
        after = left if left > _NEARLY_S else session.policy.silence_s
        session.set_timer(Timer.SILENCE, stream.handle, after)
        return
    probe(session, stream)


def probe(session: Session, stream: Stream) -> None:
    """Ping the upstream session of the stream's generation."""
    leg = stream.leg

    def pinged(outcome: Outcome) -> None:
        if not stream.is_over and stream.leg == leg and leg is not None:
            _judge_ping(session, stream, outcome)

    legs.ping(session, session.head_for(stream), stream.generation, pinged)


def _judge_ping(session: Session, stream: Stream, outcome: Outcome) -> None:
    is_unanswered = outcome.status is None or outcome.end is LegEnd.SILENT
    if is_unanswered and not _is_kept_alive(session, stream):
        breaks.leg_is_broken(session, stream)
        return
    if outcome.status is not None and classify.is_session_gone(session.policy, outcome.status, outcome.body):
        restarting.restart(session, stream, OUTSIDE["session_gone"], [])
        return
    if not stream.generation.is_ended and states_other_epoch(session, stream.generation, outcome):
        restarting.restart(session, stream, _OTHER_EPOCH, [])
        return
    session.set_timer(Timer.SILENCE, stream.handle, session.policy.silence_s)


def _is_kept_alive(session: Session, stream: Stream) -> bool:
    """Whether comments come on the leg: it is not broken, and the server answers one after the other."""
    has_comments = stream.last_byte_at > stream.last_read_at
    return has_comments and session.now - stream.last_byte_at < session.policy.silence_s


def states_other_epoch(session: Session, generation: Generation, outcome: Outcome) -> bool:
    return epoch.compare(generation.epoch, *stated_by(session, outcome)) is Match.DIFFERENT


def stated_by(session: Session, outcome: Outcome) -> tuple[bytes | None, bytes | None]:
    """The epoch that the answer to a ping states in its message and in its header."""
    header = epoch.stated_in_headers(outcome.headers, session.policy.epoch_header)
    message = outcome.message
    meta = None if message is None else epoch.stated_in(message.raw, session.policy.epoch_keys)
    return meta, header
