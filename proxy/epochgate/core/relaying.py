"""Messages on their way down: taken whole where nothing unusual stands in a read, else one by one.

On a leg that never broke, searches in C prove for the whole block that it holds nothing but
notifications of this stream; only then are ids and tokens put back without parsing (design, 15). Every
other block is taken apart and each message is judged.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from epochgate.core import (
    delivery,
    drifting,
    epoch,
    eventforms,
    evidence,
    jsonedit,
    jsonrpc,
    legs,
    progress,
    questions,
    restarting,
    sse,
    usual,
)
from epochgate.core.axes import Claim, Leg
from epochgate.core.commands import Counted, Dropped, Judged, Write
from epochgate.core.evidence import Reading
from epochgate.core.jsonrpc import Body, Kind, Message
from epochgate.core.states import UpInput
from epochgate.core.stream import OwedState, Stream
from epochgate.core.timers import Timer
from epochgate.core.verdict import OUTSIDE, Ruling, Verdict

if TYPE_CHECKING:
    from epochgate.core.session import Session

MARK = "dev.epochgate/restart"
UNPROVEN = "dev.epochgate/unproven"
_ESCAPED_KEY = re.compile(rb"\\u00[67]")  # a letter of a key, hidden from byte searches
_TOKEN = b'"progressToken"'
_OWN_EVENTS = (b"prime", b"close")  # of the Go server: framing, no messages
_WORST = (Verdict.RESTART, Verdict.DROP, Verdict.RELAY)


def take_block(session: Session, stream: Stream, block: bytes) -> None:
    """Take the whole events of one read."""
    stream.announced_retry_ms = None
    is_usual = stream.leg_kind is Leg.UNBROKEN and stream.restart is None and not stream.is_reopened
    if is_usual and _take_whole(session, stream, block):
        return
    _take_apart(session, stream, block)


# --- the whole block at once ------------------------------------------------------------------------


def _take_whole(session: Session, stream: Stream, block: bytes) -> bool:
    captured = stream.generation.epoch
    is_epoch_stated = captured.meta is not None or stream.header_epoch is not None
    if is_epoch_stated and not _is_epoch_usual(session, stream, block):
        return False
    numbering = stream.numbering
    room = numbering.room or delivery.ensure_room(session, stream)
    if stream.usual is not None:
        done = stream.usual.stamp(block, numbering.next_cursor)
        if done is not None and done[1] <= room and stream.owed[0].state is OwedState.OPEN:
            data, count, ids = done
            if ids:
                stream.ids.saw(ids, block)
            delivery.deliver(session, stream, data, count)
            return True
    replaced = _with_token(stream, block)
    if replaced is None:
        return False
    if stream.ids.last is None:
        stamped = eventforms.stamp_cursors(replaced, numbering.next_cursor)
        if stamped is not None and stamped[1] <= room:
            delivery.deliver(session, stream, *stamped)
            return True
    restamped = eventforms.restamp_cursors(replaced, numbering.next_cursor)
    if restamped is None or len(restamped[1]) > room:
        return False
    data, ids = restamped
    stream.ids.saw(ids, block)
    delivery.deliver(session, stream, data, len(ids))
    return True


def _with_token(stream: Stream, block: bytes) -> bytes | None:
    """The block with the client's token put back; None unless it holds only notifications, and no
    token but the stream's own."""
    if b'"id"' in block or (stream.generation.asked and b'"requestId"' in block):
        return None  # a response or question; a question that is given up
    if b"\\u00" in block and _ESCAPED_KEY.search(block) is not None:
        return None
    tokens = stream.token_back
    count = 0 if tokens is None else block.count(tokens[0])
    if tokens is None or not count:
        return None if _TOKEN in block else block
    if count != block.count(_TOKEN) or stream.owed[0].state is not OwedState.OPEN:
        return None
    if not stream.is_usual_sought:
        stream.is_usual_sought = True
        stream.usual = usual.learn(block, tokens, stream.owed[0].token_stamp or b"")
    return block.replace(*tokens)


def _is_epoch_usual(session: Session, stream: Stream, block: bytes) -> bool:
    """Whether nothing in the block can state another epoch, or one that must be taken out (R39)."""
    captured = stream.generation.epoch
    if stream.header_epoch is not None and stream.header_epoch != captured.header:
        return False
    if captured.meta is None:
        return True
    if stream.generation.number > 1 or session.policy.advertise_epoch:
        return False
    return epoch.fast_equal_count(block, session.policy.epoch_keys, captured.meta)


# --- one by one -------------------------------------------------------------------------------------


