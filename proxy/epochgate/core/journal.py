"""The bounded record of what a stream gave its client, for redelivery.

Events are kept as the blocks they were written in, by reference, with the cursors already in them:
one append for each read. Only a client that comes back into the middle of a block has it searched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from epochgate.core import cursor
from epochgate.core.cursor import BLOCK_SPAN


class Budget:
    """What some journals hold together, against their limit, in bytes; within a wider budget."""

    __slots__ = ("limit", "used", "wider")

    def __init__(self, limit: int, wider: Budget | None = None) -> None:
        self.limit = limit
        self.used = 0
        self.wider = wider

    @property
    def is_exceeded(self) -> bool:
        wider = self.wider
        return self.used > self.limit or (wider is not None and wider.used > wider.limit)

    def add(self, size: int) -> None:
        self.used += size
        if self.wider is not None:
            self.wider.used += size


class Entry(NamedTuple):
    """`events` events from position `first` on, with their cursors, as they were written."""

    first: int
    events: int
    first_cursor: int
    data: bytes


class Journal:
    """The events of one stream, oldest first. Positions count the stream's events from 0."""

    __slots__ = ("_budget", "_entries", "evicted_to", "size", "written_to")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._entries: deque[Entry] | tuple[()] = ()  # a deque from the first entry on: it is large
        self.size = 0
        self.evicted_to = 0  # positions below are no longer kept
        self.written_to = 0  # positions below were written to some leg

    @property
    def is_exceeding(self) -> bool:
        """Whether this journal's budget, or a wider one, is exceeded."""
        return self._budget.is_exceeded

    def append(self, entry: Entry) -> bool:
        """Keep an entry; whether this journal's budget, or a wider one, is exceeded by it."""
        if isinstance(self._entries, tuple):
            self._entries = deque()
        self._entries.append(entry)
        size = len(entry.data)
        self.size += size
        budget = self._budget
        budget.used += size
        wider = budget.wider
        if wider is None:
            return budget.used > budget.limit
        wider.used += size
        return budget.used > budget.limit or wider.used > wider.limit

    def trim(self, limit: int) -> bool:
        """Evict written entries, oldest first, until at most `limit` bytes are held.

        Undelivered events stay (R13). Returns whether anything was evicted.
        """
        has_evicted = False
        while self.size > limit and self._entries and not isinstance(self._entries, tuple):
            oldest = self._entries[0]
            if oldest.first + oldest.events > self.written_to:
                break
            self._entries.popleft()
            self._release(oldest)
            self.evicted_to = oldest.first + oldest.events
            has_evicted = True
        return has_evicted

    def skip(self, position: int) -> None:
        """The event at `position` is not kept: what stands before it leads nowhere any more."""
        while not isinstance(self._entries, tuple) and self._entries and self._entries[0].first <= position:
            self._release(self._entries.popleft())
        self.evicted_to = position + 1

    def clear(self) -> None:
        for entry in self._entries:
            self._release(entry)
        self._entries = ()

    def after(self, position: int) -> list[bytes]:
        """What was journalled behind `position` (-1: everything), as writable blocks."""
        blocks: list[bytes] = []
        for entry in self._entries:
            if entry.first > position:
                blocks.append(entry.data)
            elif entry.first + entry.events - 1 > position:
                blocks.append(_cut(entry, position))
        return blocks

    def backwards(self) -> Iterator[Entry]:
        return reversed(self._entries)

    def _release(self, entry: Entry) -> None:
        self.size -= len(entry.data)
        self._budget.add(-len(entry.data))


def _cut(entry: Entry, position: int) -> bytes:
    """The rest of an entry behind `position`: from the line `id: N` of the next event on."""
    wanted = b"\nid: %d" % (entry.first_cursor + position + 1 - entry.first)
    at = entry.data.find(wanted)
    while at >= 0 and entry.data[at + len(wanted) : at + len(wanted) + 1] not in (b"\n", b"\r"):
        at = entry.data.find(wanted, at + 1)
    if at < 0:
        # CR line endings: the id line follows a carriage return
        at = entry.data.find(b"\r" + wanted[1:] + b"\r")
    if at < 0:
        raise AssertionError(f"event {position + 1} is not in its journal entry")
    return entry.data[at + 1 :]


class Numbering:
    """Which cursors a stream has given out: its blocks, each with the position it began at (R15)."""

    __slots__ = ("_blocks", "next_cursor", "next_position", "room")

    def __init__(self) -> None:
        self._blocks: list[tuple[int, int]] = []
        self.next_position = 0
        self.next_cursor = 0
        self.room = 0  # events that fit in the current block; at 0 a block must be added

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """(block, position of its first event), in the order they were taken."""
        return self._blocks

    def position_of(self, block: int, within: int) -> int | None:
        """The position of a cursor of one of these blocks; None if that many were never given out in it."""
        ends = [*[first for _, first in self._blocks[1:]], self.next_position]
        for (number, first), end in zip(self._blocks, ends, strict=True):
            if number == block and first + within < end:
                return first + within
        return None

    def add_block(self, block: int) -> None:
        self._blocks.append((block, self.next_position))
        self.next_cursor = cursor.mint(block, 0)
        self.room = BLOCK_SPAN

    def advance(self, count: int) -> None:
        """`count` events, at most `room`, were given the next cursors."""
        self.next_position += count
        self.next_cursor += count
        self.room -= count
