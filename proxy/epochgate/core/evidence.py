"""From a message to the judge: what it claims to be, and what it and its event say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, assert_never

from epochgate.core import epoch, jsonrpc, reissue, sse
from epochgate.core.axes import Asked, Before, Claim, IdStep, Leg, Match, MessageEvidence, Size
from epochgate.core.generation import Generation, Stamped
from epochgate.core.jsonrpc import Body, Kind, Message
from epochgate.core.jsontext import read_string
from epochgate.core.stream import Owed, OwedState, Stream
from epochgate.core.values import Value
from epochgate.core.verdict import Ruling, judge

if TYPE_CHECKING:
    from epochgate.core.session import Session


_RESTORED = frozenset(("logging/setLevel", "resources/subscribe", "resources/unsubscribe"))


class Reading(Value, frozen=True):
    """A message, what it claims, the request it names if any, the epoch it states, and its ruling."""

    message: Message
    claim: Claim
    owed: Owed | None
    stated: bytes | None
    ruling: Ruling


def read(
    session: Session, stream: Stream, body: Body, event: sse.Event | None, *, is_first: bool
) -> list[Reading]:
    """Weigh the messages of a body; `event` is None for a JSON answer, `is_first` false if others of its
    read are relayed before it. A batch that states two epochs has something before it in itself (R8)."""
    if body.is_batch and epoch.stated_in(body.raw, session.policy.epoch_keys) == epoch.CONFLICT:
        is_first = False
    return [_read(session, stream, message, event, is_first=is_first) for message in body.messages]


def _read(
    session: Session, stream: Stream, message: Message, event: sse.Event | None, *, is_first: bool
) -> Reading:
    claim, owed = _claim(stream, message)
    captured = stream.generation.epoch
    stated = epoch.stated_in(message.raw, session.policy.epoch_keys) if captured.is_captured else None
    ruling = _judge(
        stream.leg_kind,
        claim,
        epoch.compare(captured, stated, stream.header_epoch),
        _asked(stream.generation, claim, message),
        _step(stream, event),
        Before.NOTHING if is_first and not stream.relayed else Before.SOMETHING,
    )
    return Reading(message, claim, owed, stated, ruling)


@cache
def _judge(leg: Leg, claim: Claim, match: Match, asked: Asked, step: IdStep, before: Before) -> Ruling:
    """`judge`, without making the same evidence again for every message."""
    return judge(MessageEvidence(leg, Size.FITS, claim, match, asked, step, before))


def judge_large(stream: Stream) -> Ruling:
    """Whether an event above `max_event_bytes` may be passed on before it is whole (R9)."""
    return judge(
        MessageEvidence(
            stream.leg_kind,
            Size.TOO_LARGE,
            Claim.PLAIN,
            Match.NOT_CAPTURED,
            Asked.NO,
            IdStep.UNJUDGED,
            Before.SOMETHING,
        )
    )


def judge_passed(claim: Claim, *, is_ours: bool, is_of_other_epoch: bool) -> Ruling:
    """What to do with the end of an event that was passed on: now all of it was seen."""
    if not is_ours:
        claim = Claim.UNKNOWN_ANSWER if claim is Claim.ANSWER else Claim.UNKNOWN_PROGRESS
    match = Match.DIFFERENT if is_of_other_epoch else Match.EQUAL
    return _judge(Leg.UNBROKEN, claim, match, Asked.NO, IdStep.UNJUDGED, Before.SOMETHING)


def learn(stream: Stream, event: sse.Event) -> None:
    """Take the id of an event that was accepted; after a resume only one that fits (R31).

    An empty one takes the cursor back, as it does for any reader of event streams. Under the id of a GET's
    priming event the first message may come as well (rmcp): by that id nothing is recognised.
    """
    if not event.id:
        if event.id is not None and stream.leg_kind is Leg.UNBROKEN:
            stream.ids.last = None
        return
    if stream.leg_kind is not Leg.UNBROKEN and stream.ids.step(event) not in (IdStep.NEXT, IdStep.UNJUDGED):
        return
    stream.ids.saw([event.id], event.raw if event.data or stream.is_request else b"")


def learn_from(stream: Stream, event: sse.Event, readings: Sequence[Reading]) -> None:
    """Take the id of a message that was accepted. On a leg that broke, only what carries a stamp of
    this stream moves the resume's cursor: some servers replay other streams beside it (R6). What they
    replay is kept once, however often it comes: copies of it would displace the stream's own (R31)."""
    is_own = any(reading.claim in (Claim.ANSWER, Claim.PROGRESS) for reading in readings)
    may_move = stream.leg_kind is Leg.UNBROKEN or is_own or not stream.is_request
    if may_move:
        learn(stream, event)
        return
    step = stream.ids.step(event)
    if step is IdStep.NEXT:
        learn(stream, event)
    elif event.id and step is not IdStep.SAME:
        stream.ids.remember(event.raw)


