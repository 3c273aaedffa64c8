"""The forms in which servers write events: a block of one form is known by counting, no other is."""

from __future__ import annotations

import pytest

from epochgate.core import eventforms, sse
from epochgate.core.eventforms import ID_FORMS, PLAIN_FORMS, Form

ENDS = (b"\n", b"\r\n")
# What a form's events look like: the head, with an id where there is one, and the first key's quote.
PLAIN = (
    b'event: message\ndata: {"',
    b'data: {"',
    b'event:message\ndata:{"',
    b'data:{"',
)
WITH_ID = (
    b'id: 7\nevent: message\ndata: {"',
    b'event: message\nid: 7\ndata: {"',
    b'id: 7\ndata: {"',
    b'id:7\nevent:message\ndata:{"',
)


def event(head: bytes, end: bytes = b"\n") -> bytes:
    return (head + b'a":1}\n\n').replace(b"\n", end)


def form_of(forms: tuple[Form, ...], block: bytes) -> Form:
    """The one form that takes this event."""
    (found,) = [
        form
        for form in forms
        if block.startswith(form.begin)
        and block.endswith(form.blank)
        and form.after in block
        and form.count(block) == 1
    ]
    return found


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("head", PLAIN)
def test_a_block_of_events_without_ids_is_counted(head: bytes, end: bytes) -> None:
    one = event(head, end)

    assert form_of(PLAIN_FORMS, one).count(one * 3) == 3


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("head", WITH_ID)
def test_a_block_of_events_with_ids_is_counted(head: bytes, end: bytes) -> None:
    one = event(head, end)

    assert form_of(ID_FORMS, one).count(one * 3) == 3


@pytest.mark.parametrize("head", [*PLAIN, *WITH_ID])
@pytest.mark.parametrize(
    "other",
    [
        b": comment\n\n",
        b"retry: 5\n\n",
        b"event: close\ndata: {}\nid: 1\n\n",
        b"\n",
        b'data: {"a":1\ndata: }\n\n',
    ],
)
def test_a_block_with_anything_else_in_it_counts_for_nothing(head: bytes, other: bytes) -> None:
    one = event(head)
    form = form_of(PLAIN_FORMS if head in PLAIN else ID_FORMS, one)

    assert form.count(one + other + one) == 0


def test_a_single_event_is_counted_by_its_lines() -> None:
    """Where it begins and ends is looked at by who asks."""
    form = form_of(PLAIN_FORMS, event(PLAIN[1]))

    assert form.count(event(PLAIN[1])) == 1
    assert form.count(b'data: {"a":1}\n: comment\n\n') == 0


@pytest.mark.parametrize("head", [PLAIN[0], WITH_ID[0]])
def test_a_carriage_return_that_ends_no_line_of_the_form_counts_for_nothing(head: bytes) -> None:
    """It would end a line that nobody looked at."""
    forms = PLAIN_FORMS if head in PLAIN else ID_FORMS
    for end in ENDS:
        one = event(head, end)
        hidden = one.replace(b'"a"', b'"a\rid: 9"')
        assert form_of(forms, one).count(one + one) == 2
        assert form_of(forms, one).count(one + hidden) == 0


@pytest.mark.parametrize("end", ENDS)
def test_an_event_is_written_under_a_cursor_in_the_same_form(end: bytes) -> None:
    plain = form_of(PLAIN_FORMS, event(PLAIN[0], end))
    assert plain.head % 5 == b'id: 5\nevent: message\ndata: {"'.replace(b"\n", end)

    for head, written in zip(
        WITH_ID,
        [
            b'id: 5\nevent: message\ndata: {"a":1}\n\n',
            b'id: 5\nevent: message\ndata: {"a":1}\n\n',
            b'id: 5\ndata: {"a":1}\n\n',
            b'id: 5\nevent:message\ndata:{"a":1}\n\n',
        ],
        strict=True,
    ):
        form = form_of(ID_FORMS, event(head, end))
        assert form.out % (5, b'a":1}') == written.replace(b"\n", end)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("head", [b"data: ", b"data:", b"event: message\ndata: ", b"event:message\ndata:"])
def test_a_usual_block_is_stamped_as_its_events_would_be(head: bytes, end: bytes) -> None:
    events = [(head + b'{"n":%d,"s":"%%b"}\n\n' % n).replace(b"\n", end) for n in range(3)]

    assert eventforms.stamp_cursors(b"".join(events[:1]), 40) == (sse.with_cursor(events[0], 40), 1)
    expected = b"".join(sse.with_cursor(event, 40 + n) for n, event in enumerate(events))
    assert eventforms.stamp_cursors(b"".join(events), 40) == (expected, 3)


