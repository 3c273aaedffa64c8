"""How a server numbers the events of one stream, and what that proves after a resume (R31).

Ids are comparable when they are integers (`7`, or `<prefix>_7`) that stepped by exactly one at least
three times and always. Nothing is concluded from others but that one came before.
"""

from __future__ import annotations

import re

from epochgate.core import sse
from epochgate.core.axes import IdStep

_PLAIN = b"%d"
_NUMBER = re.compile(rb"(?:(.*)_)?(0|[1-9][0-9]{0,18})", re.DOTALL)
_LEARNED_STEPS = 3  # fewer could be chance
_RECENT_BYTES = 256 * 1024  # of upstream blocks kept to recognise an event that comes again
_RECENT_SLACK_BYTES = 64 * 1024  # more than that, before the oldest are forgotten together


class EventIds:
    """The ids seen on one stream, in order."""

    __slots__ = ("_first", "_is_stepping", "_number", "_prefix", "_recent", "_recent_bytes", "_steps", "last")

    def __init__(self) -> None:
        self.last: bytes | None = None
        self._prefix: bytes | None = None
        self._first = -1
        self._number = -1
        self._steps = 0
        self._is_stepping = True
        self._recent: list[bytes] = []
        self._recent_bytes = 0

    @property
    def is_comparable(self) -> bool:
        return self._is_stepping and self._steps >= _LEARNED_STEPS

    def saw(self, ids: list[bytes], block: bytes) -> None:
        """Learn from the ids of a block that was relayed; the block is kept by reference."""
        if self._is_stepping and not self._learn_run(ids):
            for event_id in ids:
                if self._is_stepping:
                    self._learn(event_id)
        self.last = ids[-1] or None
        self.remember(block)

    def remember(self, block: bytes) -> None:
        """Recognise these events when they come again; nothing else is learned from them."""
        self._recent.append(block)
        self._recent_bytes += len(block)
        if self._recent_bytes > _RECENT_BYTES + _RECENT_SLACK_BYTES:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        at = 0
        while self._recent_bytes > _RECENT_BYTES and at < len(self._recent) - 1:
            self._recent_bytes -= len(self._recent[at])
            at += 1
        del self._recent[:at]

    def step(self, event: sse.Event) -> IdStep:
        """Compare the id of an event on a resumed leg with those before it."""
        if event.id is None or event.id == b"" or self.last is None:
            return IdStep.UNJUDGED
        before = self._find_recent(event.id)
        if before is not None:
            return IdStep.SAME if before == event.data else IdStep.RESET
        if not self.is_comparable:
            return IdStep.UNJUDGED
        prefix, number = _read(event.id)
        if number is None or prefix != self._prefix:
            return IdStep.GAP
        if number <= self._number:
            return IdStep.RESET
        return IdStep.NEXT if number == self._number + 1 else IdStep.GAP

    def is_repeat(self, event: sse.Event) -> bool:
        """Whether the event is one that came before, with the same data or too long ago to compare it.

        A number below the first was never seen: the server numbers anew.
        """
        if not event.id:
            return False
        before = self._find_recent(event.id)
        if before is not None or not self.is_comparable:
            return before is not None and before == event.data
        prefix, number = _read(event.id)
        return number is not None and prefix == self._prefix and self._first <= number <= self._number

    def _learn_run(self, ids: list[bytes]) -> bool:
        """Learn from a whole block, if its ids are plain integers that go on from the last one."""
        first = self._number + 1
        if self._prefix is not None or self._number < 0 or ids[0] != b"%d" % first:
            return False
        last = self._number + len(ids)
        if len(ids) == 1:
            self._number = last
            self._steps += 1
            return True
        if ids[-1] != b"%d" % last or ids != list(map(_PLAIN.__mod__, range(first, last + 1))):
            return False
        self._number = last
        self._steps += len(ids)
        return True

    def _learn(self, event_id: bytes) -> None:
        prefix, number = _read(event_id)
        if number is None:
            self._is_stepping = False
            return
        if self._number >= 0:
            self._is_stepping = prefix == self._prefix and number == self._number + 1
            self._steps += 1
        else:
            self._first = number
        self._prefix, self._number = prefix, number

    def _find_recent(self, event_id: bytes) -> bytes | None:
        for block in reversed(self._recent):
            if event_id in block:
                for raw in sse.split(block):
                    event = sse.parse(raw)
                    if event.id == event_id:
                        return event.data or b""
        return None


def _read(event_id: bytes) -> tuple[bytes | None, int | None]:
    found = _NUMBER.fullmatch(event_id)
    return (found.group(1), int(found.group(2))) if found else (None, None)
