"""An event above `max_event_bytes` is passed on as it comes, on a leg that never broke (R9).

Its first part, which is there already, shows what it is. Id or token are replaced on the way by a scanner
that knows their place; the end is held back until the whole was weighed. What turns out wrong, or breaks
inside, is broken off, so that it cannot look whole. Nothing of it is kept: a client that loses it gets an
error when it returns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from epochgate.core import delivery, epoch, evidence, relaying, restarting, sse
from epochgate.core.axes import Claim
from epochgate.core.commands import Dropped, Probe, Relayed, Write
from epochgate.core.jsontext import read_string
from epochgate.core.scan import TopLevelReplacer, leading_members
from epochgate.core.states import ClientHalf, UpInput
from epochgate.core.stream import Owed, OwedState, Stream
from epochgate.core.verdict import OUTSIDE, Verdict

if TYPE_CHECKING:
    from epochgate.core.session import Session

_TOO_LARGE = OUTSIDE["event_too_large"]
_PEEKED_BYTES = 64 * 1024  # in which an event shows what it is
_MAX_LINE_BYTES = 64 * 1024  # of a line that is no data; servers' ids have some tens
_STATED_BYTES = 512  # a key, its colon and an epoch stand within
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")  # of a key that is hidden from searches


class Passing:
    """The event under way. `owed`: the request whose answer it is; `claim`: what it claims to be."""

    __slots__ = ("claim", "lines", "owed", "position", "replacer", "watch")

    def __init__(self, claim: Claim, owed: Owed | None, position: int, watch: EpochWatch | None) -> None:
        self.claim = claim
        self.owed = owed
        self.position = position
        self.watch = watch
        self.lines = _Lines()
        self.replacer: TopLevelReplacer | None = None
        if owed is not None and claim is Claim.ANSWER:
            self.replacer = TopLevelReplacer(b"id", owed.stamp, owed.id)
        elif owed is not None and owed.token_stamp is not None and owed.message.token is not None:
            self.replacer = TopLevelReplacer(b"progressToken", owed.token_stamp, owed.message.token, level=2)

    @property
    def is_ours(self) -> bool:
        """Whether what came carried the stamp that its claim needs."""
        return self.replacer is None or self.replacer.count == 1

    @property
    def is_of_other_epoch(self) -> bool:
        return self.watch is not None and self.watch.is_other

    def feed(self, data: bytes) -> bytes:
        if self.watch is not None:
            self.watch.feed(data)
        kept = self.lines.feed(data)
        return kept if self.replacer is None else self.replacer.feed(kept)

    def finish(self) -> bytes:
        if self.watch is not None:
            self.watch.finish()
        return b"" if self.replacer is None else self.replacer.finish()


class _Lines:
    """Takes the server's `id:` lines out. Of a data line that is not whole what came passes."""

    __slots__ = ("_held", "_is_inside", "id", "is_odd")

    def __init__(self) -> None:
        self._held = b""
        self._is_inside = False
        self.id: bytes | None = None
        self.is_odd = False  # a line that is neither data nor short

    def feed(self, data: bytes) -> bytes:
        kept: list[bytes] = []
        data, self._held = self._held + data, b""
        for line in data.splitlines(keepends=True):
            is_whole = line[-1] in b"\r\n"
            if self._is_inside or (is_whole and line[:2] != b"id") or line[:5] == b"data:":
                kept.append(line)
                self._is_inside = not is_whole
            elif is_whole:
                self.id = sse.parse(line).id
            else:
                self._held = line
        self.is_odd = self.is_odd or len(self._held) > _MAX_LINE_BYTES
        return b"".join(kept)


class EpochWatch:
    """Whether an event that is never whole states another epoch anywhere: then it is not believed.

    A key deeper inside counts too; that may break an event off for nothing, and never lets one pass.
    """

    __slots__ = ("_captured", "_keys", "_tail", "is_other")

    def __init__(self, keys: Sequence[str], captured: bytes) -> None:
        names = b"|".join(re.escape(form) for key in keys for form in epoch.written(key))
        self._keys = re.compile(rb'"(?:%b)"[ \t\r\n]*:[ \t\r\n]*' % names)
        self._captured = captured
        self._tail = b""
        self.is_other = False

    def feed(self, data: bytes) -> None:
        text = self._tail + data
        self._look(text, max(len(text) - _STATED_BYTES, 0))
        self._tail = text[-_STATED_BYTES:]

    def finish(self) -> None:
        self._look(self._tail, len(self._tail))

    def _look(self, text: bytes, end: int) -> None:
        """Look at what begins before `end`; the rest comes again with what follows it."""
        if _ESCAPED_LETTER.search(text) is not None:
            self.is_other = True
        for found in self._keys.finditer(text):
            at = found.end()
            behind = text[at + len(self._captured) : at + len(self._captured) + 1]
            is_same = text.startswith(self._captured, at) and behind in (b",", b"}", b" ", b"\n", b"\r")
            if found.start() < end and not is_same:
                self.is_other = True