USUAL = b'event: message\ndata: {"a":1}\n\n'


@pytest.mark.parametrize(
    "unusual",
    [
        b"id: 3\ndata: {}\n\n",
        b'id: 3\nevent: message\ndata: {"a":1}\n\n',
        b'event: message\nid: 3\ndata: {"a":1}\n\n',
        b'event: message\ndata: {"a":1}\nid: 3\n\n',
        b'event: message\ndata: {"a":1}\nretry: 3\n\n',
        b'event: message\ndata: {"a":1}\ndata: {"b":1}\n\n',
        b'event: message\ndata: {"a":1}\n: note\n\n',
        b': note\nevent: message\ndata: {"a":1}\n\n',
        b": note\n\n",
        b"\n",
        b"event: message\ndata: \n\n",
        b"event: message\ndata: {}\n\n",
        b"event: message\n\n",
        b'event: close\ndata: {"a":1}\n\n',
        b'event: message\ndata: {"a":1}\r\n\r\n',
        b'event: message\ndata: {"a":1}\rid: 4\n\n',
        b'event: message\ndata: {"a":1}\n',
    ],
)
@pytest.mark.parametrize("form", [b"%b", USUAL + b"%b", b"%b" + USUAL, USUAL + b"%b" + USUAL])
def test_anything_unusual_in_a_block_is_left_to_the_slow_path(form: bytes, unusual: bytes) -> None:
    assert eventforms.stamp_cursors(form % unusual, 1) is None


def test_a_bare_cr_in_a_crlf_block_is_left_to_the_slow_path() -> None:
    assert eventforms.stamp_cursors(b'data: {"a":1}\rretry: 3\r\n\r\n', 1) is None
    assert eventforms.restamp_cursors(b'id: 1\r\ndata: {"a":1}\rretry: 3\r\n\r\n', 1) is None


def test_a_block_of_two_forms_is_left_to_the_slow_path() -> None:
    assert eventforms.stamp_cursors(USUAL + b'data: {"a":1}\n\n', 1) is None
    assert eventforms.stamp_cursors(b'data: {"a":1}\n\n' + USUAL, 1) is None


ID_EVENTS = [
    b'id: %b\r\nevent: message\r\ndata: {"n":1}\r\n\r\n',
    b'event: message\nid: %b\ndata: {"n":1}\n\n',
    b'id: %b\ndata: {"n":1}\n\n',
    b'id:%b\nevent:message\ndata:{"n":1}\n\n',
    b'id: %b\nevent: message\ndata: {"n":1}\n\n',
]


@pytest.mark.parametrize("event", ID_EVENTS)
def test_upstream_ids_are_taken_out_and_told(event: bytes) -> None:
    block = b"".join(event % name for name in (b"a_1", b"a_2", b""))

    stamped = eventforms.restamp_cursors(block, 7)

    assert stamped is not None
    assert stamped[1] == [b"a_1", b"a_2", b""]
    assert stamped[0] == b"".join(sse.with_cursor(event % b"x", 7 + n) for n in range(3))


@pytest.mark.parametrize(
    "block",
    [
        b'id: 1\n\nid: 2\ndata: {"a":1}\ndata: {"b":1}\n\n',
        b'id: 1\r\n\r\nid: 2\r\nevent: message\r\ndata: {"\r\nevent: message\r\ndata: {"\r\n\r\n',
        b'id: 1\ndata: {"a":1}\n\nid: 2\n\nid: 3\ndata: {"a":1}\ndata: {"b":1}\n\n',
        b'id: a\0b\ndata: {"a":1}\n\n',
        b'id: 1\ndata: {"a":1}\nid: 2\n\n',
        b'id: 1\ndata: {"a":1}\n\ndata: {"a":1}\n\n',
        b'id: 1\ndata: {"a":1}\r\n\n',
        b'id: 1\nretry: 3\ndata: {"a":1}\n\n',
        b"id: 1\ndata: \n\n",
        b'data: {"a":1}\n\n',
    ],
)
def test_a_block_whose_ids_are_not_one_each_is_left_to_the_slow_path(block: bytes) -> None:
    assert eventforms.restamp_cursors(block, 1) is None


def test_the_upstream_id_of_a_single_event_is_taken_out_and_told() -> None:
    block = b'id: s_1\nevent: message\ndata: {"a":1}\n\n'

    assert eventforms.restamp_cursors(block, 7) == (b'id: 7\nevent: message\ndata: {"a":1}\n\n', [b"s_1"])