def _take_apart(session: Session, stream: Stream, block: bytes) -> None:
    out = _Outgoing(session, stream)
    for raw in sse.split(block):
        event = sse.parse(raw)
        if event.retry is not None or event.name == b"close":
            stream.announced_retry_ms = event.retry if event.retry is not None else 0
            stream.leg_retry_ms = stream.announced_retry_ms
        elif event.data is not None:
            stream.announced_retry_ms = None
        if stream.is_reopened and stream.ids.is_repeat(event):
            session.do(Dropped("duplicate"))
        elif not event.is_message:
            _take_other(session, stream, event, out)
        elif not _take_message(session, stream, event, out):
            return
    out.flush()


class _Outgoing:
    """Events of a read that wait for their common write."""

    def __init__(self, session: Session, stream: Stream) -> None:
        self._session = session
        self._stream = stream
        self._events: list[bytes] = []

    @property
    def is_empty(self) -> bool:
        return not self._events

    def add(self, raw: bytes) -> int:
        """Add an event; its position."""
        room = delivery.ensure_room(self._session, self._stream)
        if len(self._events) == room:
            self.flush()
            delivery.ensure_room(self._session, self._stream)
        cursor = self._stream.numbering.next_cursor + len(self._events)
        self._events.append(sse.with_cursor(raw, cursor))
        return self._stream.numbering.next_position + len(self._events) - 1

    def flush(self) -> None:
        if self._events:
            delivery.deliver(self._session, self._stream, b"".join(self._events), len(self._events))
            self._events = []


def _take_other(session: Session, stream: Stream, event: sse.Event, out: _Outgoing) -> None:
    """Priming is swallowed, `retry:` goes on, a foreign event type passes on a leg that never broke."""
    evidence.learn_from(stream, event, ())
    if event.retry is not None and stream.exchange is not None and not delivery.is_java(stream.caller):
        out.flush()
        session.do(Write(stream.exchange, b"retry: %d\n\n" % event.retry))
    is_foreign_type = event.name not in (b"", b"message", *_OWN_EVENTS) and event.data is not None
    if is_foreign_type and stream.leg_kind is Leg.UNBROKEN:
        out.add(event.raw)


def _take_message(session: Session, stream: Stream, event: sse.Event, out: _Outgoing) -> bool:
    """Judge and act; False when the stream takes nothing more of this leg."""
    assert event.data is not None
    body = jsonrpc.read_body(event.data, is_located=False) or Body(
        event.data, (Message(event.data, Kind.INVALID),), is_batch=False
    )
    readings = evidence.read(session, stream, body, event, is_first=out.is_empty)
    rulings = [reading.ruling for reading in readings]
    ruling = min(rulings, key=lambda one: _WORST.index(one.verdict))
    if body.is_batch and ruling.verdict is Verdict.DROP and _holds_answer(readings):
        ruling = OUTSIDE["not_resumable"]
    stream.has_leg_event = stream.has_leg_event or stream.leg_kind is not Leg.UNBROKEN
    if ruling.verdict is Verdict.RESTART:
        out.flush()
        restarting.restart(session, stream, ruling, readings)
        return False
    evidence.learn_from(stream, event, readings)
    if ruling.verdict is Verdict.DROP:
        session.do(Dropped(ruling.reason))
        return True
    _count_resume(session, stream, ruling)
    if _is_held_back(session, stream, readings):
        return True
    has_drifted = any(one.reason == "drift" for one in rulings)
    if has_drifted:
        drifting.mark_drift(session, session.current.number + 1)
    written = [outgoing(session, stream, reading) for reading in readings]
    position = out.add(sse.with_data(event, jsonedit.rewrite_batch(body, written)))
    for reading in readings:
        if reading.claim is Claim.ANSWER and reading.owed is not None:
            reading.owed.answered_at = position
        elif reading.claim is Claim.ELSEWHERE_PROGRESS:
            progress.note(reading)
    return _settle(session, stream, readings, out, has_drifted=has_drifted)


def _holds_answer(readings: list[Reading]) -> bool:
    """Whether a batch that is dropped whole would take an owed answer with it: it does not come again, and
    its client would wait for ever (R41, G3)."""
    return any(
        one.claim is Claim.ANSWER and one.owed is not None and one.owed.state is OwedState.OPEN
        for one in readings
    )


def _count_resume(session: Session, stream: Stream, ruling: Ruling) -> None:
    stream.strikes = 0
    if stream.leg_kind is Leg.UNBROKEN or stream.is_resume_counted:
        return
    stream.is_resume_counted = True
    stream.failing_since = None
    stream.poll_retry_ms = None
    session.do(Judged("upstream", stream.kind.value, "resume", ruling.reason, stream.exchange))
    if ruling.reason == "server_poll":
        stream.has_unproven_poll = True
        session.do(Counted("unproven_polls"))


