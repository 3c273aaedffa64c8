"""What each of a session's timers is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import answers, clientleg, ending, healing, restarting, resuming, sending, silence

if TYPE_CHECKING:
    from epochgate.core.session import Session

# Their second key is a stream's handle, but for those that say otherwise.
NAMES = (
    "ask",  # exchange: a client that waits while the upstream is asked about it
    "cancel",
    "drain",  # 0: the session
    "heal",  # 0: the session
    "hold",
    "idle",  # 0: the session
    "inquiry",  # leg
    "keepalive",  # exchange
    "reopen",
    "retain",
    "retry",
    "silence",
    "wait",
)


def fire(session: Session, name: str, of: int) -> None:
    """The time named `name` has come for the stream, exchange or leg `of`."""
    match name:
        case "keepalive":
            clientleg.keep_alive(session, of)
        case "hold":
            clientleg.hold_expired(session, session.streams[of])
        case "retain":
            clientleg.forget(session, session.streams[of])
        case "cancel":
            clientleg.cancel_due(session, session.streams[of])
        case "retry":
            sending.retry_due(session, session.streams[of])
        case "wait":
            restarting.wait_expired(session, session.streams[of])
        case "heal":
            healing.attempt(session)
        case "silence":
            silence.due(session, session.streams[of])
        case "reopen":
            answers.reopen_due(session, session.streams[of])
        case "inquiry":
            silence.inquiry_overdue(session, of)
        case "ask":
            resuming.ask_overdue(session, of)
        case "idle":
            ending.idle_due(session)
        case "drain":
            clientleg.drain_expired(session)
        case _:
            raise AssertionError(f"no timer is called {name}")
