"""A leg of a running stream broke: is there a proof to resume with, or is it a restart already?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import (
    clientleg,
    delivery,
    ending,
    legs,
    restarting,
    sending,
    silence,
)
from epochgate.core.axes import Break, BreakEvidence, Owed, Poll, Provable, Strikes
from epochgate.core.commands import Judged, UpstreamFailed
from epochgate.core.errors import OUTCOME_UNKNOWN
from epochgate.core.events import LegEnd
from epochgate.core.policy import PollWithoutEpoch, Stamps
from epochgate.core.states import Up, UpInput
from epochgate.core.stream import Stream
from epochgate.core.timers import Timer
from epochgate.core.verdict import Verdict, judge

if TYPE_CHECKING:
    from epochgate.core.session import Session

_STRUCK_S = 0.5  # a server that still holds the broken leg needs that long to notice


def suspect(session: Session, stream: Stream) -> None:
    """Something that the stream hangs on may not have arrived: probe its session (R37)."""
    silence.probe(session, stream)


def leg_is_broken(session: Session, stream: Stream) -> None:
    """A leg that still stands was found dead (R22)."""
    legs.end(session, stream)
    broke(session, stream, LegEnd.BROKEN)


def broke(session: Session, stream: Stream, end: LegEnd) -> None:
    """The leg of a running stream ended before its answer."""
    if ending.defer_while_deleting(session, lambda: broke(session, stream, end)) or stream.is_over:
        return
    if end is not LegEnd.CLEAN:
        session.do(UpstreamFailed("headers_timeout" if end is LegEnd.SILENT else "reset"))
    ruling = judge(_break_evidence(session, stream, end))
    match ruling.verdict:
        case Verdict.RETRY:
            session.move_stream(stream, UpInput.BROKE_PROVABLE)
            stream.failing_since = None
            if stream.strikes:
                sending.again_later(session, stream, least_s=_STRUCK_S)
            else:
                sending.send_resume(session, stream)
        case Verdict.WAIT if _polls_in_vain(session, stream):
            session.do(Judged("upstream", stream.kind.value, "fail", "upstream_silent", stream.exchange))
            delivery.fail(session, stream, OUTCOME_UNKNOWN, "upstream_silent")
        case Verdict.WAIT:
            session.move_stream(stream, UpInput.POLL_ANNOUNCED)
            stream.poll_retry_ms = _announced_ms(session, stream)
            session.set_timer(Timer.RETRY, stream.handle, (stream.poll_retry_ms or 0) / 1000)
            silence.watch(session, stream)
        case Verdict.END:
            clientleg.cancel_due(session, stream)
        case _:
            restarting.restart(session, stream, ruling, [])


def _polls_in_vain(session: Session, stream: Stream) -> bool:
    """Whether polls have brought no message of this stream for as long as a server may be silent (R22)."""
    if stream.up is not Up.PROVING or stream.is_resume_counted:
        stream.polled_since = session.now
    return stream.is_request and session.now - stream.polled_since >= session.policy.max_silence_s


def _break_evidence(session: Session, stream: Stream, end: LegEnd) -> BreakEvidence:
    is_announced = end is LegEnd.CLEAN and _announced_ms(session, stream) is not None
    how = Break.ANNOUNCED if is_announced else Break.CUT
    return BreakEvidence(
        owed=_owed(stream),
        how=how if stream.passing is None else Break.INSIDE_EVENT,
        provable=_provable(stream),
        strikes=_strike(session, stream, is_announced=is_announced),
        poll=_poll_setting(session),
    )


def _announced_ms(session: Session, stream: Stream) -> int | None:
    """When the server said to come back. Where nothing can be proven only the last block counts: a session
    that expires ends its streams cleanly too (R4)."""
    is_primed_enough = session.policy.poll_without_epoch is PollWithoutEpoch.PRIMED
    if stream.announced_retry_ms is None and (stream.generation.epoch.is_captured or is_primed_enough):
        return stream.leg_retry_ms
    return stream.announced_retry_ms


def _owed(stream: Stream) -> Owed:
    """A standalone stream owes no answer; it is wanted as long as it stands."""
    if stream.open_owed or not stream.is_request:
        return Owed.ANSWER
    return Owed.CANCELLED if stream.unanswered else Owed.NOTHING


def _provable(stream: Stream) -> Provable:
    if not stream.is_request and not stream.generation.epoch.is_in_messages:
        return Provable.NOTHING  # a resumed one would be mute: nothing on it carries a stamp (R6)
    has_id = stream.ids.last is not None and stream.can_be_resumed_safely
    if stream.generation.epoch.is_captured:
        return Provable.EPOCH_AND_ID if has_id else Provable.EPOCH_ONLY
    return Provable.ID_ONLY if has_id else Provable.NOTHING


def _strike(session: Session, stream: Stream, *, is_announced: bool) -> Strikes:
    """A resume that brought no new message counts; announced polls bring none by design (R4)."""
    if stream.up is not Up.PROVING or is_announced or stream.is_resume_counted:
        return Strikes.LEFT
    stream.strikes += 1
    if stream.strikes < session.policy.max_resumes_without_message:
        return Strikes.LEFT
    return Strikes.SPENT if stream.has_leg_event else Strikes.SPENT_EMPTY


def _poll_setting(session: Session) -> Poll:
    is_accepted = session.policy.poll_without_epoch is not PollWithoutEpoch.RESTART
    return Poll.ACCEPT if is_accepted and session.policy.stamp is not Stamps.OFF else Poll.RESTART
