"""The client's `initialize`: whether there is a session at all is known only from its answer (R45).

The request goes up as it is, unstamped. An answer with a session id begins generation 1 and is relayed
once the record is durable; any other answer passes, and the exchange is no session's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epochgate.core import delivery, epoch, heal, http, jsonrpc, legs, relaying, reopening, restarting, sse
from epochgate.core.commands import (
    AbortAnswer,
    EndAnswer,
    OpenAnswer,
    Register,
    Respond,
    UpstreamFailed,
    Write,
)
from epochgate.core.epoch import Epoch
from epochgate.core.errors import SESSION_NOT_RESTORED
from epochgate.core.events import LegEnd, PostArrived
from epochgate.core.http import Headers
from epochgate.core.jsonrpc import Kind, Message
from epochgate.core.jsontext import read_string
from epochgate.core.states import SessionInput
from epochgate.core.timers import Timer
from epochgate.core.values import Value

if TYPE_CHECKING:
    from epochgate.core.session import Session


@dataclass(slots=True)
class Opening:
    """The exchange that may begin a session; `is_repeated`: within a session that is there already."""

    exchange: int
    post: PostArrived
    request: Message
    leg: int = 0
    status: int = 0
    reason: bytes | None = None
    headers: Headers = ()
    framer: sse.Framer | None = None
    chunks: list[bytes] = field(default_factory=list)
    size: int = 0
    is_passing: bool = False
    has_client: bool = True
    is_repeated: bool = False
    begun: Begun | None = None  # by an answer that came during a heal, whose end it waits for

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)


class Begun(Value, frozen=True):
    """What an answer begins: a session of the server's, with what it said of itself and its epoch."""

    upstream_id: bytes
    result_raw: bytes
    epoch: Epoch


def begin(session: Session, post: PostArrived, request: Message) -> None:
    """Send the client's `initialize` up, byte for byte."""
    session.target = post.head.target
    attempt = Opening(post.exchange, post, request)
    session.opening = attempt
    headers = http.with_value(post.head.headers, b"Accept-Encoding", b"identity")
    attempt.leg = legs.send(session, attempt, b"POST", post.head, headers, post.raw)


def find(session: Session, exchange: int) -> Opening | None:
    """The `initialize` of this exchange that waits or is under way."""
    for attempt in (*session.reopenings, *session.legs.values()):
        if isinstance(attempt, Opening) and attempt.exchange == exchange:
            return attempt
    return None


def answered(
    _session: Session, attempt: Opening, status: int, headers: Headers, reason: bytes | None = None
) -> None:
    """The head of the answer; its body decides what it is."""
    attempt.status = status
    attempt.reason = reason
    attempt.headers = headers
    if http.media_type(headers) == b"text/event-stream":
        attempt.framer = sse.Framer()


def read(session: Session, attempt: Opening, data: bytes) -> None:
    """Keep the answer until it is whole: the epoch in it must be known before it is relayed."""
    if attempt.is_passing:
        session.do(Write(attempt.exchange, data))
        return
    attempt.chunks.append(data)
    attempt.size += len(data)
    if attempt.framer is not None:
        for raw in sse.split(attempt.framer.feed(data)):
            event = sse.parse(raw)
            message = jsonrpc.read_message(event.data) if event.is_message and event.data else None
            if message is not None and _is_answer(attempt, message):
                legs.drop(session, attempt.leg, is_answered=True)
                _settle(session, attempt, message)
                return
    if attempt.size > session.policy.max_event_bytes:
        _pass_on(session, attempt)


def _is_answer(attempt: Opening, message: Message) -> bool:
    return (
        message.is_response
        and message.id is not None
        and jsonrpc.same_id(message.id, attempt.request.id or b"")
    )


def _pass_on(session: Session, attempt: Opening) -> None:
    """Larger than any result of `initialize`: it passes, and there is no session to guard."""
    attempt.is_passing = True
    session.do(OpenAnswer(attempt.exchange, attempt.status, attempt.headers))
    session.do(Write(attempt.exchange, attempt.body))


def ended(session: Session, attempt: Opening, end: LegEnd) -> None:
    """The upstream exchange is over without more of an answer."""
    if attempt.is_passing:
        session.do(EndAnswer(attempt.exchange) if end is LegEnd.CLEAN else AbortAnswer(attempt.exchange))
        _drop(session, attempt)
        return
    message = jsonrpc.read_message(attempt.body)
    is_whole = end is LegEnd.CLEAN or (end is LegEnd.CLOSED and _stands_by_itself(attempt, message))
    if not is_whole or not attempt.status:
        is_unsent = end in (LegEnd.NOT_SENT, LegEnd.GONE)
        session.do(UpstreamFailed("connect" if is_unsent else "reset"))
        answer_error(session, attempt, "upstream_unreachable" if is_unsent else "upstream_lost")
        return
    _settle(session, attempt, message if _is_answer(attempt, message) else None)


