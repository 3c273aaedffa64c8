"""The journal: whole events behind a position, within limits that never cost an undelivered event."""

from __future__ import annotations

import pytest

from epochgate.core.cursor import BLOCK_SPAN
from epochgate.core.journal import Budget, Entry, Journal, Numbering


def entry(first: int, count: int, *, first_cursor: int = 1_000, end: bytes = b"\n") -> Entry:
    cursors = range(first_cursor + first, first_cursor + first + count)
    data = b"".join(b"id: %d%bdata: {}%b%b" % (cursor, end, end, end) for cursor in cursors)
    return Entry(first, count, first_cursor + first, data)


def filled(*counts: int, budget: Budget | None = None, end: bytes = b"\n") -> Journal:
    journal = Journal(budget or Budget(1 << 30))
    first = 0
    for count in counts:
        journal.append(entry(first, count, end=end))
        first += count
    return journal


def ids(blocks: list[bytes]) -> list[int]:
    lines = b"".join(blocks).replace(b"\r", b"\n").split(b"\n")
    return [int(line[4:]) - 1_000 for line in lines if line.startswith(b"id: ")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("position", range(-1, 9))
def test_what_follows_a_position_is_whole_and_in_order(position: int, end: bytes) -> None:
    journal = filled(3, 1, 5, end=end)

    assert ids(journal.after(position)) == list(range(position + 1, 9))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_block_is_cut_before_the_next_event(end: bytes) -> None:
    (rest,) = filled(3, end=end).after(0)

    assert rest.startswith(b"id: 1001" + end)


def test_a_cursor_that_begins_another_is_not_taken_for_it() -> None:
    journal = Journal(Budget(1 << 30))
    data = b'id: 9\ndata: "\\nid: 10"\n\nid: 100\ndata: 0\n\nid: 10\ndata: 1\n\n'
    journal.append(Entry(0, 2, 9, data))  # an id line that only looks like the next one stands between

    assert journal.after(0) == [b"id: 10\ndata: 1\n\n"]


def test_a_cursor_in_the_data_is_not_taken_for_an_id_line() -> None:
    journal = Journal(Budget(1 << 30))
    journal.append(Entry(0, 2, 9, b"id: 9\ndata: id: 10\n\nid: 10\ndata: 1\n\n"))

    assert journal.after(0) == [b"id: 10\ndata: 1\n\n"]


def test_only_what_was_written_is_evicted() -> None:
    journal = filled(2, 2, 2)
    journal.written_to = 3  # the second entry is half written

    assert journal.trim(0)
    assert journal.evicted_to == 2
    assert ids(journal.after(-1)) == [2, 3, 4, 5]


def test_eviction_stops_at_the_limit_oldest_first() -> None:
    journal = filled(1, 1, 1)
    journal.written_to = 3
    size = journal.size // 3

    assert journal.trim(2 * size)
    assert journal.size == 2 * size
    assert journal.evicted_to == 1
    assert not journal.trim(2 * size)


def test_undelivered_events_are_never_evicted() -> None:
    """The server is not read on instead (R13)."""
    journal = filled(4, 4)

    assert not journal.trim(0)
    assert len(ids(journal.after(-1))) == 8


def test_budgets_are_filled_and_given_back_at_every_level() -> None:
    process = Budget(100)
    session = Budget(1 << 30, process)
    journal = filled(3, 3, budget=session)

    assert session.used == process.used == journal.size > 100
    assert process.is_exceeded
    assert session.is_exceeded  # by way of the wider one
    assert journal.is_exceeding

    journal.written_to = 6
    journal.trim(0)
    assert session.used == process.used == journal.size == 0
    assert not session.is_exceeded


def test_clearing_gives_everything_back() -> None:
    budget = Budget(10)
    journal = filled(2, 2, budget=budget)

    journal.clear()

    assert budget.used == 0
    assert journal.after(-1) == []


def test_backwards_begins_with_the_newest() -> None:
    assert [one.first for one in filled(2, 3, 1).backwards()] == [5, 2, 0]


def test_a_stream_that_fills_its_block_goes_on_in_another() -> None:
    """It never runs into the next stream's numbers (R15)."""
    numbering = Numbering()
    assert numbering.room == 0

    numbering.add_block(7)
    assert numbering.room == BLOCK_SPAN
    assert numbering.next_cursor == 7 * BLOCK_SPAN

    numbering.advance(BLOCK_SPAN)
    assert numbering.room == 0
    numbering.add_block(9)
    assert numbering.next_cursor == 9 * BLOCK_SPAN
    assert numbering.next_position == BLOCK_SPAN
    assert numbering.blocks == [(7, 0), (9, BLOCK_SPAN)]


def test_an_event_that_is_not_kept_takes_what_stands_before_it_along() -> None:
    """Nobody who returns to before it can be given the whole (R9)."""
    budget = Budget(1 << 30)
    journal = filled(2, 1, 3, budget=budget)

    journal.skip(2)

    assert journal.evicted_to == 3
    assert ids(journal.after(-1)) == [3, 4, 5]
    assert budget.used == journal.size == len(entry(3, 3).data)


def test_a_journal_that_holds_nothing_can_be_skipped_over() -> None:
    journal = filled()

    journal.skip(0)

    assert journal.evicted_to == 1
    assert journal.after(-1) == []
    assert not journal.trim(0)


def test_a_cursor_leads_to_the_position_at_which_it_was_given_out_and_to_no_other() -> None:
    """One beyond those of its block was never given out (R15)."""
    numbering = Numbering()
    numbering.add_block(7)
    numbering.advance(3)
    numbering.add_block(9)
    numbering.advance(2)

    assert [numbering.position_of(7, within) for within in range(4)] == [0, 1, 2, None]
    assert [numbering.position_of(9, within) for within in range(3)] == [3, 4, None]
    assert numbering.position_of(8, 0) is None