# --- beginning --------------------------------------------------------------------------------------


def begin(session: Session, stream: Stream) -> None:
    """The event that is under way has become too large to be kept."""
    if stream.is_over or stream.leg is None:
        return
    ruling = evidence.judge_large(stream)
    passing = _make(session, stream) if ruling.verdict is Verdict.RELAY else None
    if passing is None:
        restarting.restart(session, stream, _TOO_LARGE if ruling.verdict is Verdict.RELAY else ruling, [])
        return
    if stream.client is not ClientHalf.ATTACHED or stream.exchange is None:
        delivery.adjust_flow(session, stream)  # it cannot be kept: read on when its client is there
        return
    delivery.ensure_room(session, stream)
    passing.position = stream.numbering.next_position
    first = b"id: %d\n" % stream.numbering.next_cursor
    stream.numbering.advance(1)
    stream.passing = passing
    session.move_stream(stream, UpInput.PASSED_ON)
    session.do(Probe(stream.exchange, b""))
    _write(session, stream, first + passing.feed(stream.framer.take_tail()))


def _make(session: Session, stream: Stream) -> Passing | None:
    """How the event can be passed on; None if it cannot.

    Nothing is put into an event that is never whole: one that needs a mark (R5), or less of its
    epoch (R39), cannot pass, nor one that asks the client something.
    """
    captured = stream.generation.epoch.meta
    is_marked = stream.restart is not None or stream.has_unproven_poll
    is_edited = session.policy.advertise_epoch or (captured is not None and stream.generation.number > 1)
    if is_marked or is_edited:
        return None
    watch = None if captured is None else EpochWatch(session.policy.epoch_keys, captured)
    members = leading_members(stream.framer.peek(_PEEKED_BYTES))
    only = stream.owed[0] if len(stream.owed) == 1 else None
    if b"method" in members:
        method = read_string(members[b"method"]) or ""
        if method == "notifications/progress" and only is not None and only.token_stamp is not None:
            return Passing(Claim.PROGRESS, only, 0, watch)
        is_plain = method.startswith("notifications/") and method not in (
            "notifications/progress",
            "notifications/cancelled",
        )
        return Passing(Claim.PLAIN, None, 0, watch) if is_plain else None
    if only is not None and not {b"result", b"error"}.isdisjoint(members):
        return Passing(Claim.ANSWER, only, 0, watch)
    return None


# --- going on ---------------------------------------------------------------------------------------


def read(session: Session, stream: Stream, block: bytes) -> None:
    """More of the event, or its end and what follows it."""
    passing = stream.passing
    assert passing is not None
    if not block:
        _write(session, stream, passing.feed(stream.framer.take_tail()))
        return
    end = sse.split(block)[0]
    data = passing.feed(end) + passing.finish()
    rest = block[len(end) :]
    _ended(session, stream, passing, data)
    if rest and stream.leg is not None and not stream.is_over:
        relaying.take_block(session, stream, rest)


def _write(session: Session, stream: Stream, data: bytes) -> None:
    passing = stream.passing
    assert passing is not None
    if passing.lines.is_odd:
        restarting.restart(session, stream, _TOO_LARGE, [])
    elif data and stream.exchange is not None:
        session.do(Write(stream.exchange, data))
        stream.last_write_at = session.now


def _ended(session: Session, stream: Stream, passing: Passing, data: bytes) -> None:
    """The whole event is there: give the client its end, or break it off."""
    ruling = evidence.judge_passed(
        passing.claim, is_ours=passing.is_ours, is_of_other_epoch=passing.is_of_other_epoch
    )
    if ruling.verdict is Verdict.RESTART:
        restarting.restart(session, stream, ruling, [])
        return
    session.move_stream(stream, UpInput.STREAM_OPENED)
    if passing.lines.id:
        stream.ids.saw([passing.lines.id], b"")
    if ruling.verdict is Verdict.DROP:
        session.do(Dropped(ruling.reason))
        delivery.break_off(session, stream)
        return
    stream.passing = None
    stream.relayed += 1
    stream.journal.skip(passing.position)
    session.do(Relayed(1))
    behind = b"".join(stream.journal.after(passing.position))
    assert stream.exchange is not None
    session.do(Write(stream.exchange, data + behind))
    session.do(Probe(stream.exchange, delivery.keepalive(stream.caller)))
    stream.last_write_at = session.now
    stream.journal.written_to = stream.numbering.next_position
    if passing.claim is Claim.ANSWER and passing.owed is not None:
        passing.owed.state = OwedState.ANSWERED
        passing.owed.answered_at = passing.position
        evidence.note_call(session, stream, passing.owed, has_failed=False)
        relaying.close_answered(session, stream)
