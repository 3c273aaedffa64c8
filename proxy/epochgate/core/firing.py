"""What is done when a timer's time has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from epochgate.core import (
    clientleg,
    ending,
    healing,
    legs,
    reopening,
    restarting,
    resuming,
    sending,
    silence,
    standalone,
)
from epochgate.core.timers import Timer

if TYPE_CHECKING:
    from epochgate.core.session import Session


def fire_due(session: Session) -> None:
    """Do what is due at the session's `now`."""
    for timer, of in session.timers.take_due(session.now):
        _fire(session, timer, of)


def _fire(session: Session, timer: Timer, of: int) -> None:
    match timer:
        case Timer.KEEPALIVE:
            clientleg.keep_alive(session, of)
        case Timer.HOLD:
            stream = session.streams[of]
            clientleg.hold_expired(session, stream)
        case Timer.RETAIN:
            clientleg.forget(session, session.streams[of])
        case Timer.CANCEL:
            stream = session.streams[of]
            clientleg.cancel_due(session, stream)
        case Timer.RETRY:
            sending.retry_due(session, session.streams[of])
        case Timer.WAIT:
            restarting.wait_expired(session, session.streams[of])
        case Timer.HEAL:
            healing.attempt(session)
        case Timer.SILENCE:
            silence.due(session, session.streams[of])
        case Timer.REOPEN:
            standalone.reopen(session, session.streams[of])
        case Timer.NEGOTIATE:
            reopening.overdue(session, of)
        case Timer.INQUIRY:
            legs.overdue(session, of)
        case Timer.ASK:
            resuming.ask_overdue(session, of)
        case Timer.IDLE:
            ending.idle_due(session)
        case Timer.DRAIN:
            clientleg.drain_expired(session)
            reopening.drain_expired(session)
        case _:
            assert_never(timer)
