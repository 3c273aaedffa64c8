"""Cursors: minted, read back, and handed out in blocks (R15)."""

from __future__ import annotations

import pytest

from epochgate.core import cursor
from epochgate.core.cursor import BLOCK_SPAN, Blocks


def test_a_cursor_names_block_and_position() -> None:
    assert cursor.mint(3, 5) == 3 * 1_048_576 + 5
    assert cursor.read(b"3145733") == (3, 5)
    assert cursor.read(b"0") == (0, 0)


def test_the_last_cursor_is_below_2_to_53() -> None:
    last = cursor.mint(cursor.MAX_BLOCKS - 1, BLOCK_SPAN - 1)

    assert last == 9_007_199_254_740_991
    assert cursor.read(b"9007199254740991") == (cursor.MAX_BLOCKS - 1, BLOCK_SPAN - 1)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"-1",
        b"+1",
        b" 1",
        b"1 ",
        b"01",
        b"1.0",
        b"1e3",
        b"0x1",
        b"9007199254740992",
        b"\xd9\xa1",
        b"9" * 5000,
    ],
)
def test_what_no_mint_writes_is_no_cursor(text: bytes) -> None:
    assert cursor.read(text) is None


def test_blocks_come_in_sequence_from_the_first() -> None:
    blocks = Blocks(7)

    assert [blocks.take(), blocks.take()] == [7, 8]
    assert repr(blocks) == "<Blocks next 9>"


def test_blocks_wrap_before_a_cursor_would_pass_2_to_53() -> None:
    blocks = Blocks(cursor.MAX_BLOCKS - 1)

    assert [blocks.take(), blocks.take()] == [cursor.MAX_BLOCKS - 1, 0]
