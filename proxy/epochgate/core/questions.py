"""Requests of the server to the client, and the client's answers (R18, R19).

Servers count their ids from 0 in every session, so a healed session asks "0" again. A server's id
is shown to the client as it is while it is free there, else another of the same type stands for it.
Answers go to the generation that asked, whatever the current one is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from epochgate.core import jsonedit, jsonrpc
from epochgate.core.generation import Generation, Question
from epochgate.core.jsonrpc import IdType, Message
from epochgate.core.stream import Stream

if TYPE_CHECKING:
    from epochgate.core.session import Session

_MAX_QUESTIONS = 10_000  # closed ones are kept so that a replay is recognised; the oldest go first


def relayed(session: Session, stream: Stream, message: Message) -> bytes:
    """The server's request under an id that is free on the client leg; it is open from now on."""
    assert message.id is not None
    visible = _free(session, message.id, session.questions)
    question = Question(
        stream.generation, stream, message.id, message.method or "", hash(message.raw), message.token
    )
    session.questions[visible] = question
    stream.generation.asked[message.id] = question
    token = message.token
    if token is not None:
        token = _free(session, token, session.question_tokens)
        session.question_tokens[token] = question
    for table in (session.questions, session.question_tokens, stream.generation.asked):
        while len(table) > _MAX_QUESTIONS:
            table.pop(next(iter(table)))
    if (visible, token) == (message.id, message.token) or not message.is_rewritable:
        return message.raw
    return jsonedit.rewrite(message, id=visible, token=token)


def _free(session: Session, text: bytes, taken: Mapping[bytes, Question]) -> bytes:
    """The JSON text itself while nothing else goes by it on the client leg, else another of its type."""
    if text not in taken:
        return text
    while True:
        number = session.entropy(46)
        is_text = jsonrpc.id_type(text) is IdType.STR
        other = b'"eg-%d"' % number if is_text else b"%d" % (number + 2**46)
        if other not in taken:
            return other


def cancelled(session: Session, stream: Stream, message: Message) -> bytes:
    """The server gives up a question: its id as the client knows it."""
    found = find_visible(session, stream.generation, message.cancels or b"")
    if found is None:
        return message.raw
    visible, question = found
    question.is_open = False
    return message.raw if visible == message.cancels else jsonedit.rewrite(message, cancels=visible)


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


def is_unjudged(session: Session, answer: Message) -> bool:
    """Whether it cannot be said that nobody asked this: it names no question, or one of so many that the
    oldest were forgotten. Any other answer without a question is of another session, where the same id may
    stand for something else (R19)."""
    if answer.id is None or answer.id == b"null":
        return True
    return answer.id not in session.questions and len(session.questions) >= _MAX_QUESTIONS


def give_up(session: Session, stream: Stream) -> list[bytes]:
    """Close what the stream asked and got no answer to; the ids by which the client knows it."""
    given_up = [
        visible
        for visible, question in session.questions.items()
        if question.stream is stream and question.is_open and question.method != "ping"
    ]
    for visible in given_up:
        session.questions[visible].is_open = False
    return given_up


def is_void(question: Question) -> bool:
    """Whether nobody waits for the answer any more: its stream ended, its session is gone, or another
    goes by its id (R18)."""
    generation = question.generation
    if generation.is_gone or generation.is_ended:
        return True
    return question.stream.is_request and question.stream.is_over
