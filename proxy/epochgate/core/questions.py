"""Requests of the server to the client, and the client's answers (R18, R19).

Servers count their ids from 0 in every session, so a healed session asks "0" again. A server's id
is shown to the client as it is while it is free there, else another of the same type stands for it.
Answers go to the generation that asked, whatever the current one is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import jsonrpc
from epochgate.core.generation import Generation, Question
from epochgate.core.jsonrpc import IdType, Message
from epochgate.core.stream import Stream

if TYPE_CHECKING:
    from epochgate.core.session import Session

_MAX_QUESTIONS = 10_000  # closed ones are kept so that a replay is recognised; the oldest go first


def relayed(session: Session, stream: Stream, message: Message) -> bytes:
    """The server's request under an id that is free on the client leg; it is open from now on."""
    assert message.id is not None
    visible = _visible_id(session, message.id)
    session.questions[visible] = Question(stream.generation, stream, message.id, message.method or "")
    stream.generation.asked[message.id] = True
    while len(session.questions) > _MAX_QUESTIONS:
        session.questions.pop(next(iter(session.questions)))
    if visible == message.id:
        return message.raw
    return jsonrpc.rewrite(message, id=visible)


def _visible_id(session: Session, server_id: bytes) -> bytes:
    if server_id not in session.questions:
        return server_id
    while True:
        number = session.entropy(46)
        is_text = jsonrpc.id_type(server_id) is IdType.STR
        visible = b'"eg-%d"' % number if is_text else b"%d" % (number + 2**46)
        if visible not in session.questions:
            return visible


def cancelled(session: Session, stream: Stream, message: Message) -> bytes:
    """The server gives up a question: its id as the client knows it."""
    found = find_visible(session, stream.generation, message.cancels or b"")
    if found is None:
        return message.raw
    visible, question = found
    close(question)
    return message.raw if visible == message.cancels else jsonrpc.rewrite(message, cancels=visible)


def find_visible(session: Session, generation: Generation, server_id: bytes) -> tuple[bytes, Question] | None:
    for visible, question in reversed(session.questions.items()):
        if question.generation is generation and question.server_id == server_id:
            return visible, question
    return None


def find_asked(session: Session, answer: Message) -> Question | None:
    """The open question that the client answers, or None."""
    if answer.id is None:
        return None
    question = session.questions.get(answer.id)
    return question if question is not None and question.is_open else None


def close(question: Question) -> None:
    question.is_open = False
    question.generation.asked[question.server_id] = False


def is_void(question: Question) -> bool:
    """Whether nobody waits for the answer any more: its stream ended or its session is gone (R18)."""
    return question.generation.is_gone or (question.stream.is_request and question.stream.is_over)