def _stands_by_itself(attempt: Opening, message: Message) -> bool:
    """A body delimited by the connection's end is whole if it is JSON, or only explains a refusal."""
    return message.kind is not Kind.INVALID or not 200 <= attempt.status < 300


def give_up(session: Session, attempt: Opening, reason: str = "upstream_silent") -> None:
    """The server has said nothing for as long as a session may be idle, or there is no time left."""
    legs.drop(session, attempt.leg, is_answered=False)
    if attempt.is_passing:
        session.do(AbortAnswer(attempt.exchange))
        _drop(session, attempt)
        return
    answer_error(session, attempt, reason)


def answer_error(session: Session, attempt: Opening, reason: str) -> None:
    """200 and a JSON-RPC error: some clients lose everything on a 5xx (W4)."""
    text = f"epochgate: the server could not be reached ({reason})"
    data = {"reason": reason, "method": "initialize", "generation": 0}
    body = jsonrpc.error_response(attempt.request.id or b"null", SESSION_NOT_RESTORED, text, data)
    session.do(Respond(attempt.exchange, 200, delivery.JSON_HEADERS, body))
    _drop(session, attempt)


def _settle(session: Session, attempt: Opening, message: Message | None) -> None:
    begun = None if message is None else _read(session, attempt, message)
    if attempt.is_repeated:
        reopening.settled(session, attempt, begun)
    elif begun is None:
        session.do(Respond(attempt.exchange, attempt.status, attempt.headers, attempt.body, attempt.reason))
        _drop(session, attempt)
    else:
        record(session, attempt, begun)
        begin_session(session, attempt, begun)


def _read(session: Session, attempt: Opening, message: Message) -> Begun | None:
    upstream_id = http.find(attempt.headers, http.SESSION_ID)
    result_raw = jsonrpc.member(message.raw, "result")
    result = None if result_raw is None else heal.read_initialize_result(result_raw)
    if not 200 <= attempt.status < 300 or upstream_id is None or result is None or result_raw is None:
        return None
    stated = epoch.Epoch(
        epoch.stated_in(message.raw, session.policy.epoch_keys),
        epoch.stated_in_headers(attempt.headers, session.policy.epoch_header),
    )
    return Begun(upstream_id, result_raw, stated)


def record(session: Session, attempt: Opening, begun: Begun) -> None:
    """Keep what was negotiated: heals repeat it and compare with it."""
    session.initialize = attempt.request
    session.target = attempt.post.head.target
    session.client_version = read_string(attempt.request.params().get("protocolVersion")) or ""
    session.initialize_result_raw = begun.result_raw


def begin_session(session: Session, attempt: Opening, begun: Begun) -> None:
    """Generation 1; the client is told once that is durable."""
    session.add_generation(begun.upstream_id, begun.epoch)
    session.visible_id = begun.upstream_id
    if session.is_taken is not None and session.is_taken(begun.upstream_id):
        session.visible_id = b"eg%032x" % session.entropy(128)  # a healed session is known by it still (R42)
    session.persist_session(lambda: _relay(session, attempt))


def _relay(session: Session, attempt: Opening) -> None:
    """The record is durable: the session exists, and its client may know."""
    session.move(SessionInput.OPENED)
    session.opening = None
    restarting.accept(session, attempt.post.head)
    session.do(Register(session.visible_id))
    session.touch()
    answer(session, attempt)


def answer(session: Session, attempt: Opening) -> None:
    """Give the client the answer, under the session id that it knows."""
    if not attempt.has_client:
        return  # the idle limit will end the session
    headers = delivery.client_headers(session, attempt.headers)
    if attempt.framer is None:
        body = attempt.body
        if session.policy.advertise_epoch:
            body = relaying.advertised(session, body)
        session.do(Respond(attempt.exchange, attempt.status, headers, body, attempt.reason))
        return
    session.do(OpenAnswer(attempt.exchange, attempt.status, delivery.streamed(headers), attempt.reason))
    session.do(EndAnswer(attempt.exchange, _events(session, attempt.body)))


def _events(session: Session, body: bytes) -> bytes:
    """The events of the answer less the upstream's ids and priming: none leads anywhere (R10)."""
    kept: list[bytes] = []
    for raw in sse.split(sse.Framer().feed(body)):
        event = sse.parse(raw)
        if event.is_message and event.data is not None:
            is_result = session.policy.advertise_epoch and b'"protocolVersion"' in event.data
            data = relaying.advertised(session, event.data) if is_result else event.data
            kept.append(sse.without_fields(sse.with_data(event, data), (b"id",)))
    return b"".join(kept)


def _drop(session: Session, attempt: Opening) -> None:
    """The exchange began nothing; nor is anything left of a session that it was to begin."""
    if attempt.is_repeated:
        session.clear_timer(Timer.NEGOTIATE, attempt.exchange)
        return
    session.opening = None
    session.move(SessionInput.NOT_OPENED)
    session.forget()
