"""Requests as they go up: whose headers, which session id, which bytes (design, section 6)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from epochgate.core import http, jsonedit, jsonrpc
from epochgate.core.events import RequestHead
from epochgate.core.generation import Generation, Stamped
from epochgate.core.http import Headers
from epochgate.core.jsonrpc import Body, IdType, Message
from epochgate.core.policy import Stamps
from epochgate.core.stream import Owed, OwedState, Stream

if TYPE_CHECKING:
    from epochgate.core.session import Session

_REPLACED = frozenset((http.SESSION_ID, http.LAST_EVENT_ID, b"accept-encoding"))
_OF_A_BODY = (b"content-type", b"content-encoding", b"content-language", b"content-md5", b"expect")
_DIGESTS = frozenset(
    (
        b"signature",
        b"signature-input",
        b"digest",
        b"content-digest",
        b"content-md5",
        b"content-encoding",
    )
)
_LEAST_INT = 10**13  # a random 14-digit integer: exact in doubles and in 14-digit printers (R36)
_LEAST_INT_31 = 10**9


def back_off(first_s: float, last_s: float, attempts: int) -> float:
    """Seconds to wait after so many failed attempts: doubled each time, up to `last_s`."""
    return min(first_s * 2.0 ** min(attempts, 16), last_s)


def head_of_post(session: Session, stream: Stream) -> RequestHead:
    """The head under which a stream's POST goes up: its own, with its last caller's credentials (R32)."""
    own, caller = stream.head, stream.caller
    if own.fingerprint == caller.fingerprint:
        return own
    names = (b"authorization", b"cookie", *session.policy.credential_headers)
    credentials = tuple(pair for pair in caller.headers if pair[0].lower() in names)
    return RequestHead(caller.target, (*http.without(own.headers, names), *credentials), caller.fingerprint)


def headers_of_post(head: RequestHead, generation: Generation) -> Headers:
    """A client's own POST: its headers under the upstream session id."""
    return _in_session(_passed_on(head.headers), generation)


@lru_cache(maxsize=64)
def _passed_on(headers: Headers) -> Headers:
    """Of a head that comes again and again: what goes up with a POST."""
    return http.without(headers, _REPLACED)


def headers_of_get(head: RequestHead, generation: Generation, last_event_id: bytes | None) -> Headers:
    """A GET for a stream, with the caller's other headers; the cursor is the upstream's own."""
    kept = http.without(head.headers, (*_REPLACED, *_OF_A_BODY, b"accept"))
    headers = (*_in_session(kept, generation), (b"Accept", b"text/event-stream"))
    return headers if last_event_id is None else (*headers, (b"Last-Event-ID", last_event_id))


def headers_of_own_post(head: RequestHead, generation: Generation | None) -> Headers:
    """A request of the proxy's own, in the caller's name; without a generation it opens a session."""
    kept = http.without(head.headers, (*_REPLACED, *_OF_A_BODY, b"accept"))
    own = (
        (b"Accept", b"application/json, text/event-stream"),
        (b"Content-Type", b"application/json"),
    )
    if generation is None:
        return (*kept, (b"Accept-Encoding", b"identity"), *own)
    return (*_in_session(kept, generation), *own)


def _in_session(headers: Headers, generation: Generation) -> Headers:
    if generation.cookies:
        headers = http.with_cookies(headers, generation.cookies)
    return (*headers, (b"Mcp-Session-Id", generation.upstream_id), (b"Accept-Encoding", b"identity"))


def make_owed(session: Session, stream: Stream, messages: tuple[Message, ...]) -> list[Owed]:
    """What a POST's requests are owed, each under stamps of its own in the stream's generation."""
    return [_stamp(session, stream, message) for message in messages]


def stamp_again(session: Session, stream: Stream, owed: Owed) -> Owed:
    """A request that is sent again: new stamps in the new stream's generation, its history kept."""
    again = _stamp(session, stream, owed.message)
    again.has_answered_question = owed.has_answered_question
    again.progress, again.total = owed.progress, owed.total
    return again


def _stamp(session: Session, stream: Stream, message: Message) -> Owed:
    assert message.id is not None
    generation = stream.generation
    is_stamped = _can_be_stamped(session, stream, message)
    if is_stamped:
        stamp = _draw(session, generation, message.id)
        token = None if message.token is None else _draw(session, generation, message.token)
    else:
        stamp, token = message.id, message.token
    owed = Owed(message, stamp, token, is_stamped)
    stamped = Stamped(stream, owed)
    generation.stamps[owed.key] = stamped
    if owed.token_key is not None:
        generation.tokens[owed.token_key] = stamped
    return owed


def _can_be_stamped(session: Session, stream: Stream, message: Message) -> bool:
    if session.policy.stamp is Stamps.OFF or not message.is_rewritable or message.id is None:
        return False
    if not _DIGESTS.isdisjoint(http.fields(stream.head.headers)):
        return False
    if jsonrpc.id_type(message.id) is IdType.OTHER:
        return False
    return message.token is None or jsonrpc.id_type(message.token) is not IdType.OTHER


def _draw(session: Session, generation: Generation, text: bytes) -> bytes:
    """A random value of the same JSON type that stands for nothing else in the generation (R36)."""
    while True:
        if text[:1] == b'"':
            drawn = b'"eg%032x"' % session.entropy(128)
        elif session.policy.stamp is Stamps.INTS_31:
            drawn = b"%d" % (_LEAST_INT_31 + session.entropy(64) % (2**31 - _LEAST_INT_31))
        else:
            drawn = b"%d" % (_LEAST_INT + session.entropy(64) % (9 * _LEAST_INT))
        key = drawn.strip(b'"')
        if key not in generation.stamps and key not in generation.tokens:
            return drawn


def body_of(stream: Stream) -> bytes:
    """The POST's bytes with stamps in the places of ids and tokens."""
    body = stream.body
    assert body is not None
    by_message = {id(owed.message): owed for owed in stream.owed}
    if body.is_batch:  # it goes up without what was cancelled (R29)
        cancelled = {id(owed.message) for owed in stream.owed if owed.state is OwedState.CANCELLED}
        if cancelled:
            body = rest_of_body(body, tuple(one for one in body.messages if id(one) not in cancelled))
    written = [_written(message, by_message.get(id(message))) for message in body.messages]
    return jsonedit.rewrite_batch(body, written) if body.is_batch else written[0]


def _written(message: Message, owed: Owed | None) -> bytes:
    if owed is None or not owed.is_stamped:
        return message.raw
    return jsonedit.rewrite(message, id=owed.stamp, token=owed.token_stamp)


def rest_of_body(body: Body, messages: tuple[Message, ...]) -> Body:
    """The members of a batch that are still unanswered, as a batch of their own (R41)."""
    if not body.is_batch:
        return body
    raw = b"[" + b",".join(message.raw for message in messages) + b"]"
    return jsonrpc.make_body(raw, messages, is_batch=True)
