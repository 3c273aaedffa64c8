"""`initialize` within a session: the client negotiates anew, and the answer decides what that is.

It goes up unstamped, under the session's id (without one, if the session is lost). The same id again
is a new generation: what runs goes on in its own. Another id is another session, known to the client by
its own name from then on. Anything else passes and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import classify, delivery, healing, http, legs, opening, restarting, standalone
from epochgate.core import session as sessions
from epochgate.core.commands import Adopt, Respond
from epochgate.core.events import PostArrived
from epochgate.core.http import Headers
from epochgate.core.journal import Budget
from epochgate.core.jsonrpc import Message
from epochgate.core.states import SessionInput, SessionState, Up
from epochgate.core.timers import Timer
from epochgate.core.upward import headers_of_post

if TYPE_CHECKING:
    from epochgate.core.opening import Begun, Opening
    from epochgate.core.session import Session


def begin(session: Session, post: PostArrived, request: Message) -> None:
    """Send it up; while a heal is under way, when that is over."""
    attempt = opening.Opening(post.exchange, post, request, is_repeated=True)
    if session.state is SessionState.HEALING:
        session.reopenings.append(attempt)
        session.set_timer(Timer.NEGOTIATE, attempt.exchange, session.policy.heal_deadline_s)
    else:
        _send(session, attempt)


def heal_over(session: Session) -> None:
    """The heal under way has ended, in whatever way."""
    waiting, session.reopenings = session.reopenings, []
    for attempt in waiting:
        if attempt.begun is not None:
            settled(session, attempt, attempt.begun)
        elif attempt.has_client:
            _send(session, attempt)


def overdue(session: Session, exchange: int) -> None:
    """A heal goes on for as long as anybody waits for it, and a server may never answer: an error ends
    the wait (G3)."""
    attempt = opening.find(session, exchange)
    if attempt is None:
        return
    if attempt in session.reopenings:
        session.reopenings.remove(attempt)
        opening.answer_error(session, attempt, "heal_deadline")
    else:
        opening.give_up(session, attempt)


def drain_expired(session: Session) -> None:
    """Whoever negotiates still, or for the first time, is told before the process goes away (W10)."""
    for attempt in [use for use in session.legs.values() if isinstance(use, opening.Opening)]:
        opening.give_up(session, attempt, "draining")
    waiting, session.reopenings = session.reopenings, []
    for attempt in waiting:
        opening.answer_error(session, attempt, "draining")


def _send(session: Session, attempt: Opening) -> None:
    head = attempt.post.head
    headers: Headers = headers_of_post(head, session.current)
    if session.state is SessionState.LOST:
        headers = http.without(headers, (http.SESSION_ID,))
    session.set_timer(Timer.NEGOTIATE, attempt.exchange, session.policy.max_silence_s)
    attempt.leg = legs.send(session, attempt, b"POST", head, headers, attempt.post.raw)


def session_ended(session: Session) -> None:
    """Nothing is negotiated any more in a session that is over."""
    under_way = [use for use in session.legs.values() if isinstance(use, opening.Opening)]
    for attempt in under_way:
        legs.drop(session, attempt.leg, is_answered=False)
    for attempt in (*session.reopenings, *under_way):
        session.clear_timer(Timer.NEGOTIATE, attempt.exchange)
        if attempt.has_client:
            delivery.not_found(session, attempt.exchange)
    session.reopenings = []


# --- the answer -------------------------------------------------------------------------------------


def settled(session: Session, attempt: Opening, begun: Begun | None) -> None:
    """The answer is whole. `begun` is what it begins; None if it is no answer that begins a session."""
    if begun is not None and session.state is SessionState.HEALING:
        attempt.begun = begun  # which session is the current one then, the heal decides
        session.reopenings.append(attempt)
        return
    session.clear_timer(Timer.NEGOTIATE, attempt.exchange)
    if begun is None:
        _pass(session, attempt)
    elif begun.upstream_id == session.current.upstream_id and session.state is not SessionState.LOST:
        _begin_generation(session, attempt, begun)
    else:
        _begin_session(session, attempt, begun)


def _pass(session: Session, attempt: Opening) -> None:
    """A refusal, or an answer that names no session; if it says that this one is gone, that counts."""
    head = attempt.post.head
    is_gone = classify.is_session_gone(session.policy, attempt.status, attempt.body)
    if is_gone and head.fingerprint in session.accepted:
        restarting.lose(session, session.current, "session_gone", head)
    if attempt.has_client:
        headers = delivery.client_headers(session, attempt.headers)
        session.do(Respond(attempt.exchange, attempt.status, headers, attempt.body, attempt.reason))


def _begin_generation(session: Session, attempt: Opening, begun: Begun) -> None:
    old = session.current
    opening.record(session, attempt, begun)
    session.add_generation(begun.upstream_id, begun.epoch)
    old.is_ended = True  # its id lives on in the new generation
    session.has_initialized = False
    session.persist_session(lambda: _relay(session, attempt))


def _relay(session: Session, attempt: Opening) -> None:
    was_parked = session.state is SessionState.PARKED
    if session.state in (SessionState.LIVE, SessionState.PARKED):
        session.move(SessionInput.REOPENED)
    restarting.accept(session, attempt.post.head)
    opening.answer(session, attempt)
    held = session.standalone
    if held is not None and held.up is Up.VOID:  # no heal will take it along any more
        standalone.move_to(session, session.current)
    if was_parked:
        healing.serve_waiting(session)


def _begin_session(session: Session, attempt: Opening, begun: Begun) -> None:
    """Another session of the server: one of its own here too, which takes the exchange over."""
    budget = Budget(session.budget.limit, session.budget.wider)
    other = sessions.Session(
        session.policy, session.entropy, budget, session.is_taken, is_volatile=session.is_volatile
    )
    other.now = session.now
    other.opening = attempt
    attempt.is_repeated = False
    opening.record(other, attempt, begun)
    opening.begin_session(other, attempt, begun)
    session.do(Adopt(attempt.exchange, other))
