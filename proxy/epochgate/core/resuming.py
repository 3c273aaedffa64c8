"""A client that comes back with a cursor: whose it is, where it leads, what is replayed (R11-R15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from epochgate.core import (
    classify,
    clientleg,
    cursor,
    delivery,
    drifting,
    jsonrpc,
    legs,
    restarting,
    sending,
    silence,
    sse,
    standalone,
)
from epochgate.core.axes import CursorEvidence, Half, Names, Position
from epochgate.core.commands import AbortAnswer, Counted, Judged, OpenAnswer, Respond, Write
from epochgate.core.events import GetArrived
from epochgate.core.inquiry import Outcome
from epochgate.core.jsonrpc import Kind
from epochgate.core.states import ClientHalf, Up
from epochgate.core.stream import Stream, Tombstone
from epochgate.core.timers import Timer
from epochgate.core.verdict import Verdict, judge

if TYPE_CHECKING:
    from epochgate.core.session import Session


def ask_first(session: Session, event: GetArrived, then: Callable[[GetArrived], None]) -> None:
    """Do `then` once the upstream has accepted this caller in this session (R32); with it what else of
    this caller waits, in the order in which it came, so that the newest wins (R35).

    The client waits for its status line at most `ASK_S`; after that it has a stream, and on it nothing
    until it is accepted.
    """
    session.asking[event.exchange] = event
    asked_in = session.current

    def asked(outcome: Outcome) -> None:
        session.clear_timer(Timer.ASK, event.exchange)
        if event.exchange not in session.asking:
            return  # the client left meanwhile, or was accepted
        if _is_acceptance(session, outcome):
            restarting.accept(session, event.head)
            drifting.note(session, asked_in, *silence.stated_by(session, outcome))
            for waiting in list(session.asking.values()):
                if waiting.head.fingerprint == event.head.fingerprint:
                    session.clear_timer(Timer.ASK, waiting.exchange)
                    del session.asking[waiting.exchange]
                    then(waiting)
        else:
            del session.asking[event.exchange]
            _refuse(session, event, outcome)

    session.set_timer(Timer.ASK, event.exchange, ASK_S)
    legs.ping(session, event.head, asked_in, asked)


_NOTICE = b'"logger":"epochgate"'
ASK_S = 1.5  # clients give a resume little more than two seconds


def _is_acceptance(session: Session, outcome: Outcome) -> bool:
    """A server that does not know the session may not have looked at who asks, whatever its status."""
    status = outcome.status
    if status is None or classify.is_session_gone(session.policy, status, outcome.body):
        return False
    return outcome.is_accepted or (outcome.message is not None and status not in (401, 403, 404))


def ask_overdue(session: Session, exchange: int) -> None:
    """The server is silent: the client gets its stream, primed with the cursor that it has (R10)."""
    event = session.asking.get(exchange)
    if event is None:
        return
    session.opened[exchange] = None
    session.do(
        OpenAnswer(exchange, 200, clientleg.sse_headers(session), probe=delivery.keepalive(event.head))
    )
    place = cursor.read(event.cursor or b"")
    is_primed = place is not None and delivery.may_prime(session)
    session.do(Write(exchange, sse.priming(cursor.mint(*place)) if is_primed and place else b""))


def _refuse(session: Session, event: GetArrived, outcome: Outcome) -> None:
    if event.exchange in session.opened:
        del session.opened[event.exchange]
        session.do(AbortAnswer(event.exchange))  # an end would look like the stream's own
        return
    if outcome.status is None:
        session.do(
            Respond(
                event.exchange,
                403,
                delivery.TEXT_HEADERS,
                b"the server cannot be asked about these credentials",
            )
        )
        return
    headers = delivery.client_headers(session, outcome.headers)
    session.do(Respond(event.exchange, outcome.status, headers, outcome.body, outcome.reason))


def resume(session: Session, event: GetArrived) -> None:
    """Resolve the cursor and act on the verdict (W3)."""
    found = _find(session, event.cursor or b"")
    ruling = judge(found.evidence)
    kind = "standalone" if found.evidence.names is Names.STANDALONE else "request"
    verdict = "resume" if ruling.verdict is Verdict.RELAY else ruling.verdict.value
    session.do(Judged("client", kind, verdict, ruling.reason, event.exchange))
    match ruling.verdict:
        case Verdict.RELAY if found.stream is not None:
            _replay(session, event, found.stream, found.position)
        case Verdict.RELAY:
            _reopen_forgotten(session, event)
        case Verdict.FAIL:
            clientleg.error_stream(session, event.exchange, found.missing)
        case Verdict.END:
            _refuse_finished(session, event)
        case _:
            session.do(Counted("unknown_cursors"))
            text = b"this Last-Event-ID names no stream of this session"
            delivery.respond_whole(session, event.exchange, 400, delivery.TEXT_HEADERS, text)


class _Found:
    """What a cursor leads to; `missing`: the ids whose answers are no longer kept."""

    __slots__ = ("evidence", "missing", "position", "stream")

    def __init__(
        self,
        evidence: CursorEvidence,
        stream: Stream | None = None,
        position: int = -1,
        missing: tuple[bytes, ...] = (),
    ) -> None:
        self.evidence = evidence
        self.stream = stream
        self.position = position
        self.missing = missing


def _find(session: Session, text: bytes) -> _Found:
    place = cursor.read(text)
    nothing = _Found(CursorEvidence(Names.NOTHING, Position.EARLIER, Half.RUNNING))
    if place is None:
        return nothing
    block, within = place
    stone = session.tombstones.get(block)
    if stone is not None:
        return _find_stone(stone, cursor.mint(block, within), stone.first + within)
    stream = session.block_owners.get(block)
    if stream is None:
        return nothing
    position = stream.numbering.position_of(block, within)
    if position is None and stream.is_over and stream.successor is None:
        return nothing  # never given out
    return _find_in(stream, position)


def _find_stone(stone: Tombstone, value: int, position: int) -> _Found:
    if stone.is_standalone:
        return _Found(CursorEvidence(Names.STANDALONE, Position.EARLIER, Half.RUNNING))
    missing = stone.missing_behind(position)
    if value == stone.last_cursor or not missing:
        return _Found(CursorEvidence(Names.REQUEST, Position.LAST, Half.FINISHED))
    return _Found(CursorEvidence(Names.TOMBSTONE, Position.EARLIER, Half.FINISHED), missing=missing)


def _find_in(stream: Stream, position: int | None) -> _Found:
    """`position` is None beyond what was given out: of a run that is not remembered (R16)."""
    next_position = stream.numbering.next_position
    half = Half.FINISHED if stream.is_over else Half.RUNNING
    if stream.successor is not None:
        half = Half.SUPERSEDED
    if position is None:
        position, where = next_position - 1, Position.BEYOND
    elif position + 1 < stream.journal.evicted_to:
        where = Position.EVICTED
    else:
        where = Position.LAST if position == next_position - 1 else Position.EARLIER
    names = Names.REQUEST if stream.is_request else Names.STANDALONE
    missing = Tombstone(stream.answers, -1, is_standalone=False).missing_behind(position)
    return _Found(CursorEvidence(names, where, half), stream, position, missing)


def _replay(session: Session, event: GetArrived, stream: Stream, position: int) -> None:
    if not stream.is_request:
        if standalone.is_read(stream, position):
            clientleg.forget(session, stream.newest())
            _reopen_forgotten(session, event)
            return
        if stream.journal.evicted_to > position + 1:
            session.do(Counted("standalone_gaps"))
        standalone.attach(session, stream, event.exchange, position)
        return
    newest = stream.newest()
    before = _still_valid(stream, newest, position)
    if newest is not stream:
        position = -1
    newest.caller = event.head
    if newest.up is Up.VOID:
        # What the client did not read of a dead run stays unread (G1).
        newest.journal.written_to = min(newest.journal.written_to, position + 1)
        clientleg.attach_void(session, newest, event.exchange, position, before)
        restarting.attend(session, newest)
        return
    clientleg.attach(session, newest, event.exchange, position, before)
    sending.resume_with_caller(session, newest)


def _still_valid(stream: Stream, newest: Stream, position: int) -> bytes:
    """What of the dead runs behind `position` still holds: answers of a batch, which are not given again
    (R41), and the notice, unless the newest run has one of its own: nothing of it may come before (R5)."""
    blocks: list[bytes] = []
    while stream is not newest or stream.up is Up.VOID:
        blocks += stream.journal.after(position)
        position = -1
        if stream.successor is None:
            break
        stream = stream.successor
    events = [raw for block in blocks for raw in sse.split(block)]
    has_notice = any(_NOTICE in block for block in newest.journal.after(-1))
    notices = [] if has_notice else [raw for raw in events if _NOTICE in raw]
    return b"".join([raw for raw in events if _is_answer(raw)] + notices[-1:])


def _is_answer(raw: bytes) -> bool:
    body = jsonrpc.read_body(sse.parse(raw).data or b"")
    return body is not None and any(one.kind in (Kind.RESULT, Kind.ERROR) for one in body.messages)


def _reopen_forgotten(session: Session, event: GetArrived) -> None:
    """A cursor of a standalone stream that was given up: always 200, the gap counted (R13). Of what
    followed it this client has read nothing."""
    session.do(Counted("standalone_gaps"))
    held = session.standalone
    if held is None:
        standalone.open_for(session, event.exchange, event.head).is_reopened = True
    elif held.client is ClientHalf.UNBORN:
        standalone.replace_waiting(session, held, event.exchange, event.head)
        held.is_reopened = True
    else:
        oldest = held
        while oldest.predecessor is not None:
            oldest = oldest.predecessor
        standalone.attach(session, oldest, event.exchange, -1)


def _refuse_finished(session: Session, event: GetArrived) -> None:
    """At the last event of a finished stream: nothing follows (R14). A client whose standalone leg is
    gone meant that one (W3: Kotlin ends its own GET when it resumes)."""
    held = session.standalone
    if held is not None and held.client is ClientHalf.AWAY:
        standalone.take_over(session, event.exchange)
        return
    headers = (*delivery.TEXT_HEADERS, (b"Allow", b"POST, DELETE"))
    delivery.respond_whole(session, event.exchange, 405, headers, b"this stream is finished")
