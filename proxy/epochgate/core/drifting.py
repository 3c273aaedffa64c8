"""A session that the server made anew by itself, between two calls (R1).

It is a generation of its own under the same upstream id. What runs in the old one goes on there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import epoch, restoring, standalone
from epochgate.core.axes import Match
from epochgate.core.commands import Drifted
from epochgate.core.evidence import Reading
from epochgate.core.generation import Generation
from epochgate.core.states import SessionInput, SessionState
from epochgate.core.stream import Restart, Stream

if TYPE_CHECKING:
    from epochgate.core.session import Session


def mark_drift(session: Session, generation: int) -> None:
    """The client is told of a session that was re-created by the answer that shows it, or the next (G7)."""
    session.pending_mark = Restart("drift", generation, 0, reissued=False)


def drift(session: Session, stream: Stream, readings: list[Reading]) -> None:
    """The session was re-created between two calls: the new object is a new generation (R1)."""
    meta = next((reading.stated for reading in readings if reading.stated is not None), None)
    take_over_drifted(session, stream.generation, epoch.Epoch(meta, stream.header_epoch))


def note(session: Session, generation: Generation, meta: bytes | None, header: bytes | None) -> bool:
    """Whether an answer that restarts nothing states another epoch than its session's: it was re-created,
    perhaps by this very request."""
    if epoch.compare(generation.epoch, meta, header) is not Match.DIFFERENT:
        return False
    before = session.current
    take_over_drifted(session, generation, epoch.Epoch(meta, header))
    if session.current is not before:
        mark_drift(session, session.current.number)
    return True


def note_opened(session: Session, stream: Stream) -> None:
    """The head of a standalone stream names the session that it comes from, before any message of it."""
    answer = stream.answer
    if answer is None or not answer.is_sse or stream is not session.standalone:
        return
    old = stream.generation
    stated = epoch.stated_in_headers(answer.headers, session.policy.epoch_header)
    if note(session, old, None, stated) and session.current is not old:
        standalone.move_leg_to(session, session.current)


def take_over_drifted(session: Session, old: Generation, stated: epoch.Epoch) -> None:
    """Go on in the session that was re-created under the upstream id of `old`."""
    if old is not session.current or session.state not in (SessionState.LIVE, SessionState.PARKED):
        return
    meta = stated.meta if stated.meta is not None else old.epoch.meta
    header = stated.header if stated.header is not None else old.epoch.header
    session.add_generation(old.upstream_id, epoch.Epoch(meta, header))
    old.is_ended = True  # the id lives on in the new generation
    session.do(Drifted(session.current.number))
    session.move(SessionInput.DRIFTED)
    session.persist_session(lambda: _drifted(session, old))


def _drifted(session: Session, old: Generation) -> None:
    """The new session gets what a heal would restore, and its own standalone stream."""
    restoring.restore_into_current(session)
    held = session.standalone
    if held is not None and held.generation is old:
        standalone.move_to(session, session.current)