def note_answer(session: Session, stream: Stream, reading: Reading) -> None:
    """What an answer teaches: tool annotations, and what its session holds now (R20, R21)."""
    owed = reading.owed
    if owed is None or reading.message.kind is not Kind.RESULT:
        return
    if owed.method == "tools/list":
        is_first = "cursor" not in owed.message.params()
        reissue.read_tools_page(reading.message, session.tools, is_first)
    elif owed.method in _RESTORED:
        _note_restored(session, owed.message)
    if owed.message.tool is not None:
        has_failed = bool(session.policy.replay_tools) and is_tool_error(reading.message)
        note_call(session, stream, owed, has_failed=has_failed)


def _note_restored(session: Session, message: Message) -> None:
    """What a heal has to put back (design, 8): what the server agreed to, not what it was asked for."""
    params = message.params()
    uri = read_string(params.get("uri"))
    match message.method:
        case "logging/setLevel":
            session.log_level = read_string(params.get("level")) or session.log_level
        case "resources/subscribe" if uri is not None:
            session.subscriptions[uri] = None
        case "resources/unsubscribe" if uri is not None:
            session.subscriptions.pop(uri, None)


def is_tool_error(message: Message) -> bool:
    """Whether a result says that its tool failed."""
    value = message.result().get("isError")
    return value is not None and bytes(value) == b"true"


def note_call(session: Session, stream: Stream, owed: Owed, *, has_failed: bool) -> None:
    """A call was answered: its session may hold state from now on (R21), which a heal may have to
    rebuild, or need not any more (R40)."""
    name = owed.message.tool
    if name is None:
        return
    if session.policy.replay_tools and not has_failed:
        if name in session.policy.replay_tools:
            session.prelude.pop(name, None)
            session.prelude[name] = owed.message
        for undo, tool in session.policy.undo_tools:
            if name == undo:
                session.prelude.pop(tool, None)
    if not session.tools.is_annotating:
        return
    hint = session.tools.hints.get(name)
    is_stateless = name in session.policy.replay_tools or name in session.policy.stateless_tools
    if not is_stateless and (hint is None or hint.read_only_hint is not True):
        stream.generation.has_state = True


def _claim(stream: Stream, message: Message) -> tuple[Claim, Owed | None]:
    match message.kind:
        case Kind.RESULT | Kind.ERROR:
            return _claim_of_response(stream, message)
        case Kind.REQUEST:
            return (Claim.PING if message.method == "ping" else Claim.QUESTION), None
        case Kind.NOTIFICATION if message.method == "notifications/progress" and message.token is not None:
            return _claim_of_progress(stream, message.token)
        case Kind.NOTIFICATION:
            return Claim.PLAIN, None
        case Kind.INVALID:
            return Claim.UNREADABLE, None
        case _:
            assert_never(message.kind)


def _claim_of_response(stream: Stream, message: Message) -> tuple[Claim, Owed | None]:
    if message.id is None or message.id == b"null":
        return Claim.IDLESS_ERROR, None
    found = _find_unstamped(stream, message.id) or _find(stream.generation.stamps, message.id)
    if found is None:
        return (Claim.LATE if _is_retired(stream, message.id) else Claim.UNKNOWN_ANSWER), None
    if found.owed.state is OwedState.ANSWERED:
        return Claim.LATE, found.owed
    if found.stream is not stream:
        return Claim.ELSEWHERE_ANSWER, found.owed
    return Claim.ANSWER, found.owed


def _claim_of_progress(stream: Stream, token: bytes) -> tuple[Claim, Owed | None]:
    found = _find(stream.generation.tokens, token)
    if found is None:
        return (Claim.LATE if _is_retired(stream, token) else Claim.UNKNOWN_PROGRESS), None
    is_task = found.owed.message.is_task
    if found.owed.state is OwedState.ANSWERED and not is_task:
        return Claim.LATE, found.owed
    return (Claim.PROGRESS if found.stream is stream else Claim.ELSEWHERE_PROGRESS), found.owed


def _find_unstamped(stream: Stream, id: bytes) -> Stamped | None:
    """Of requests that went up under equal ids of their own, the leg tells which is answered (R33)."""
    for owed in stream.owed:
        if not owed.is_stamped and owed.id == id:
            return Stamped(stream, owed)
    return None


def _is_retired(stream: Stream, text: bytes) -> bool:
    return stream.generation.is_retired(jsonrpc.stamp_key(text))


def _find(table: dict[bytes, Stamped], text: bytes) -> Stamped | None:
    """By the text as it stands (requests that carry no stamp), else as a stamp of either type (R36)."""
    found = table.get(text)
    if found is None:
        found = table.get(jsonrpc.stamp_key(text))
        return found if found is not None and found.owed.is_stamped else None
    return found


def _asked(generation: Generation, claim: Claim, message: Message) -> Asked:
    if claim not in (Claim.QUESTION, Claim.PING) or message.id is None:
        return Asked.NO
    question = generation.asked.get(message.id)
    if question is None:
        return Asked.NEW
    if question.text_hash == hash(message.raw):
        return Asked.OPEN if question.is_open else Asked.SEEN
    return Asked.OTHER if question.is_open else Asked.NEW


def _step(stream: Stream, event: sse.Event | None) -> IdStep:
    if event is None or stream.leg_kind is Leg.UNBROKEN:
        return IdStep.UNJUDGED
    return stream.ids.step(event)
