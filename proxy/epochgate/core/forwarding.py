"""POSTs that owe no answer: notifications, cancels, and answers to the server's questions.

They never wait for a heal (R24), and the client is told 202 whatever becomes of them (W4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import (
    breaks,
    classify,
    delivery,
    ending,
    jsonrpc,
    legs,
    questions,
    restarting,
)
from epochgate.core.commands import Dropped, Respond
from epochgate.core.events import PostArrived
from epochgate.core.generation import Generation, Question
from epochgate.core.inquiry import Outcome
from epochgate.core.jsonrpc import Message
from epochgate.core.records import CancelRecord
from epochgate.core.states import SessionState, Up
from epochgate.core.stream import Owed, OwedState, Stream
from epochgate.core.timers import Timer
from epochgate.core.upward import headers_of_post

if TYPE_CHECKING:
    from epochgate.core.session import Session


def take_notification(session: Session, event: PostArrived, messages: tuple[Message, ...]) -> None:
    note_notifications(session, event, messages)
    cancel = next((message for message in messages if message.cancels is not None), None)
    if cancel is not None and len(messages) == 1:
        _take_cancel(session, event, cancel)
        return
    progress = messages[0]
    question = session.question_tokens.get(progress.token) if progress.token is not None else None
    if question is not None and len(messages) == 1:
        _send_progress(session, event, progress, question)
        return
    forward(session, event, session.current, event.raw)


def note_notifications(session: Session, event: PostArrived, messages: tuple[Message, ...]) -> None:
    for message in messages:
        if message.method == "notifications/initialized":
            session.has_initialized = True
        if session.state is SessionState.LIVE:
            continue
        if message.cancels is not None:
            _cancel(session, message)
        if message.method == "notifications/roots/list_changed":
            session.has_changed_roots = True


def forward(session: Session, event: PostArrived, generation: Generation, raw: bytes) -> None:
    """Send a POST that owes no answer; the client is told 202 whatever becomes of it (W4)."""

    def forwarded(outcome: Outcome) -> None:
        _forwarded(session, event, generation, raw, outcome)

    headers = headers_of_post(event.head, generation)
    legs.ask(session, b"POST", event.head, headers, raw, forwarded)


def _forwarded(
    session: Session, event: PostArrived, generation: Generation, raw: bytes, outcome: Outcome
) -> None:
    if outcome.is_accepted:
        restarting.accept(session, event.head)
    is_ours = event.head.fingerprint in session.accepted
    is_gone = outcome.status is not None and classify.is_session_gone(
        session.policy, outcome.status, outcome.body
    )
    if outcome.status is not None and (
        outcome.is_unauthorized or (is_gone and not is_ours) or event.body is None
    ):
        headers = delivery.client_headers(session, outcome.headers)
        session.do(Respond(event.exchange, outcome.status, headers, outcome.body, outcome.reason))
        return
    if is_gone:
        restarting.check_affinity(
            session,
            generation,
            event.head,
            lambda: _forward_again(session, event, generation, raw),
            lambda: restarting.lose(session, generation, "session_gone", event.head),
        )
    headers = delivery.client_headers(session, outcome.headers) if outcome.status == 202 else ()
    session.do(Respond(event.exchange, 202, headers, b""))


def _forward_again(session: Session, event: PostArrived, generation: Generation, raw: bytes) -> None:
    """Another replica answered: once more, whatever comes of it (R26)."""
    headers = headers_of_post(event.head, generation)
    legs.ask(session, b"POST", event.head, headers, raw, ending.nothing)


def _send_progress(session: Session, event: PostArrived, message: Message, question: Question) -> None:
    """Progress on an answer goes to the session that asked, under the token it gave (R19)."""
    if questions.is_void(question):
        session.do(Dropped("stale_answer"))
        session.do(Respond(event.exchange, 202, (), b""))
        return
    is_same = message.token == question.server_token or not message.is_rewritable
    raw = event.raw if is_same else jsonrpc.rewrite(message, token=question.server_token)
    forward(session, event, question.generation, raw)


def _take_cancel(session: Session, event: PostArrived, message: Message) -> None:
    """Mapped to the newest stamp in flight, remembered, and acknowledged once that is durable (R29)."""
    found = _cancel(session, message)
    if found is None:
        forward(session, event, session.current, event.raw)
        return
    stream, owed = found
    record = CancelRecord(session.visible_id, stream.handle, owed.id)

    def recorded() -> None:
        was_sent = stream.leg is not None or stream.up in (Up.RETRY, Up.POLL)
        if not was_sent or not message.is_rewritable:
            session.do(Respond(event.exchange, 202, (), b""))
            return
        forward(session, event, stream.generation, jsonrpc.rewrite(message, cancels=owed.stamp))

    session.persist(record, recorded)


def _cancel(session: Session, message: Message) -> tuple[Stream, Owed] | None:
    """Mark the newest open request of this id as cancelled (R29, R33)."""
    for stream in reversed(session.streams.values()):
        for owed in stream.open_owed:
            if jsonrpc.same_id(owed.id, message.cancels or b""):
                owed.state = OwedState.CANCELLED
                is_idle = stream.leg is None  # nothing of it runs that could still answer
                grace = 0.0 if is_idle else session.policy.cancel_grace_s
                session.set_timer(Timer.CANCEL, stream.handle, grace)
                return stream, owed
    return None


def route_answers(session: Session, event: PostArrived, messages: tuple[Message, ...]) -> None:
    """Answers go to the generation that asked; one to a void question goes no further (R18)."""
    if len(messages) != 1:
        forward(session, event, session.current, event.raw)
        return
    question = questions.find_asked(session, messages[0])
    if question is None and session.state is SessionState.LIVE and (messages[0].id not in session.questions):
        forward(session, event, session.current, event.raw)
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
            breaks.suspect(session, question.stream)
        headers = delivery.client_headers(session, outcome.headers) if outcome.status == 202 else ()
        session.do(Respond(event.exchange, 202, headers, b""))

    headers = headers_of_post(event.head, question.generation)
    legs.ask(session, b"POST", event.head, headers, raw, sent)
