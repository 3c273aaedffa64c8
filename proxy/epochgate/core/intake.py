"""The client's requests, by the state of the session (`states.INTAKE`).

Requests wait for a heal's commit; answers, cancels and DELETE never wait (R24). No 5xx inside a session:
a request that must fail gets 200 and a JSON-RPC error, a notification or answer always 202 (W4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import (
    delivery,
    forwarding,
    heal,
    healing,
    http,
    jsonrpc,
    opening,
    reopening,
    restarting,
    resuming,
    sending,
    standalone,
)
from epochgate.core.commands import Respond
from epochgate.core.errors import LIMIT_REACHED
from epochgate.core.events import GetArrived, PostArrived
from epochgate.core.jsonrpc import Kind, Message
from epochgate.core.records import OwedRecord
from epochgate.core.states import INTAKE, ClientAsk, ClientHalf, Does, SessionState, Up, look_up
from epochgate.core.stream import Kind as StreamKind
from epochgate.core.stream import Stream
from epochgate.core.upward import make_owed

if TYPE_CHECKING:
    from epochgate.core.session import Session

# --- POST -------------------------------------------------------------------------------------------


def post_arrived(session: Session, event: PostArrived) -> None:
    """A POST of the client: the one that opens the session, or one within it."""
    session.touch()
    body = event.body
    if body is None:
        if look_up(INTAKE, session.state, ClientAsk.REQUEST) is Does.NOT_FOUND:
            delivery.not_found(session, event.exchange)
        else:
            forwarding.forward(session, forwarding.Post(event), session.current, event.raw)
        return
    requests, initialize = body.requests, _find_initialize(body.requests)
    if session.state is SessionState.OPENING and session.opening is None and initialize is not None:
        opening.begin(session, event, initialize)
        return
    match look_up(INTAKE, session.state, _ask(body, initialize)):
        case Does.NOT_FOUND:
            delivery.not_found(session, event.exchange)
        case Does.NOT_YET:
            session.do(
                Respond(event.exchange, 400, delivery.TEXT_HEADERS, b"the session is still being opened")
            )
        case Does.ACCEPT:
            forwarding.acknowledge(session, event, body.messages)
        case Does.ROUTE:
            forwarding.route_answers(session, event, body.messages)
        case Does.REOPEN if initialize is not None:
            reopening.begin(session, event, initialize)
        case Does.WAIT | Does.HEAL_AND_WAIT:
            _take_request(session, event, is_waiting=True)
        case Does.SEND if requests:
            _take_request(session, event, is_waiting=False)
        case _:
            forwarding.take_notifications(session, event, body.messages)


def _find_initialize(requests: tuple[Message, ...]) -> Message | None:
    for message in requests:
        if message.method == "initialize":
            return message
    return None


def _ask(body: jsonrpc.Body, initialize: Message | None) -> ClientAsk:
    if initialize is not None:
        return ClientAsk.INITIALIZE
    if body.requests:
        return ClientAsk.REQUEST
    if any(message.kind is Kind.NOTIFICATION for message in body.messages):
        return ClientAsk.NOTIFICATION
    return ClientAsk.ANSWER


# --- requests ---------------------------------------------------------------------------------------


def _take_request(session: Session, event: PostArrived, *, is_waiting: bool) -> None:
    assert event.body is not None
    if session.running >= session.policy.max_streams:
        _answer_limit(session, event)
        return
    body = forwarding.take_along(session, event) if event.body.is_batch else event.body
    stream = session.new_stream(StreamKind.REQUEST, event.head)
    stream.exchange = event.exchange
    session.exchanges[event.exchange] = stream
    stream.body = body
    stream.owed = make_owed(session, stream, body.requests)
    ids = tuple(owed.id for owed in stream.owed)
    record = OwedRecord(session.visible_id, stream.handle, session.current.number, ids, event.raw)
    session.persist(record, lambda: _begin(session, stream, is_waiting=is_waiting))


def _begin(session: Session, stream: Stream, *, is_waiting: bool) -> None:
    """What is owed is durable: send it, or wait for a heal (R16, R24)."""
    if stream.up is not Up.WAITING:
        return
    stream.is_durable = True
    is_strangers = stream.head.fingerprint not in session.accepted
    if session.state is SessionState.LIVE or (session.state is SessionState.PARKED and is_strangers):
        # A stranger heals nothing; what the server says of the lost session is for it to hear (R32).
        if stream.generation is session.current:
            sending.send_post(session, stream)
        else:
            healing.release(session, stream)
        return
    restarting.wait(session, stream)
    if session.state is SessionState.PARKED:
        healing.begin(session, heal.trigger_of("session_gone"), stream.head)


def _answer_limit(session: Session, event: PostArrived) -> None:
    assert event.body is not None
    text = f"epochgate: {session.policy.max_streams} requests of this session are running already"
    data = {"reason": "max_streams", "generation": session.current.number}
    errors = [
        jsonrpc.error_response(one.id or b"null", LIMIT_REACHED, text, data) for one in event.body.requests
    ]
    body = b"[" + b",".join(errors) + b"]" if event.body.is_batch else errors[0]
    session.do(Respond(event.exchange, 200, delivery.JSON_HEADERS, body))


# --- GET --------------------------------------------------------------------------------------------


def get_arrived(session: Session, event: GetArrived) -> None:
    session.touch()
    ask = ClientAsk.GET if event.cursor is None else ClientAsk.RESUME
    match look_up(INTAKE, session.state, ask):
        case Does.NOT_FOUND:
            delivery.not_found(session, event.exchange)
        case Does.RESOLVE if not http.accepts_events(event.head.headers):
            text = b"what follows a Last-Event-ID is an event stream"
            session.do(Respond(event.exchange, 406, delivery.TEXT_HEADERS, text))
        case _ if event.head.fingerprint not in session.accepted:
            resuming.ask_first(session, event, lambda accepted: get_arrived(session, accepted))
        case Does.STREAM:
            _stream(session, event)
        case _:
            resuming.resume(session, event)


def _stream(session: Session, event: GetArrived) -> None:
    held = session.standalone
    if held is None:
        standalone.open_for(session, event.exchange, event.head)
    elif held.client is ClientHalf.UNBORN:
        standalone.replace_waiting(session, held, event.exchange, event.head)
    elif held.exchange is not None and (_came_too_soon(session, held) or _may_mean_a_request(session)):
        headers = (*delivery.TEXT_HEADERS, (b"Retry-After", b"5"))
        delivery.respond_whole(session, event.exchange, 409, headers, b"a stream is open already")
    else:
        held.last_attached_at = session.now
        standalone.take_over(session, event.exchange)


def _came_too_soon(session: Session, held: Stream) -> bool:
    return session.now - held.last_attached_at < session.policy.takeover_interval_s


def _may_mean_a_request(session: Session) -> bool:
    """Whether a GET without a cursor may be a resume of a request's stream: a client that gets no
    priming has no cursor of a stream that was quiet (R44)."""
    return not delivery.may_prime(session) and any(
        stream.is_request and stream.client is ClientHalf.AWAY for stream in session.streams.values()
    )
