"""How sessions end: the client's by DELETE or idleness, the server's when nothing needs them any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from epochgate.core import (
    classify,
    clientleg,
    delivery,
    http,
    legs,
    opening,
    reopening,
    standalone,
)
from epochgate.core.commands import (
    AbortAnswer,
    Counted,
    Respond,
)
from epochgate.core.errors import SESSION_NOT_RESTORED
from epochgate.core.events import DeleteArrived
from epochgate.core.generation import Generation
from epochgate.core.http import Headers
from epochgate.core.inquiry import Outcome
from epochgate.core.records import EndRecord
from epochgate.core.states import (
    INTAKE,
    ClientAsk,
    ClientHalf,
    Does,
    SessionInput,
    SessionState,
    look_up,
)
from epochgate.core.stream import Stream
from epochgate.core.timers import Timer
from epochgate.core.upward import headers_of_own_post, headers_of_post

if TYPE_CHECKING:
    from epochgate.core.legs import Done
    from epochgate.core.session import Session


def nothing(_outcome: Outcome) -> None:
    """A best effort: nothing hangs on what comes of it."""


def end_if_over(session: Session, generation: Generation) -> None:
    """End an old upstream session when its last stream has ended (R26)."""
    if generation is session.current or generation.is_gone or generation.is_ended or generation.cancels_open:
        return
    if any(one.generation is generation and not one.is_over for one in session.streams.values()):
        return
    generation.is_ended = True
    end_upstream(session, generation)


def end_upstream(session: Session, generation: Generation, done: Done = nothing) -> None:
    """DELETE an upstream session that the proxy leaves behind."""
    head = session.last_head
    assert head is not None  # of whoever opened the session, or came later
    headers = http.without(headers_of_own_post(head, generation), (b"content-type",))
    legs.ask(session, b"DELETE", head, headers, None, done, headers_within=session.policy.ping_s)


def delete_arrived(session: Session, event: DeleteArrived) -> None:
    """DELETE wins over everything (R25)."""
    does = look_up(INTAKE, session.state, ClientAsk.DELETE)
    if does is Does.NOT_FOUND:
        delivery.not_found(session, event.exchange)
        return
    told = session.current
    if does is Does.CLOSE and event.head.fingerprint in session.accepted:
        if not told.is_gone and not told.is_ended:
            end_upstream(session, told)
        session.open_deletes += 1  # no heal is begun meanwhile
        session.persist(EndRecord(session.visible_id), lambda: _ended(session, event, told, 200, ()))
        return

    def deleted(outcome: Outcome) -> None:
        _deleted(session, event, told, outcome)

    session.open_deletes += 1
    headers = headers_of_post(event.head, session.current)
    legs.ask(session, b"DELETE", event.head, headers, None, deleted)


def defer_while_deleting(session: Session, action: Callable[[], None]) -> bool:
    """Whether a DELETE is under way; `action` is then done if the server refuses it (R25)."""
    if session.open_deletes:
        session.deferred.append(action)
    return session.open_deletes > 0


def _delete_refused(session: Session) -> None:
    """Go on with what was put off."""
    session.open_deletes -= 1
    if not session.open_deletes:
        deferred, session.deferred = session.deferred, []
        for action in deferred:
            action()


def _deleted(session: Session, event: DeleteArrived, told: Generation, outcome: Outcome) -> None:
    status = outcome.status
    if status is not None and outcome.is_accepted:
        headers = delivery.client_headers(session, outcome.headers)
        session.persist(EndRecord(session.visible_id), lambda: _ended(session, event, told, status, headers))
    elif event.head.fingerprint in session.accepted and _is_done_with(session, outcome):
        session.persist(EndRecord(session.visible_id), lambda: _ended(session, event, told, 200, ()))
    else:
        if status is None:
            delivery.not_found(session, event.exchange)
        else:
            headers = delivery.client_headers(session, outcome.headers)
            session.do(Respond(event.exchange, status, headers, outcome.body, outcome.reason))
        _delete_refused(session)


def _is_done_with(session: Session, outcome: Outcome) -> bool:
    """The session is gone, or its server cannot be told: either way its client is done with it. Of a
    stranger neither proves anything (R32)."""
    status = outcome.status
    if status is None or status == 404 or status >= 500:
        return True
    return classify.is_session_gone(session.policy, status, outcome.body)


def _ended(session: Session, event: DeleteArrived, told: Generation, status: int, headers: Headers) -> None:
    session.do(Respond(event.exchange, status, headers, b""))
    if session.state is not SessionState.ENDED and session.current is not told:
        end_upstream(session, session.current)  # made anew by a request that met the DELETE (R26)
    end(session)


def end(session: Session) -> None:
    """The session is over: owed requests get their error, every leg is closed."""
    run = session.heal
    if session.state is SessionState.ENDED:
        return
    session.move(SessionInput.ENDED)
    session.heal = None
    reopening.session_ended(session)
    if run is not None and run.new is not None and run.new is not session.current:
        end_upstream(session, run.new)
    for generation in session.generations[:-1]:
        if not generation.is_gone and not generation.is_ended:
            generation.is_ended = True
            end_upstream(session, generation)
    for stream in list(session.streams.values()):
        if not stream.is_request:
            if not stream.is_over:
                standalone.close(session, stream)
        elif not stream.is_over:
            delivery.fail(session, stream, SESSION_NOT_RESTORED, "session_ended")
    session.set_timer(Timer.IDLE, 0, session.policy.retain_s)


def lose_ownership(session: Session) -> None:
    """Another replica owns the session now: nothing more is sent, relayed or answered here (R17).

    Clients are cut, so that they come back to the owner; a session that a heal was making is ended.
    """
    run = session.heal
    if session.state in (SessionState.OPENING, SessionState.ENDED):
        session.forget()
        return
    for leg in list(session.legs):
        legs.drop(session, leg, is_answered=False)
    for exchange in (*session.exchanges, *session.asking):
        session.do(AbortAnswer(exchange))
    session.move(SessionInput.ENDED)
    session.heal = None
    session.timers.clear_all()
    for stream in list(session.streams.values()):
        stream.leg = stream.exchange = None
        stream.journal.clear()
    session.streams.clear()
    session.exchanges.clear()
    session.asking.clear()
    if run is not None and run.new is not None:
        end_upstream(session, run.new)
    session.set_timer(Timer.IDLE, 0, session.policy.retain_s)


def is_unused(session: Session) -> bool:
    """Whether nothing of the session is under way, and nothing is kept that its client has not read."""
    if session.exchanges or session.legs or session.asking or session.running or session.heal is not None:
        return False
    return not any(_is_unread(stream) for stream in session.streams.values())


def _is_unread(stream: Stream) -> bool:
    return stream.client is ClientHalf.AWAY or stream.journal.written_to < stream.numbering.next_position


def evict(session: Session) -> None:
    """An unused session makes room. Its client will be a stranger; the server need not keep it either."""
    if session.state is not SessionState.ENDED:
        session.do(Counted("session_evictions"))
        session.persist(EndRecord(session.visible_id), lambda: _evicted(session))
    else:
        _vanish(session)


def _evicted(session: Session) -> None:
    leave(session, lambda _: _vanish(session))
    end(session)
    _vanish(session)


def leave(session: Session, done: Done = nothing) -> None:
    """End the server's session too, where it is not lost anyway."""
    if session.state is SessionState.LIVE and not session.current.is_gone:
        end_upstream(session, session.current, done)


def _vanish(session: Session) -> None:
    """Nothing is kept of the session but the requests that end it on the server."""
    for stream in list(session.streams.values()):
        clientleg.forget(session, stream)
    if not session.legs:
        session.forget()
    else:
        session.set_timer(Timer.IDLE, 0, session.policy.ping_s)


def idle_due(session: Session) -> None:
    """Forget a session that ended, or that nobody used and that owes nothing."""
    if session.opening is not None:
        opening.give_up(session, session.opening)
        return
    if session.state is not SessionState.ENDED:
        is_used = bool(session.exchanges) or any(
            stream.is_request and not stream.is_over for stream in session.streams.values()
        )
        left = session.touched_at + session.policy.session_idle_s - session.now
        if is_used or left > 0:
            session.set_timer(Timer.IDLE, 0, left if left > 0 else session.policy.session_idle_s)
            return
        leave(session)
        end(session)
        return
    if session.legs:  # requests that wait for what the server says; each has its own time limit
        session.set_timer(Timer.IDLE, 0, session.policy.ping_s)
        return
    for stream in list(session.streams.values()):
        clientleg.forget(session, stream)
    session.forget()
