"""POSTs that owe no answer: notifications, cancels, and answers to the server's questions.

They never wait for a heal (R24), and the client is told 202 whatever becomes of them (W4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochgate.core import (
    breaks,
    classify,
    delivery,
    drifting,
    ending,
    jsonedit,
    jsonrpc,
    legs,
    questions,
    reissuing,
    restarting,
    silence,
)
from epochgate.core.commands import Dropped, Respond, UpstreamFailed
from epochgate.core.events import LegEnd, PostArrived
from epochgate.core.generation import Generation, Question
from epochgate.core.http import Headers
from epochgate.core.inquiry import Outcome
from epochgate.core.jsonrpc import Body, Message
from epochgate.core.records import CancelRecord
from epochgate.core.states import SessionState, Up
from epochgate.core.stream import Owed, OwedState, Stream
from epochgate.core.timers import Timer
from epochgate.core.upward import headers_of_post, rest_of_body

if TYPE_CHECKING:
    from epochgate.core.session import Session

_ROOTS_CHANGED = "notifications/roots/list_changed"
_FAILURES = {LegEnd.NOT_SENT: "connect", LegEnd.GONE: "connect", LegEnd.SILENT: "headers_timeout"}


@dataclass(slots=True)
class Post:
    """A POST that owes no answer. It is acknowledged when each of its messages was dealt with; what
    the server refuses is passed on at once."""

    event: PostArrived
    left: int = 1
    is_answered: bool = False

    def answer(
        self,
        session: Session,
        status: int = 202,
        headers: Headers = (),
        body: bytes = b"",
        reason: bytes | None = None,
    ) -> None:
        self.left -= 1
        if not self.is_answered and (status != 202 or not self.left):
            self.is_answered = True
            session.do(Respond(self.event.exchange, status, headers, body, reason))


def take_notifications(session: Session, event: PostArrived, messages: tuple[Message, ...]) -> None:
    """Notifications of a live session: cancels and progress go to the session that they concern (R29)."""
    note_notifications(session, messages)
    if len(messages) > 1 and not any(message.is_response or message.cancels for message in messages):
        forward(session, Post(event), session.current, event.raw)
        return
    post = Post(event, len(messages))
    for message in messages:
        _take_notification(session, post, message)


def _take_notification(session: Session, post: Post, message: Message) -> None:
    question = session.question_tokens.get(message.token) if message.token is not None else None
    if message.is_response:
        _route_answer(session, post, message)
    elif message.cancels is not None:
        _take_cancel(session, post, message)
    elif question is not None:
        _send_progress(session, post, message, question)
    else:
        forward(session, post, session.current, message.raw)


def acknowledge(session: Session, event: PostArrived, messages: tuple[Message, ...]) -> None:
    """No server session is there to be told; a run that never broke can be cancelled all the same (R24)."""
    note_notifications(session, messages)
    heeded = [message for message in messages if message.is_response or message.cancels is not None]
    post = Post(event, max(len(heeded), 1))
    for message in heeded:
        _take_notification(session, post, message)
    if not heeded:
        post.answer(session)


def take_along(session: Session, event: PostArrived) -> Body:
    """What came in one batch with requests; returns what is to be sent of it.

    Notifications go up with them. The ids in its cancels mean nothing to the server, so that it is told of
    them again (R29); a stranger's count for nothing. Answers go their own way (R18).
    """
    body = event.body
    assert body is not None
    is_ours = event.head.fingerprint in session.accepted
    if is_ours:
        note_notifications(session, body.messages)
    post = Post(event, is_answered=True)
    for message in body.messages:
        if message.is_response:
            _route_answer(session, post, message)
            continue
        found = _cancel(session, message) if is_ours and message.cancels is not None else None
        if found is not None and found[0].leg is not None:
            reissuing.cancel_upstream(session, *found, reason="cancelled")
    if not any(message.is_response for message in body.messages):
        return body
    return rest_of_body(body, tuple(message for message in body.messages if not message.is_response))


def note_notifications(session: Session, messages: tuple[Message, ...]) -> None:
    for message in messages:
        if message.method == "notifications/initialized":
            session.has_initialized = True
        if message.method == _ROOTS_CHANGED and session.state is not SessionState.LIVE:
            session.has_changed_roots = True


def forward(session: Session, post: Post, generation: Generation, raw: bytes) -> None:
    """Send what owes no answer; the client is told 202 whatever becomes of it (W4)."""

    def forwarded(outcome: Outcome) -> None:
        _forwarded(session, post, generation, raw, outcome)

    head = post.event.head
    legs.ask(session, b"POST", head, headers_of_post(head, generation), raw, forwarded)


def _forwarded(session: Session, post: Post, generation: Generation, raw: bytes, outcome: Outcome) -> None:
    head, body = post.event.head, post.event.body
    _count_failure(session, outcome)
    if outcome.is_accepted:
        restarting.accept(session, head)
        drifting.note(session, generation, *silence.stated_by(session, outcome))
    is_ours = head.fingerprint in session.accepted
    is_gone = outcome.status is not None and classify.is_session_gone(
        session.policy, outcome.status, outcome.body
    )
    if outcome.status is not None and (outcome.is_unauthorized or (is_gone and not is_ours) or body is None):
        _refuse(session, post, outcome)
        return
    if is_gone:

        def elsewhere() -> None:
            """Another replica answered: once more, whatever comes of it (R26)."""
            legs.ask(session, b"POST", head, headers_of_post(head, generation), raw, ending.nothing)

        def gone() -> None:
            if body is not None and any(message.method == _ROOTS_CHANGED for message in body.messages):
                session.has_changed_roots = True  # the next session is told (R37)
            restarting.lose(session, generation, "session_gone", head)

        restarting.check_affinity(session, generation, head, elsewhere, gone)
    post.answer(session, headers=_headers_of_202(session, outcome))


def _refuse(session: Session, post: Post, outcome: Outcome) -> None:
    """What the server says of the caller is for it to hear (R32)."""
    assert outcome.status is not None
    headers = delivery.client_headers(session, outcome.headers)
    post.answer(session, outcome.status, headers, outcome.body, outcome.reason)


def _headers_of_202(session: Session, outcome: Outcome) -> Headers:
    return delivery.client_headers(session, outcome.headers) if outcome.status == 202 else ()


def _count_failure(session: Session, outcome: Outcome) -> None:
    """The client is told 202 all the same, so that this alone shows it (R37)."""
    if outcome.status is None:
        session.do(UpstreamFailed(_FAILURES.get(outcome.end, "reset")))


def _send_progress(session: Session, post: Post, message: Message, question: Question) -> None:
    """Progress on an answer goes to the session that asked, under the token it gave (R19)."""
    if questions.is_void(question):
        session.do(Dropped("stale_answer"))
        post.answer(session)
        return
    is_same = message.token == question.server_token or not message.is_rewritable
    raw = message.raw if is_same else jsonedit.rewrite(message, token=question.server_token)
    forward(session, post, question.generation, raw)


def _take_cancel(session: Session, post: Post, message: Message) -> None:
    """Mapped to the newest stamp in flight, remembered, and acknowledged once that is durable (R29).

    Of a caller that the server has not accepted it counts once the server has taken it (R32).
    """
    if post.event.head.fingerprint not in session.accepted:
        _ask_about_cancel(session, post, message)
        return
    found = _cancel(session, message)
    if found is None:
        if session.state is SessionState.LIVE:
            forward(session, post, session.current, message.raw)
        else:
            post.answer(session)
        return
    stream, owed = found
    record = CancelRecord(session.visible_id, stream.handle, owed.id)

    def recorded() -> None:
        was_sent = stream.leg is not None or stream.up in (Up.RETRY, Up.POLL)
        if not was_sent or not message.is_rewritable:
            post.answer(session)
            return
        forward(session, post, stream.generation, jsonedit.rewrite(message, cancels=owed.stamp))

    session.persist(record, recorded)


def _ask_about_cancel(session: Session, post: Post, message: Message) -> None:
    found = _find_open(session, message)
    generation, raw, head = session.current, message.raw, post.event.head
    if found is not None and message.is_rewritable:
        generation, raw = found[0].generation, jsonedit.rewrite(message, cancels=found[1].stamp)

    def asked(outcome: Outcome) -> None:
        cancelled = _cancel(session, message) if outcome.is_accepted else None
        if cancelled is None:
            _forwarded(session, post, generation, raw, outcome)
            return
        record = CancelRecord(session.visible_id, cancelled[0].handle, cancelled[1].id)
        session.persist(record, lambda: _forwarded(session, post, generation, raw, outcome))

    legs.ask(session, b"POST", head, headers_of_post(head, generation), raw, asked)


def _find_open(session: Session, message: Message) -> tuple[Stream, Owed] | None:
    """The newest open request of the id that is cancelled (R33)."""
    for stream in reversed(session.streams.values()):
        for owed in stream.open_owed:
            if jsonrpc.same_id(owed.id, message.cancels or b""):
                return stream, owed
    return None


def _cancel(session: Session, message: Message) -> tuple[Stream, Owed] | None:
    """Mark it as cancelled (R29)."""
    found = _find_open(session, message)
    if found is not None:
        stream, owed = found
        owed.state = OwedState.CANCELLED
        is_idle = stream.leg is None  # nothing of it runs that could still answer
        grace = 0.0 if is_idle else session.policy.cancel_grace_s
        session.set_timer(Timer.CANCEL, stream.handle, grace)
    return found


def route_answers(session: Session, event: PostArrived, messages: tuple[Message, ...]) -> None:
    """Answers go to the generation that asked, each on its own; one to a void question goes no
    further (R18)."""
    post = Post(event, len(messages))
    for message in messages:
        _route_answer(session, post, message)


def _route_answer(session: Session, post: Post, message: Message) -> None:
    question = questions.find_asked(session, message)
    if question is None and session.state is SessionState.LIVE and questions.is_unjudged(session, message):
        forward(session, post, session.current, message.raw)
        return
    if question is None or questions.is_void(question):
        session.do(Dropped("stale_answer"))
        post.answer(session)
        if question is not None and question.stream.is_request:
            question.is_open = False
            restarting.void_question(session, question.stream, is_session_gone=False)
        return
    _send_answer(session, post, message, question)


def _possible_askers(session: Session, question: Question) -> list[Stream]:
    """Whose call may hang on the answer: on the standalone stream a question names none (R28)."""
    if question.stream.is_request:
        return [question.stream]
    return [
        one for one in session.streams.values() if one.generation is question.generation and not one.is_over
    ]


def _send_answer(session: Session, post: Post, message: Message, question: Question) -> None:
    question.is_open = False
    unasked: list[Owed] = []
    if question.method in ("elicitation/create", "sampling/createMessage"):
        for stream in _possible_askers(session, question):
            unasked += [owed for owed in stream.owed if not owed.has_answered_question]
        for owed in unasked:
            owed.has_answered_question = True
    is_same = message.id == question.server_id
    raw = message.raw if is_same else jsonedit.rewrite(message, id=question.server_id)

    def sent(outcome: Outcome) -> None:
        _count_failure(session, outcome)
        if outcome.is_unauthorized:
            _refused_answer(session, post, question, unasked, outcome)
            return
        if outcome.status is not None and classify.is_session_gone(
            session.policy, outcome.status, outcome.body
        ):
            restarting.void_question(session, question.stream, is_session_gone=True)
        elif outcome.is_accepted and drifting.note(
            session, question.generation, *silence.stated_by(session, outcome)
        ):  # another session took the answer: the one that asked will never have it
            restarting.void_question(session, question.stream, is_session_gone=False)
        elif outcome.status is None and question.stream.is_request and not question.stream.is_over:
            breaks.suspect(session, question.stream)
        post.answer(session, headers=_headers_of_202(session, outcome))

    head = post.event.head
    legs.ask(session, b"POST", head, headers_of_post(head, question.generation), raw, sent)


def _refused_answer(
    session: Session, post: Post, question: Question, unasked: list[Owed], outcome: Outcome
) -> None:
    """401 or 403: the server did not take it, and the question waits for the one who may answer."""
    question.is_open = True
    for owed in unasked:
        owed.has_answered_question = False
    _refuse(session, post, outcome)
