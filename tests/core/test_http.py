"""Headers by name: the first value, any case, and no more heads held than a few."""

import sys

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
