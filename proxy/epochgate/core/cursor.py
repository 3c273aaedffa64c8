"""Cursors: the event ids that the client sees (R15).

A cursor is block · 2^20 + position, below 2^53 so that every JSON number holds it. A block belongs to
one stream of one session; a stream that fills its block takes another.
"""

from __future__ import annotations

BLOCK_SPAN = 2**20  # events in a block
MAX_BLOCKS = 2**33  # keeps every cursor below 2^53

_MAX_DIGITS = 16  # of 2^53 - 1


def mint(block: int, position: int) -> int:
    """The cursor of `position` (below BLOCK_SPAN) in `block` (below MAX_BLOCKS)."""
    return block * BLOCK_SPAN + position


def read(text: bytes) -> tuple[int, int] | None:
    """Block and position of a cursor written as `mint` would write it, or None."""
    if not text.isdigit() or len(text) > _MAX_DIGITS or (text[:1] == b"0" and text != b"0"):
        return None
    block, position = divmod(int(text), BLOCK_SPAN)
    return (block, position) if block < MAX_BLOCKS else None


class Blocks:
    """Hands out the blocks of one owner of a session, in sequence from a random 32-bit `first`."""

    __slots__ = ("_next",)

    def __init__(self, first: int) -> None:
        self._next = first % MAX_BLOCKS

    def __repr__(self) -> str:
        return f"<Blocks next {self._next}>"

    def take(self) -> int:
        block = self._next
        self._next = (block + 1) % MAX_BLOCKS
        return block
