"""Upstream legs: opening them, and to whom what comes back on one belongs.

A leg is a stream's, that of the client's `initialize`, or an inquiry of our own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from epochgate.core import answers, jsonrpc, opening, standalone
from epochgate.core.commands import CloseLeg, DrainLeg, SendUpstream
from epochgate.core.events import LegAnswered, LegCompleted, LegEnd, LegEnded, RequestHead
from epochgate.core.generation import Generation
from epochgate.core.http import Headers
from epochgate.core.inquiry import Inquiry, Outcome
from epochgate.core.stream import Stream
from epochgate.core.timers import Timer
from epochgate.core.upward import headers_of_own_post

if TYPE_CHECKING:
    from epochgate.core.session import Session

Done = Callable[[Outcome], None]


# --- opening ----------------------------------------------------------------------------------------


def send(
    session: Session,
    use: Stream | Inquiry | opening.Opening,
    method: bytes,
    head: RequestHead,
    headers: Headers,
    body: bytes | None,
    headers_within: float | None = None,
) -> int:
    """Open a leg for `use`; its events come back to it."""
    leg = session.number()
    session.legs[leg] = use
    session.do(SendUpstream(leg, method, head.target, headers, body, headers_within))
    return leg


def ask(
    session: Session,
    method: bytes,
    head: RequestHead,
    headers: Headers,
    body: bytes | None,
    done: Done,
    request_id: bytes | None = None,
    headers_within: float | None = None,
) -> None:
    """Send a request that belongs to no stream and call `done` with what came of it, within `ping_s`."""
    leg = send(session, Inquiry(request_id, done), method, head, headers, body, headers_within)
    session.set_timer(Timer.INQUIRY, leg, session.policy.ping_s)


def inquire(
    session: Session,
    head: RequestHead,
    generation: Generation | None,
    body: bytes,
    request_id: bytes | None,
    done: Done,
) -> None:
    """`ask` with a POST of our own, in the name of this caller."""
    headers = headers_of_own_post(head, generation)
    ask(session, b"POST", head, headers, body, done, request_id, session.policy.ping_s)


def ping(session: Session, head: RequestHead, generation: Generation, done: Done) -> None:
    request_id = session.own_id()
    inquire(session, head, generation, jsonrpc.request(request_id, "ping", None), request_id, done)


def overdue(session: Session, leg: int) -> None:
    """A request of the proxy's own got no answer in time."""
    inquiry = session.legs[leg]
    assert isinstance(inquiry, Inquiry)  # its timer ends with its leg
    drop(session, leg, is_answered=False)
    inquiry.done(inquiry.ended(LegEnd.SILENT))


# --- closing ----------------------------------------------------------------------------------------


def drop(session: Session, leg: int, *, is_answered: bool) -> None:
    """Nobody waits for this leg any more; one that gave its answer is read to its end (W7)."""
    session.legs.pop(leg, None)
    session.clear_timer(Timer.INQUIRY, leg)
    session.do(DrainLeg(leg) if is_answered else CloseLeg(leg))


def end(session: Session, stream: Stream, *, is_answered: bool = False) -> None:
    """The stream wants nothing more of the leg that it has, if any."""
    if stream.leg is not None:
        drop(session, stream.leg, is_answered=is_answered)
        stream.leg = None
    stream.is_leg_paused = False


# --- what comes back --------------------------------------------------------------------------------


def answered(session: Session, event: LegAnswered) -> None:
    use = session.legs.get(event.leg)
    _answered(session, event)
    _follow(session, use)


def _follow(session: Session, use: Stream | Inquiry | opening.Opening | None) -> None:
    if isinstance(use, Stream) and not use.is_request:
        standalone.follow(session, use)


def _answered(session: Session, event: LegAnswered) -> None:
    match session.legs.get(event.leg):
        case Stream() as stream:
            answers.answered(session, stream, event.status, event.headers, event.reason)
        case Inquiry() as inquiry:
            inquiry.answered(event.status, event.headers, event.reason)
        case opening.Opening() as attempt:
            opening.answered(session, attempt, event.status, event.headers, event.reason)
        case None:
            pass  # dropped while the answer was on its way
        case use:
            assert_never(use)


def read(session: Session, leg: int, data: bytes) -> None:
    use = session.legs.get(leg)
    if isinstance(use, Stream):
        answers.read(session, use, data)
    elif isinstance(use, Inquiry):
        outcome = use.read(data)
        if outcome is not None:
            drop(session, leg, is_answered=True)
            use.done(outcome)
    elif use is not None:
        opening.read(session, use, data)


def completed(session: Session, event: LegCompleted) -> None:
    use = session.legs.get(event.leg)
    if isinstance(use, Stream) and answers.may_complete(session, use, event):
        del session.legs[event.leg]
        answers.completed(session, use, event)
        return
    _answered(session, LegAnswered(event.leg, event.status, event.headers, event.reason))
    if event.body:
        read(session, event.leg, event.body)
    _follow(session, use)
    ended(session, LegEnded(event.leg, LegEnd.CLEAN))


def ended(session: Session, event: LegEnded) -> None:
    match session.legs.pop(event.leg, None):
        case Stream() as stream:
            answers.ended(session, stream, event.end)
        case Inquiry() as inquiry:
            session.clear_timer(Timer.INQUIRY, event.leg)
            inquiry.done(inquiry.ended(event.end))
        case opening.Opening() as attempt:
            opening.ended(session, attempt, event.end)
        case None:
            pass  # dropped while its end was on its way
        case use:
            assert_never(use)
