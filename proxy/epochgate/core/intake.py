"""The client's requests, by the state of the session (`states.INTAKE`).

Requests wait for a heal's commit; answers, cancels and DELETE never wait (R24). No 5xx inside a session:
a request that must fail gets 200 and a JSON-RPC error, a notification or answer always 202 (W4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import (
    answers,
    classify,
    clientleg,
    heal,
    healing,
    jsonrpc,
    opening,
    questions,
    restarting,
    resuming,
    standalone,
)
from epochgate.core.commands import AbortAnswer, CloseLeg, Dropped, Respond
from epochgate.core.errors import LIMIT_REACHED, SESSION_NOT_RESTORED
from epochgate.core.events import DeleteArrived, GetArrived, PostArrived, RequestHead
from epochgate.core.generation import Generation, Question
from epochgate.core.http import Headers
from epochgate.core.inquiry import Inquiry, Outcome
from epochgate.core.jsonrpc import Kind, Message
from epochgate.core.jsontext import read_string
from epochgate.core.records import CancelRecord, EndRecord, OwedRecord
from epochgate.core.states import INTAKE, ClientAsk, ClientHalf, Does, SessionInput, SessionState, Up, look_up
from epochgate.core.stream import Kind as StreamKind
from epochgate.core.stream import Owed, OwedState, Stream
from epochgate.core.upward import headers_of_post, make_owed

if TYPE_CHECKING:
    from epochgate.core.session import Session

_TEXT: Headers = ((b"Content-Type", b"text/plain; charset=utf-8"),)
_RESTORED = frozenset(("logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tools/call"))
_SESSION_NOT_FOUND = b"session not found"


# --- POST -------------------------------------------------------------------------------------------


def post_arrived(session: Session, event: PostArrived) -> None:
    """A POST of the client: the one that opens the session, or one within it."""
    session.touch()
    body = event.body
    if body is None:
        _forward(session, event, session.current, event.raw)
        return
    requests = body.requests
    if session.state is SessionState.OPENING and session.opening is None and requests:
        opening.begin(session, event, requests[0])
        return
    match look_up(INTAKE, session.state, _ask(body)):
        case Does.NOT_FOUND:
            not_found(session, event.exchange)
        case Does.NOT_YET:
            session.do(Respond(event.exchange, 400, _TEXT, b"the session is still being opened"))
        case Does.ACCEPT:
            _note_notifications(session, event, body.messages)
            session.do(Respond(event.exchange, 202, (), b""))
        case Does.ROUTE:
            _route_answers(session, event, body.messages)
        case Does.REOPEN:
            _refuse_reopening(session, event, requests)
        case Does.WAIT | Does.HEAL_AND_WAIT:
            _take_request(session, event, is_waiting=True)
        case Does.SEND if requests:
            _take_request(session, event, is_waiting=False)
        case _:
            _take_notification(session, event, body.messages)


def _ask(body: jsonrpc.Body) -> ClientAsk:
    if any(message.method == "initialize" for message in body.requests):
        return ClientAsk.INITIALIZE
    if body.requests:
        return ClientAsk.REQUEST
    if any(message.kind is Kind.NOTIFICATION for message in body.messages):
        return ClientAsk.NOTIFICATION
    return ClientAsk.ANSWER


def not_found(session: Session, exchange: int) -> None:
    """The session is over: plain text, since a JSON-RPC body would keep it alive in Go (W4)."""
    session.do(Respond(exchange, 404, _TEXT, _SESSION_NOT_FOUND))


def _refuse_reopening(session: Session, event: PostArrived, requests: tuple[Message, ...]) -> None:
    """`initialize` within a session: start anew without the id instead."""
    text = "epochgate: this session is initialized; send initialize without Mcp-Session-Id to open another"
    data = {"reason": "already_initialized", "method": "initialize", "generation": session.current.number}
    error = jsonrpc.error_response(requests[0].id or b"null", -32600, text, data)
    session.do(Respond(event.exchange, 200, clientleg.JSON_HEADERS, error))


# --- requests ---------------------------------------------------------------------------------------


def _take_request(session: Session, event: PostArrived, *, is_waiting: bool) -> None:
    assert event.body is not None
    if session.running >= session.policy.max_streams:
        _answer_limit(session, event)
        return
    stream = session.new_stream(StreamKind.REQUEST, event.head)
    stream.exchange = event.exchange
    session.exchanges[event.exchange] = stream
    stream.body = event.body
    stream.owed = make_owed(session, stream, event.body.requests)
    _note_requests(session, event.head, event.body.requests)
    ids = tuple(owed.id for owed in stream.owed)
    record = OwedRecord(session.visible_id, stream.handle, session.current.number, ids, event.raw)
    session.persist(record, lambda: _begin(session, stream, is_waiting=is_waiting))


def _begin(session: Session, stream: Stream, *, is_waiting: bool) -> None:
    """What is owed is durable: send it, or wait for a heal (R16, R24)."""
    if stream.up is not Up.WAITING:
        return
    stream.is_durable = True
    if session.state is SessionState.LIVE:
        if stream.generation is session.current:
            answers.send_post(session, stream)
        else:
            healing.release(session, stream)
        return
    if session.state not in (SessionState.HEALING, SessionState.PARKED):
        clientleg.fail(session, stream, SESSION_NOT_RESTORED, "session_lost")
        return
    restarting.wait(session, stream)
    if session.state is SessionState.PARKED:
        head = stream.head if stream.head.fingerprint in session.accepted else session.last_head
        healing.begin(session, heal.trigger_of("session_gone"), head or stream.head)


def _answer_limit(session: Session, event: PostArrived) -> None:
    assert event.body is not None
    text = f"epochgate: {session.policy.max_streams} requests of this session are running already"
    data = {"reason": "max_streams", "generation": session.current.number}
    errors = [
        jsonrpc.error_response(one.id or b"null", LIMIT_REACHED, text, data) for one in event.body.requests
    ]
    body = b"[" + b",".join(errors) + b"]" if event.body.is_batch else errors[0]
    session.do(Respond(event.exchange, 200, clientleg.JSON_HEADERS, body))


def _note_requests(session: Session, head: RequestHead, requests: tuple[Message, ...]) -> None:
    """Remember what a heal has to restore (design, section 8)."""
    for message in requests:
        if message.method not in _RESTORED:
            continue
        params = message.params()
        match message.method:
            case "logging/setLevel":
                session.log_level = read_string(params.get("level")) or session.log_level
            case "resources/subscribe" if (uri := read_string(params.get("uri"))) is not None:
                session.subscriptions[uri] = None
            case "resources/unsubscribe" if (uri := read_string(params.get("uri"))) is not None:
                session.subscriptions.pop(uri, None)
            case "tools/call" if (name := message.tool) in session.policy.replay_tools and name is not None:
                session.prelude.pop(name, None)
                session.prelude[name] = message


# --- notifications and answers ----------------------------------------------------------------------


def _take_notification(session: Session, event: PostArrived, messages: tuple[Message, ...]) -> None:
    _note_notifications(session, event, messages)
    cancel = next((message for message in messages if message.cancels is not None), None)
    if cancel is not None and len(messages) == 1:
        _take_cancel(session, event, cancel)
        return
    progress = messages[0]
    question = session.question_tokens.get(progress.token) if progress.token is not None else None
    if question is not None and len(messages) == 1:
        _send_progress(session, event, progress, question)
        return
    _forward(session, event, session.current, event.raw)


def _note_notifications(session: Session, event: PostArrived, messages: tuple[Message, ...]) -> None:
    for message in messages:
        if message.method == "notifications/initialized":
            session.has_initialized = True
        if session.state is SessionState.LIVE:
            continue
        if message.cancels is not None:
            _cancel(session, message)
        if message.method == "notifications/roots/list_changed":
            session.has_changed_roots = True


def _forward(session: Session, event: PostArrived, generation: Generation, raw: bytes) -> None:
    """Send a POST that owes no answer; the client is told 202 whatever becomes of it (W4)."""

    def forwarded(outcome: Outcome) -> None:
        _forwarded(session, event, generation, outcome)

    inquiry = Inquiry(None, forwarded)
    headers = headers_of_post(event.head, generation)
    leg = session.send(inquiry, b"POST", event.head, headers, raw)
    session.set_timer("inquiry", leg, session.policy.ping_s)


def _forwarded(session: Session, event: PostArrived, generation: Generation, outcome: Outcome) -> None:
    if outcome.is_accepted:
        restarting.accept(session, event.head)
    is_ours = event.head.fingerprint in session.accepted
    is_gone = outcome.status is not None and classify.is_session_gone(
        session.policy, outcome.status, outcome.body
    )
    if outcome.status is not None and (
        outcome.is_unauthorized or (is_gone and not is_ours) or event.body is None
    ):
        headers = clientleg.client_headers(session, outcome.headers)
        session.do(Respond(event.exchange, outcome.status, headers, outcome.body, outcome.reason))
        return
    if is_gone:
        restarting.lose(session, generation, "session_gone", event.head)
    headers = clientleg.client_headers(session, outcome.headers) if outcome.status == 202 else ()
    session.do(Respond(event.exchange, 202, headers, b""))


def _send_progress(session: Session, event: PostArrived, message: Message, question: Question) -> None:
    """Progress on an answer goes to the session that asked, under the token it gave (R19)."""
    if questions.is_void(question):
        session.do(Dropped("stale_answer"))
        session.do(Respond(event.exchange, 202, (), b""))
        return
    is_same = message.token == question.server_token or not message.is_rewritable
    raw = event.raw if is_same else jsonrpc.rewrite(message, token=question.server_token)
    _forward(session, event, question.generation, raw)


def _take_cancel(session: Session, event: PostArrived, message: Message) -> None:
    """Mapped to the newest stamp in flight, remembered, and acknowledged once that is durable (R29)."""
    found = _cancel(session, message)
    if found is None:
        _forward(session, event, session.current, event.raw)
        return
    stream, owed = found
    record = CancelRecord(session.visible_id, stream.handle, owed.id)

    def recorded() -> None:
        was_sent = stream.leg is not None or stream.up in (Up.RETRY, Up.POLL)
        if not was_sent or not message.is_rewritable:
            session.do(Respond(event.exchange, 202, (), b""))
            return
        _forward(session, event, stream.generation, jsonrpc.rewrite(message, cancels=owed.stamp))

    session.persist(record, recorded)


def _cancel(session: Session, message: Message) -> tuple[Stream, Owed] | None:
    """Mark the newest open request of this id as cancelled (R29, R33)."""
    for stream in reversed(session.streams.values()):
        for owed in stream.open_owed:
            if jsonrpc.same_id(owed.id, message.cancels or b""):
                owed.state = OwedState.CANCELLED
                is_idle = stream.leg is None  # nothing of it runs that could still answer
                session.set_timer("cancel", stream.handle, 0.0 if is_idle else session.policy.cancel_grace_s)
                return stream, owed
    return None


def _route_answers(session: Session, event: PostArrived, messages: tuple[Message, ...]) -> None:
    """Answers go to the generation that asked; one to a void question goes no further (R18)."""
    if len(messages) != 1:
        _forward(session, event, session.current, event.raw)
        return
    question = questions.find_asked(session, messages[0])
    if question is None and session.state is SessionState.LIVE and (messages[0].id not in session.questions):
        _forward(session, event, session.current, event.raw)
        return
    if question is None or questions.is_void(question):
        session.do(Dropped("stale_answer"))
        session.do(Respond(event.exchange, 202, (), b""))
        if question is not None and question.stream.is_request:
            questions.close(question)
            restarting.void_question(session, question.stream, is_session_gone=False)
        return
    _send_answer(session, event, messages[0], question)


def _send_answer(session: Session, event: PostArrived, message: Message, question: Question) -> None:
    questions.close(question)
    if question.method in ("elicitation/create", "sampling/createMessage"):
        for owed in question.stream.owed:
            owed.has_answered_question = True
    raw = event.raw if message.id == question.server_id else jsonrpc.rewrite(message, id=question.server_id)

    def sent(outcome: Outcome) -> None:
        if outcome.status is not None and classify.is_session_gone(
            session.policy, outcome.status, outcome.body
        ):
            restarting.void_question(session, question.stream, is_session_gone=True)
        elif outcome.status is None and question.stream.is_request and not question.stream.is_over:
            answers.suspect(session, question.stream)
        headers = clientleg.client_headers(session, outcome.headers) if outcome.status == 202 else ()
        session.do(Respond(event.exchange, 202, headers, b""))

    inquiry = Inquiry(None, sent)
    leg = session.send(inquiry, b"POST", event.head, headers_of_post(event.head, question.generation), raw)
    session.set_timer("inquiry", leg, session.policy.ping_s)


# --- GET --------------------------------------------------------------------------------------------


def get_arrived(session: Session, event: GetArrived) -> None:
    session.touch()
    ask = ClientAsk.GET if event.cursor is None else ClientAsk.RESUME
    match look_up(INTAKE, session.state, ask):
        case Does.NOT_FOUND:
            not_found(session, event.exchange)
        case Does.STREAM:
            resuming.authorise(session, event, lambda: _stream(session, event))
        case _:
            resuming.authorise(session, event, lambda: resuming.resume(session, event))


def _stream(session: Session, event: GetArrived) -> None:
    held = session.standalone
    if held is None:
        standalone.open_for(session, event.exchange, event.head)
    elif held.client is ClientHalf.UNBORN:
        standalone.replace_waiting(session, held, event.exchange, event.head)
    elif (
        held.exchange is not None and session.now - held.last_attached_at < session.policy.takeover_interval_s
    ):
        headers = (*_TEXT, (b"Retry-After", b"5"))
        resuming.respond(session, event.exchange, 409, headers, b"a stream is open already")
    else:
        held.last_attached_at = session.now
        standalone.take_over(session, event.exchange)


# --- DELETE -----------------------------------------------------------------------------------------


def delete_arrived(session: Session, event: DeleteArrived) -> None:
    """DELETE wins over everything (R25)."""
    does = look_up(INTAKE, session.state, ClientAsk.DELETE)
    if does is Does.NOT_FOUND:
        not_found(session, event.exchange)
        return
    if does is Does.CLOSE and event.head.fingerprint in session.accepted:
        session.persist(EndRecord(session.visible_id), lambda: _ended(session, event, 200, ()))
        return

    def deleted(outcome: Outcome) -> None:
        _deleted(session, event, outcome)

    session.open_deletes += 1
    inquiry = Inquiry(None, deleted)
    leg = session.send(inquiry, b"DELETE", event.head, headers_of_post(event.head, session.current), None)
    session.set_timer("inquiry", leg, session.policy.ping_s)


def _deleted(session: Session, event: DeleteArrived, outcome: Outcome) -> None:
    status = outcome.status
    if status is None or status >= 500:
        status = 404  # it cannot be told, and the client is done with it
    if not 200 <= status < 300 and status != 404:
        headers = clientleg.client_headers(session, outcome.headers)
        session.do(Respond(event.exchange, status, headers, outcome.body, outcome.reason))
        session.delete_refused()
        return
    answer = 200 if status == 404 else status
    headers = () if status == 404 else clientleg.client_headers(session, outcome.headers)
    session.persist(EndRecord(session.visible_id), lambda: _ended(session, event, answer, headers))


def _ended(session: Session, event: DeleteArrived, status: int, headers: Headers) -> None:
    session.do(Respond(event.exchange, status, headers, b""))
    end(session)


def end(session: Session) -> None:
    """The session is over: owed requests get their error, every leg is closed."""
    run = session.heal
    if session.state is SessionState.ENDED:
        return
    session.move(SessionInput.ENDED)
    session.heal = None
    if run is not None and run.new is not None and run.new is not session.current:
        restarting.end_upstream(session, run.new)
    for generation in session.generations[:-1]:
        if not generation.is_gone and not generation.is_ended:
            restarting.end_upstream(session, generation)
    for stream in list(session.streams.values()):
        if not stream.is_request:
            if not stream.is_over:
                standalone.close(session, stream)
        elif not stream.is_over:
            clientleg.fail(session, stream, SESSION_NOT_RESTORED, "session_ended")
    session.set_timer("idle", 0, session.policy.retain_s)


def lose_ownership(session: Session) -> None:
    """Another replica owns the session now: nothing more is sent, relayed or answered here (R17).

    Clients are cut, so that they come back to the owner; a session that a heal was making is ended.
    """
    run = session.heal
    if session.state in (SessionState.OPENING, SessionState.ENDED):
        session.forget()
        return
    for leg in list(session.legs):
        clientleg.drop_leg(session, leg, is_answered=False)
    for exchange in (*session.exchanges, *session.asking):
        session.do(AbortAnswer(exchange))
    session.move(SessionInput.ENDED)
    session.heal = None
    session.timers.clear()
    for stream in list(session.streams.values()):
        stream.leg = stream.exchange = None
        stream.journal.clear()
    session.streams.clear()
    session.exchanges.clear()
    session.asking.clear()
    if run is not None and run.new is not None:
        restarting.end_upstream(session, run.new)
    session.set_timer("idle", 0, session.policy.retain_s)


def idle_due(session: Session) -> None:
    """Forget a session that ended, or that nobody used and that owes nothing."""
    if session.opening is not None:
        opening.give_up(session, session.opening)
        return
    if session.state is not SessionState.ENDED:
        is_used = bool(session.exchanges) or any(
            stream.is_request and not stream.is_over for stream in session.streams.values()
        )
        if is_used:
            session.touch()
            return
        end(session)
        return
    for leg in list(session.legs):
        session.do(CloseLeg(leg))
    session.legs.clear()
    for stream in list(session.streams.values()):
        clientleg.forget(session, stream)
    session.forget()