def _is_held_back(session: Session, stream: Stream, readings: list[Reading]) -> bool:
    """Of a restarted run: what the client could not be told of (R5), and progress it saw (R38)."""
    if len(readings) != 1:
        return False
    reading = readings[0]
    is_elsewhere = reading.claim is Claim.ELSEWHERE_PROGRESS
    run = _run_of(stream, reading) if is_elsewhere else stream
    if run.restart is None or reading.claim in (Claim.ANSWER, Claim.QUESTION, Claim.PING):
        return False
    if run.is_mute:
        return True
    return (is_elsewhere or reading.claim is Claim.PROGRESS) and progress.is_seen(reading)


def _run_of(stream: Stream, reading: Reading) -> Stream:
    """The stream whose progress came on another one: some servers put all of it on the standalone stream."""
    key = None if reading.owed is None else reading.owed.token_key
    found = None if key is None else stream.generation.tokens.get(key)
    return stream if found is None else found.stream


def outgoing(session: Session, stream: Stream, reading: Reading) -> bytes:
    """The message as the client may see it: its own ids, marks, and no epoch of a later generation."""
    message, owed = reading.message, reading.owed
    raw = message.raw
    match reading.claim:
        case Claim.ANSWER if owed is not None:
            raw = _restored(message, owed.stamp, owed.id, id=owed.id)
            raw = mark(session, stream, raw)
        case Claim.PROGRESS | Claim.ELSEWHERE_PROGRESS if owed is not None and owed.token_stamp is not None:
            token = owed.message.token or b"null"
            raw = _restored(message, owed.token_stamp, token, token=token)
        case Claim.QUESTION | Claim.PING:
            raw = questions.relayed(session, stream, message)
        case Claim.PLAIN if message.cancels is not None:
            raw = questions.cancelled(session, stream, message)
    if session.policy.advertise_epoch:
        return advertised(session, raw) if reading.stated is not None else raw
    if stream.generation.number > 1:
        raw = jsonedit.without_meta(raw, session.policy.epoch_keys)
    return raw


def advertised(session: Session, raw: bytes) -> bytes:
    """The message with the proxy's own epoch, the generation, in the place of the server's (R39)."""
    keys = session.policy.epoch_keys
    raw = jsonedit.without_meta(raw, keys)
    return jsonedit.with_meta(raw, keys[0], b"%d" % session.current.number)


def _restored(message: Message, stamp: bytes, own: bytes, **place: bytes) -> bytes:
    """The message with the client's own value in the place of a stamp."""
    raw = message.raw
    if stamp == own:
        return raw
    if raw.count(stamp) == 1 and stamp in (message.id, message.token):
        return raw.replace(stamp, own)  # it stands once, so that it is the value itself
    message = jsonrpc.located(message)
    return jsonedit.rewrite(message, **place) if message.is_rewritable else raw.replace(stamp, own)


def mark(session: Session, stream: Stream, answer: bytes) -> bytes:
    """The answer with what the client must know of it: a restart, a heal, an unproven poll."""
    restart = stream.restart or session.pending_mark
    if restart is not None:
        answer = jsonedit.with_meta(answer, MARK, msgspec.json.encode(restart.as_data()))
        if stream.exchange is not None:
            session.pending_mark = None  # until one was delivered (R21)
    if stream.has_unproven_poll:
        answer = jsonedit.with_meta(answer, UNPROVEN, b"true")
    return answer


def _settle(
    session: Session, stream: Stream, readings: list[Reading], out: _Outgoing, *, has_drifted: bool
) -> bool:
    """Book what was answered; end the stream with its last owed answer (W7)."""
    for reading in readings:
        if reading.claim is Claim.ANSWER and reading.owed is not None:
            reading.owed.state = OwedState.ANSWERED
            evidence.note_answer(session, stream, reading)
    if stream.is_request and not stream.unanswered:
        out.flush()
        close_answered(session, stream)
    elif (
        stream.is_request and not stream.open_owed and not session.timers.is_set(Timer.CANCEL, stream.handle)
    ):
        # What is left of the batch was cancelled: its server may wait for ever (R29).
        session.set_timer(Timer.CANCEL, stream.handle, session.policy.cancel_grace_s)
    if has_drifted:
        drifting.drift(session, stream, readings)
    return not stream.is_over


def close_answered(session: Session, stream: Stream) -> None:
    """The last owed answer is delivered."""
    session.move_stream(stream, UpInput.ANSWERED)
    delivery.finish(session, stream)
    legs.end(session, stream, is_answered=True)
    delivery.ended_upstream(session, stream)
