"""Headers by name: the first value, any case, and no more heads held than a few."""

import sys

import pytest

from epochgate.core import http


def test_the_first_value_of_a_name_in_any_case_is_found() -> None:
    headers = ((b"X-A", b"1"), (b"x-a", b"2"), (b"Y", b"3"))
    assert http.find(headers, b"x-a") == b"1"
    assert http.find(headers, b"y") == b"3"
    assert http.find(headers, b"z") is None


def test_heads_that_were_looked_at_are_let_go() -> None:
    head = tuple([(b"n", b"%d" % number) for number in range(3)])
    unlooked = sys.getrefcount(head)
    assert http.find(head, b"n") == b"0"
    assert sys.getrefcount(head) > unlooked
    for number in range(200):
        assert http.find(((b"n", b"%d" % number),), b"n") == b"%d" % number
    assert sys.getrefcount(head) == unlooked


@pytest.mark.parametrize(
    ("accept", "is_taken"),
    [
        ([], True),
        ([b""], True),
        ([b"text/event-stream"], True),
        ([b"application/json, text/event-stream"], True),
        ([b"application/json", b"Text/Event-Stream; charset=utf-8"], True),
        ([b"*/*"], True),
        ([b"text/*;q=0.1"], True),
        ([b"application/json"], False),
        ([b"application/*, text/plain"], False),
        ([b"text/event-stream;q=0, application/json"], False),
        ([b"text/event-stream; q=0.000"], False),
        ([b"text/event-stream;q=0.001"], True),
        ([b"text/event-stream-like"], False),
    ],
)
def test_who_takes_an_event_stream(accept: list[bytes], is_taken: bool) -> None:
    assert http.accepts_events(tuple((b"ACCEPT", value) for value in accept)) is is_taken
