"""The one standalone stream of a session (R12, R21, R35).

It is held while its client is away and taken over by a new GET; never is a second GET sent upstream
beside it. A broken one is reopened with back-off, and what may be missing in between is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import (
    classify,
    clientleg,
    delivery,
    healing,
    http,
    jsonrpc,
    legs,
    restarting,
    silence,
    sse,
)
from epochgate.core.axes import Leg, Shape
from epochgate.core.commands import Counted, EndAnswer
from epochgate.core.events import LegEnd, RequestHead
from epochgate.core.generation import Generation
from epochgate.core.inquiry import Outcome
from epochgate.core.states import ClientHalf, ClientInput, SessionState, Up, UpInput
from epochgate.core.stream import Kind, Stream
from epochgate.core.timers import Timer
from epochgate.core.upward import back_off, headers_of_get
from epochgate.core.verdict import OUTSIDE, SERVER_GONE, Ruling, Scope

if TYPE_CHECKING:
    from epochgate.core.session import Session

_FIRST_BACKOFF_S = 1.0
_LAST_BACKOFF_S = 30.0
_PASSED_ON = (Shape.AUTH, Shape.GONE, Shape.NOT_ALLOWED)  # to a client with a cursor too


def open_for(session: Session, exchange: int, head: RequestHead) -> Stream:
    """A GET without a cursor, and nothing held: ask the server, or answer at once and ask the session
    that a heal makes."""
    stream = session.new_stream(Kind.STANDALONE, head)
    stream.exchange = exchange
    session.exchanges[exchange] = stream
    session.standalone = stream
    if session.state not in (SessionState.HEALING, SessionState.PARKED):
        _send(session, stream)
        return stream
    delivery.open_sse(session, stream, clientleg.sse_headers(session))
    session.move_stream(stream, UpInput.RESTARTED)
    _heal_for(session, stream)
    return stream


def replace_waiting(session: Session, stream: Stream, exchange: int, head: RequestHead) -> None:
    """A second GET before the server answered the first: the newer one waits for it (R35)."""
    headers = (*delivery.TEXT_HEADERS, (b"Retry-After", b"5"))
    older = delivery.release(session, stream)
    text = b"a newer request took this one's place"
    delivery.respond_whole(session, older, 409, headers, text)
    stream.caller = head
    stream.exchange = exchange
    session.exchanges[exchange] = stream


def move_to(session: Session, generation: Generation) -> None:
    """A heal reopens the stream in the new generation; what the old one journalled stays due (R12)."""
    old = session.standalone
    if old is None or old.client is ClientHalf.UNBORN or old.is_over:
        return
    legs.end(session, old)
    _send(session, _follow(session, old, generation))


def move_leg_to(session: Session, generation: Generation) -> None:
    """The leg that was just opened is one of `generation`, which took the id of its session over."""
    old = session.standalone
    assert old is not None
    leg, old.leg = old.leg, None
    assert leg is not None
    new = _follow(session, old, generation)
    session.move_stream(new, UpInput.SENT)
    new.begin_sse()
    new.leg, new.answer = leg, old.answer
    session.legs[leg] = new
    session.move_stream(new, UpInput.STREAM_OPENED)


def _follow(session: Session, old: Stream, generation: Generation) -> Stream:
    """A standalone stream of `generation` in the place of one that has no leg any more."""
    delivery.break_off(session, old)
    new = session.new_stream(Kind.STANDALONE, old.head)
    new.generation = generation
    new.predecessor, old.successor = old, new
    new.client_head = old.client_head
    new.move_client(ClientInput.OPENED)
    if old.exchange is None:
        new.move_client(ClientInput.LEFT)
        session.set_timer(Timer.HOLD, new.handle, session.policy.hold_s)
    else:
        new.exchange = delivery.release(session, old)
        session.exchanges[new.exchange] = new
        old.move_client(ClientInput.FINISHED)
        delivery.watch(session, new)
    if old.up is not Up.VOID:
        session.move_stream(old, UpInput.RESTARTED)
    session.move_stream(old, UpInput.SUPERSEDED)
    delivery.ended_upstream(session, old)
    session.clear_timer(Timer.HOLD, old.handle)
    session.set_timer(Timer.RETAIN, old.handle, session.policy.hold_s)
    session.standalone = new
    if old.generation.is_gone:
        delivery.tell_given_up(session, old, new)
    return new


def _send(session: Session, stream: Stream) -> None:
    session.move_stream(stream, UpInput.SENT)
    stream.answer = None
    stream.leg_kind = Leg.UNBROKEN
    stream.header_epoch = None
    stream.begin_sse()
    headers = headers_of_get(stream.caller, stream.generation, None)
    stream.leg = legs.send(session, stream, b"GET", stream.head, headers, None)


def reopen(session: Session, stream: Stream) -> None:
    """The back-off is over; reopen in the same generation unless a heal has taken it along."""
    if stream.up is Up.VOID and stream is session.standalone and not stream.generation.is_gone:
        stream.is_reopened = True
        _send(session, stream)


def voided(session: Session, stream: Stream, ruling: Ruling) -> None:
    """The stream was restarted: a lost session heals when somebody waits, else it is reopened."""
    if ruling.scope is Scope.SESSION:
        restarting.lose(session, stream.generation, ruling.reason, stream.head)
        return
    delay = back_off(_FIRST_BACKOFF_S, _LAST_BACKOFF_S, stream.attempts)
    stream.attempts += 1
    session.set_timer(Timer.REOPEN, stream.handle, delay)


def answered(session: Session, stream: Stream) -> None:
    """The head of the answer to a plain GET."""
    answer = stream.answer
    assert answer is not None
    shape = classify.shape(session.policy, answer.status, answer.headers, b"")
    if answer.status == 200 and http.is_coded(answer.headers):  # nothing in it can be read (W16)
        legs.end(session, stream)
        stream.answer = None
        _not_opened(session, stream, Shape.NOT_ALLOWED)
        return
    if shape is not Shape.SSE or answer.status in classify.NEEDS_BODY:
        return
    answer.is_sse = True
    restarting.accept(session, stream.head)
    session.move_stream(stream, UpInput.STREAM_OPENED)
    if stream.attempts:
        session.do(Counted("standalone_gaps"))  # nothing proves what came in between
    stream.attempts = 0
    if stream.client is ClientHalf.UNBORN:
        headers = delivery.client_headers(session, answer.headers)
        delivery.open_sse(session, stream, headers, answer.reason)


def follow(session: Session, stream: Stream) -> None:
    """Where a heal overtook the GET, the stream moves along; what came with its head was taken (R12)."""
    is_standing = stream is session.standalone and stream.up is Up.OPEN
    has_moved_on = stream.generation.number < session.current.number
    if is_standing and has_moved_on and stream.generation.upstream_id != session.current.upstream_id:
        move_to(session, session.current)


def refused(session: Session, stream: Stream, end: LegEnd) -> None:
    """The GET brought no stream. 405 is an answer, not an error; to a client that waits it passes."""
    answer = stream.answer
    if end is LegEnd.GONE and stream.head.fingerprint in session.accepted:
        _lost(session, stream, SERVER_GONE)
        return
    if answer is None or end not in (LegEnd.CLEAN, LegEnd.CLOSED):
        _not_opened(session, stream, None)
        return
    shape = classify.shape(session.policy, answer.status, answer.headers, answer.body)
    if shape is not Shape.GONE or stream.head.fingerprint not in session.accepted:
        _not_opened(session, stream, shape)
    elif answer.status == 404:
        _lost(session, stream, OUTSIDE["session_gone"])
    else:
        _doubt(session, stream)


def _doubt(session: Session, stream: Stream) -> None:
    """A 400 whose text matches `gone_pattern` may mean the GET alone: servers on the C# SDK take one for the
    life of a session, and say to start a new one. A ping tells; a live session is not given up (R21)."""

    def pinged(outcome: Outcome) -> None:
        if stream.up is not Up.SENT or stream.leg is not None:
            return  # a heal or the session's end took it along
        is_alive = outcome.is_accepted and outcome.message is not None
        if is_alive and not silence.states_other_epoch(session, stream.generation, outcome):
            _not_opened(session, stream, Shape.REFUSED)
        else:
            _lost(session, stream, OUTSIDE["session_gone"])

    legs.ping(session, session.head_for(stream), stream.generation, pinged)


def _lost(session: Session, stream: Stream, ruling: Ruling) -> None:
    is_new = stream.client is ClientHalf.UNBORN
    if is_new and session.state is SessionState.LOST:
        _not_opened(session, stream, Shape.GONE)
        return
    if is_new:  # there is a heal to wait for, and a status line is due
        delivery.open_sse(session, stream, clientleg.sse_headers(session))
    restarting.restart(session, stream, ruling, [])


def _not_opened(session: Session, stream: Stream, shape: Shape | None) -> None:
    """The server gave no stream. A client with a cursor gets 200 all the same and a later try (R13), unless
    the server does not know the session or the caller, or offers no stream at all."""
    if stream.client is ClientHalf.UNBORN:
        if not stream.is_reopened or shape in _PASSED_ON:
            _pass_refusal(session, stream)
            return
        delivery.open_sse(session, stream, clientleg.sse_headers(session))
    if shape is Shape.NOT_ALLOWED:
        close(session, stream)
        return
    session.move_stream(stream, UpInput.RESTARTED)
    voided(session, stream, OUTSIDE["upstream_lost"])


def _pass_refusal(session: Session, stream: Stream) -> None:
    answer = stream.answer
    session.standalone = None
    session.move_stream(stream, UpInput.FAILED)
    if answer is None:
        # A client that gets 405 goes on without the stream; no 5xx inside a session (W4).
        delivery.respond(session, stream, 405, ((b"Allow", b"POST, DELETE"),), b"")
    else:
        headers = delivery.client_headers(session, http.without(answer.headers, (http.SESSION_ID,)))
        delivery.respond(session, stream, answer.status, headers, answer.body, answer.reason)
    clientleg.forget(session, stream)


def close(session: Session, stream: Stream) -> None:
    """The server offers the stream no longer: the client's leg ends with the final chunk (W8). What the
    client may lack of it is kept for its return with a cursor (G5)."""
    legs.end(session, stream)
    delivery.break_off(session, stream)
    delivery.ended_upstream(session, stream)
    session.move_stream(stream, UpInput.FAILED)
    if stream.client is ClientHalf.UNBORN:
        delivery.respond(session, stream, 404, delivery.TEXT_HEADERS, b"session not found")
    elif stream.exchange is not None:
        session.do(EndAnswer(delivery.release(session, stream)))
        stream.move_client(ClientInput.FINISHED)
        session.set_timer(Timer.RETAIN, stream.handle, session.policy.retain_s)
    session.standalone = None
    if not stream.has_id:
        clientleg.forget(session, stream)


def is_read(stream: Stream, position: int) -> bool:
    """Whether a stream that was closed has nothing behind `position`, nor has what followed it."""
    following = stream.successor
    while following is not None:
        if following.journal.after(-1):
            return False
        following = following.successor
    return stream.newest().is_over and not stream.journal.after(position)


def take_over(session: Session, exchange: int) -> None:
    """A new GET for the stream that is held: what no leg was given first, then live (R12, R35)."""
    stream = session.standalone
    assert stream is not None
    before: list[bytes] = []
    older = stream.predecessor
    while older is not None:
        before = _without_questions(older.journal.after(older.journal.written_to - 1)) + before
        older.journal.written_to = older.numbering.next_position
        older = older.predecessor
    clientleg.attach(session, stream, exchange, stream.journal.written_to - 1, before=b"".join(before))
    _heal_for(session, stream)


def _heal_for(session: Session, stream: Stream) -> None:
    """Somebody listens again on a stream whose session was lost while nobody did (R27)."""
    if stream.up is Up.VOID and session.state is SessionState.PARKED:
        healing.begin(session, "session_gone", session.head_for(stream))


def attach(session: Session, stream: Stream, exchange: int, position: int) -> None:
    """A cursor of the standalone stream: the rest of the old journals, then the newest stream."""
    newest = stream.newest()
    if newest is stream:
        clientleg.attach(session, stream, exchange, position)
        _heal_for(session, newest)
        return
    rest = _without_questions(stream.journal.after(position))
    between = stream.successor
    while between is not None and between is not newest:
        rest += _without_questions(between.journal.after(-1))
        between = between.successor
    clientleg.attach(session, newest, exchange, -1, before=b"".join(rest))
    _heal_for(session, newest)


def _without_questions(blocks: list[bytes]) -> list[bytes]:
    """Events of a dead generation less its questions, whose answers could go nowhere (R12)."""
    return [
        raw
        for block in blocks
        for raw in (sse.split(block) if b'"id"' in block else [block])
        if jsonrpc.read_message(sse.parse(raw).data or b"").kind is not jsonrpc.Kind.REQUEST
    ]
