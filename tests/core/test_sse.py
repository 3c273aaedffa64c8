"""Events as bytes: framing, reading, other ids."""

from __future__ import annotations

import pytest

from epochgate.core import sse
from epochgate.core.sse import Framer


def test_a_framer_releases_whole_events_and_keeps_the_rest() -> None:
    framer = Framer()

    assert framer.feed(b"data: 1\n\ndata: 2\n\nda") == b"data: 1\n\ndata: 2\n\n"
    assert framer.pending == 2
    assert framer.feed(b"ta: 3\n") == b""
    assert framer.feed(b"\n") == b"data: 3\n\n"
    assert framer.pending == 0


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_that_comes_byte_by_byte_is_released_with_its_last_byte(end: bytes) -> None:
    event = b"id: 1" + end + b"data: x" + end + end
    framer = Framer()

    released = [framer.feed(event[at : at + 1]) for at in range(len(event))]

    assert released[-1] == event
    assert not any(released[:-1])


def test_a_byte_order_mark_is_removed_even_when_it_is_cut() -> None:
    framer = Framer()

    assert framer.feed(b"\xef\xbb") == b""
    assert framer.pending == 2
    assert framer.feed(b"\xbfdata: 1\n\n") == b"data: 1\n\n"


def test_a_byte_order_mark_later_on_is_content() -> None:
    framer = Framer()
    framer.feed(b"data: 1\n\n")

    assert framer.feed(b"\xef\xbb\xbfdata: 2\n\n") == b"\xef\xbb\xbfdata: 2\n\n"


def test_an_event_that_ends_in_cr_after_crlf_waits_for_the_next_byte() -> None:
    framer = Framer()

    assert framer.feed(b"data: 1\r\n\r") == b""
    assert framer.feed(b"\ndata: 2") == b"data: 1\r\n\r\n"
    assert framer.feed(b"\n\r") == b""
    assert framer.feed(b"data: 3\r\n\r\n") == b"data: 2\n\rdata: 3\r\n\r\n"


@pytest.mark.parametrize(("is_cut", "end"), [(True, b"\r\n\r\n"), (False, b"\r\n\r")])
def test_an_event_that_was_cut_in_its_last_line_end_gets_that_line_end(is_cut: bool, end: bytes) -> None:
    """What the next leg brings would follow a bare CR, which some readers do not take for a line end."""
    framer = Framer()
    framer.feed(b"data: 1\r\n\r")

    assert framer.finish(is_cut=is_cut) == b"data: 1" + end
    assert framer.pending == 0
    assert framer.finish(is_cut=is_cut) == b""


def test_a_held_cr_before_another_cr_ends_two_lines() -> None:
    framer = Framer()

    assert framer.feed(b"data: 1\n\n\r") == b"data: 1\n\n"
    assert framer.feed(b"\rd") == b"\r\r"
    assert framer.pending == 1


def test_a_bare_cr_event_is_released_at_once_and_a_late_lf_swallowed() -> None:
    framer = Framer()

    assert framer.feed(b"data: 1\r\r") == b"data: 1\r\r"
    assert framer.feed(b"\ndata: 2\r\r") == b"data: 2\r\r"
    assert framer.feed(b"data: 3\r\r") == b"data: 3\r\r"


def test_a_crlf_cut_inside_is_one_line_end() -> None:
    framer = Framer()

    assert framer.feed(b"event: message\r") == b""
    assert framer.feed(b"\ndata: 1\r") == b""
    assert framer.feed(b"\n\r\n") == b"event: message\r\ndata: 1\r\n\r\n"


def test_a_tail_given_up_leaves_the_rest_as_the_first_event_of_a_later_block() -> None:
    framer = Framer()
    framer.feed(b"event: message\r\ndata: abc\r")

    tail = framer.take_tail()
    block = framer.feed(b"\nretry: 5\r\n\r\ndata: 2\r\n\r\n")

    assert tail == b"event: message\r\ndata: ab"
    assert sse.split(block) == [b"c\r\nretry: 5\r\n\r\n", b"data: 2\r\n\r\n"]


def test_a_large_event_is_held_and_released_whole() -> None:
    event = b"data: " + b"x" * 300_000 + b"\n\n"
    framer = Framer()

    blocks = [framer.feed(event[at : at + 65_536]) for at in range(0, len(event), 65_536)]

    assert b"".join(blocks) == event
    assert not any(blocks[:-1])


def test_a_block_is_split_behind_its_blank_lines() -> None:
    block = b"data: 1\n\n: note\n\ndata: 2\r\n\r\ndata: 3\r\r\n"

    assert sse.split(block) == [b"data: 1\n\n", b": note\n\n", b"data: 2\r\n\r\n", b"data: 3\r\r\n"]


def test_a_blank_line_that_ends_no_event_stands_alone() -> None:
    assert sse.split(b"\ndata: 1\n\n\n") == [b"\n", b"data: 1\n\n", b"\n"]


def test_an_empty_block_has_no_events() -> None:
    assert sse.split(b"") == []


def test_the_fields_of_an_event_are_read() -> None:
    raw = b": note\r\nid: 7\r\nevent: message\r\nretry: 250\r\ndata: a\r\ndata:  b\r\ncolor: red\r\n\r\n"

    event = sse.parse(raw)

    assert event == sse.Event(raw, b"7", b"message", b"a\n b", 250)


