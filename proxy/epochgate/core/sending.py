"""Streams on their way up: a POST, written once, and the resume of a stream that broke.

Only a POST of which no byte was accepted is tried again in its own generation (design, section 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import (
    clientleg,
    ending,
    legs,
    restarting,
    silence,
)
from epochgate.core.states import ClientHalf, Up, UpInput
from epochgate.core.stream import Stream
from epochgate.core.timers import Timer
from epochgate.core.upward import back_off, body_of, head_of_post, headers_of_get, headers_of_post
from epochgate.core.verdict import OUTSIDE

if TYPE_CHECKING:
    from epochgate.core.session import Session


_FIRST_BACKOFF_S = 0.1


_LAST_BACKOFF_S = 1.0


def send_post(session: Session, stream: Stream) -> None:
    """Write the stream's POST in its generation."""
    if stream.up not in (Up.WAITING, Up.SENT) or stream.leg is not None:
        return
    if not stream.open_owed:
        clientleg.cancel_due(session, stream)
        return
    if stream.reissues and ending.defer_while_deleting(session, lambda: send_post(session, stream)):
        return
    if _is_again_for_nobody(session, stream):
        stream.is_not_run = True
        restarting.restart(session, stream, OUTSIDE["upstream_lost"], [])
        return
    head = head_of_post(session, stream)
    headers = headers_of_post(head, stream.generation)
    if stream.failing_since is None:
        stream.sent_at = session.now
    session.move_stream(stream, UpInput.SENT)
    stream.answer = None
    stream.last_read_at = session.now
    stream.leg = legs.send(session, stream, b"POST", head, headers, body_of(stream))
    silence.watch(session, stream)


def _is_again_for_nobody(session: Session, stream: Stream) -> bool:
    """Whether a second run has not begun, and its client has left meanwhile: it waits for the return, or
    for nothing if the client has no cursor to return with."""
    has_left = stream.client in (ClientHalf.AWAY, ClientHalf.DONE)
    return stream.reissues > 0 and has_left and not session.policy.reissue_when_away


def send_resume(session: Session, stream: Stream) -> None:
    """Ask for the stream's events behind the last upstream id."""
    if stream.failing_since is None:
        stream.failing_since = session.now
    stream.answer = None
    stream.begin_sse()
    stream.header_epoch = None
    head = session.head_for(stream)
    headers = headers_of_get(head, stream.generation, stream.ids.last)
    within = session.policy.resume_headers_s
    stream.leg = legs.send(session, stream, b"GET", stream.head, headers, None, within)


def resume_with_caller(session: Session, stream: Stream) -> None:
    """The client of a stream is back whose resume its old credentials were refused (R32)."""
    is_waiting = stream.up is Up.RETRY and stream.leg is None
    if is_waiting and not session.timers.is_set(Timer.RETRY, stream.handle):
        send_resume(session, stream)


def retry_due(session: Session, stream: Stream) -> None:
    """The back-off, or the wait that a server asked for before a poll, is over."""
    if stream.up is Up.SENT:
        send_post(session, stream)
        return
    if stream.up is Up.POLL:
        session.move_stream(stream, UpInput.POLL_DUE)
        stream.failing_since = None
    assert stream.up is Up.RETRY
    send_resume(session, stream)


def again_later(session: Session, stream: Stream, least_s: float = 0.0) -> None:
    """Try once more, after a pause that grows with the attempts, of at least `least_s` seconds."""
    delay = max(back_off(_FIRST_BACKOFF_S, _LAST_BACKOFF_S, stream.attempts), least_s)
    stream.attempts += 1
    session.set_timer(Timer.RETRY, stream.handle, delay)


def is_time_up(session: Session, stream: Stream) -> bool:
    since = stream.failing_since
    grace = session.policy.resume_deadline_s
    if stream.poll_retry_ms is not None:  # a server that polls may be away for as long as it said (R4)
        grace = max(session.policy.poll_grace_s, 2 * stream.poll_retry_ms / 1000)
    return since is not None and session.now - since >= grace