@pytest.mark.parametrize(
    ("raw", "data"),
    [
        (b"id: 1\n\n", None),
        (b"data\n\n", b""),
        (b"data:\n\n", b""),
        (b"data: \n\n", b""),
        (b"data:x\n\n", b"x"),
        (b"data\ndata\n\n", b"\n"),
        (b"Data: x\n\n", None),
        (b" data: x\n\n", None),
    ],
)
def test_data_is_told_from_no_data(raw: bytes, data: bytes | None) -> None:
    assert sse.parse(raw).data == data


def test_an_id_with_nul_and_a_retry_that_is_no_number_are_ignored() -> None:
    event = sse.parse(b"id: a\0b\nretry: 5s\nretry: " + b"9" * 5000 + b"\ndata: x\n\n")

    assert event.id is None
    assert event.retry is None


def test_the_last_id_and_event_name_count() -> None:
    event = sse.parse(b"id: 1\nid\nevent: a\nevent: b\ndata: x\n\n")

    assert event.id == b""
    assert event.name == b"b"


@pytest.mark.parametrize(
    ("raw", "is_message"),
    [
        (b'data: {"a":1}\n\n', True),
        (b'event: message\ndata: {"a":1}\n\n', True),
        (b"id: 1\ndata: \n\n", False),
        (b"id: 1\n\n", False),
        (b"data: {}\n\n", False),
        (b"data:   \n\n", False),
        (b'event: prime\ndata: {"a":1}\n\n', False),
        (b"event: close\ndata: x\n\n", False),
        (b": keepalive\n\n", False),
    ],
)
def test_priming_and_comments_are_no_messages(raw: bytes, is_message: bool) -> None:
    assert sse.parse(raw).is_message is is_message


@pytest.mark.parametrize(
    ("raw", "stamped"),
    [
        (b"data: x\n\n", b"id: 5\ndata: x\n\n"),
        (b"id: up\ndata: x\n\n", b"id: 5\ndata: x\n\n"),
        (b"event: message\r\nid\r\ndata: x\r\n\r\n", b"id: 5\r\nevent: message\r\ndata: x\r\n\r\n"),
        (b"data: x\rid:3\r\r", b"id: 5\rdata: x\r\r"),
        (b"idle: no id\ndata: id: 3\n\n", b"id: 5\nidle: no id\ndata: id: 3\n\n"),
        (b"data:x\nretry: 3\ncolor:red\n\n", b"id: 5\ndata:x\nretry: 3\ncolor:red\n\n"),
    ],
)
def test_a_cursor_takes_the_place_of_the_events_own_id(raw: bytes, stamped: bytes) -> None:
    assert sse.with_cursor(raw, 5) == stamped


@pytest.mark.parametrize(
    ("raw", "data", "changed"),
    [
        (b"event: message\ndata: a\nretry: 1\n\n", b"b", b"event: message\ndata: b\nretry: 1\n\n"),
        (b"data:a\r\n\r\n", b"b", b"data:b\r\n\r\n"),
        (b"data:a\n\n", b" b", b"data:  b\n\n"),
        (b"data\n\n", b"b", b"data: b\n\n"),
        (b"data: {\ndata:1\ndata: }\n\n", b"{\n2\n}", b"data: {\ndata:2\ndata: }\n\n"),
        (b"data: a\nid: 1\ndata: b\n\n", b"c", b"data: c\nid: 1\n\n"),
        (b"data: a\r\n\r\n", b"b\nc", b"data: b\r\ndata: c\r\n\r\n"),
        (b"id: 1\n\n", b"c", b"id: 1\n\n"),
    ],
)
def test_data_is_replaced_and_every_other_line_kept(raw: bytes, data: bytes, changed: bytes) -> None:
    assert sse.with_data(sse.parse(raw), data) == changed


def test_a_blank_line_stays_one_when_the_line_before_it_is_taken_out() -> None:
    """A CR and an LF that come together would be one line end, and the event would have none."""
    raw = b": c\rid: 1\n\n"

    assert sse.with_cursor(raw, 7) == b"id: 7\r\n: c\r\r\n"
    event = sse.parse(b"data: {\r: c\rdata: }\n\n")
    assert sse.with_data(event, b"{}") == b"data: {}\n: c\r\r\n"


def test_lines_of_named_fields_are_taken_out() -> None:
    assert (
        sse.without_fields(b"retry: 5\r\nid: 1\r\ndata: x\r\n\r\n", (b"retry", b"id")) == b"data: x\r\n\r\n"
    )


def test_our_own_events_are_written_out() -> None:
    assert sse.message(b'{"a":1}', 9) == b'id: 9\nevent: message\ndata: {"a":1}\n\n'
    assert sse.priming(9) == b"id: 9\ndata: \n\n"
    assert not sse.parse(sse.KEEPALIVE).is_message
    assert sse.KEEPALIVE_ONE_LINE == b": keepalive\n"


def test_the_beginning_of_an_incomplete_event_can_be_looked_at() -> None:
    framer = Framer()
    framer.feed(b"data: 1\n\ndata: ")
    framer.feed(b"23")

    assert framer.peek(7) == b"data: 2"
    assert framer.peek(100) == b"data: 23"
    assert repr(framer) == "<Framer 8 pending>"


def test_an_event_that_is_not_whole_at_the_end_is_none() -> None:
    framer = Framer()
    framer.feed(b"data: 1\n")

    assert framer.finish(is_cut=True) == b""


def test_what_follows_the_last_blank_line_is_split_off() -> None:
    assert sse.split(b"data: 1\r\n\r\ndata: 2\r\n") == [b"data: 1\r\n\r\n", b"data: 2\r\n"]
    assert sse.split(b"data: 1\n\ndata: 2\n") == [b"data: 1\n\n", b"data: 2\n"]
