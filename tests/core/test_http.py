"""Headers by name, in any case: found, left out, set; cookies, codings, media types."""

import sys

import pytest

from epochgate.core import http


def test_the_first_value_of_a_name_in_any_case_is_found() -> None:
    headers = ((b"X-A", b"1"), (b"x-a", b"2"), (b"Y", b"3"))
    assert http.find(headers, b"x-a") == b"1"
    assert http.find(headers, b"y") == b"3"
    assert http.find(headers, b"z") is None


def test_a_head_that_comes_again_is_not_taken_apart_again() -> None:
    headers = ((b"X-A", b"1"), (b"x-a", b"2"))
    assert http.fields(headers) == {b"x-a": b"1"}
    assert http.fields(headers) is http.fields(headers)


def test_heads_that_were_looked_at_are_let_go() -> None:
    head = tuple([(b"n", b"%d" % number) for number in range(3)])
    unlooked = sys.getrefcount(head)
    assert http.find(head, b"n") == b"0"
    assert sys.getrefcount(head) > unlooked
    others = [((b"n", b"%d" % number),) for number in range(200)]  # each with an `id` of its own
    for number, other in enumerate(others):
        assert http.find(other, b"n") == b"%d" % number
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


HEADERS = ((b"Accept", b"a"), (b"X-Own", b"1"), (b"accept", b"b"), (b"x-own", b"2"))


def test_headers_are_left_out_by_name_and_the_others_keep_case_and_order() -> None:
    assert http.without(HEADERS, (b"accept",)) == ((b"X-Own", b"1"), (b"x-own", b"2"))
    assert http.without(HEADERS, frozenset((b"x-own", b"host"))) == ((b"Accept", b"a"), (b"accept", b"b"))
    assert http.without(HEADERS, ()) == HEADERS


def test_a_header_that_is_set_stands_once_where_the_first_one_stood() -> None:
    assert http.with_value(HEADERS, b"x-OWN", b"3") == (
        (b"Accept", b"a"),
        (b"X-Own", b"3"),
        (b"accept", b"b"),
    )


def test_a_header_that_was_not_there_is_appended() -> None:
    assert http.with_value(HEADERS[:1], b"X-New", b"3") == ((b"Accept", b"a"), (b"X-New", b"3"))


def test_the_cookies_of_an_answer_are_known_by_name_without_their_attributes() -> None:
    answer = (
        (b"Set-Cookie", b"route=n1"),
        (b"Content-Type", b"text/plain"),
        (b"set-cookie", b"b=x=y"),
        (b"Set-Cookie", b"route = n2 ; Path=/; HttpOnly"),
    )

    assert http.set_cookies(answer) == {b"route": b"n2", b"b": b"x=y"}
    assert http.set_cookies(HEADERS) == {}


def test_a_healed_sessions_cookies_stand_in_the_place_of_the_clients_of_the_same_names() -> None:
    """The client's others stay, in one header (W16)."""
    own = ((b"Cookie", b"theme=dark; route=old"), (b"Accept", b"a"), (b"cookie", b"; lang=en"))

    assert http.with_cookies(own, {b"route": b"n2", b"b": b"1"}) == (
        (b"Accept", b"a"),
        (b"Cookie", b"theme=dark; lang=en; route=n2; b=1"),
    )


def test_a_client_without_cookies_gets_those_of_the_healed_session() -> None:
    assert http.with_cookies((), {b"route": b"n2"}) == ((b"Cookie", b"route=n2"),)


@pytest.mark.parametrize(
    ("coding", "is_coded"), [(None, False), (b"", False), (b"identity", False), (b"gzip", True)]
)
def test_a_body_in_a_coding_cannot_be_read_as_it_is(coding: bytes | None, is_coded: bool) -> None:
    headers = () if coding is None else ((b"Content-Encoding", coding),)

    assert http.is_coded(headers) is is_coded


@pytest.mark.parametrize(
    ("value", "media_type"),
    [
        (b"text/event-stream", b"text/event-stream"),
        (b" Text/Event-Stream ; charset=utf-8", b"text/event-stream"),
        (b"", b""),
    ],
)
def test_a_media_type_is_read_without_parameters_and_in_lower_case(value: bytes, media_type: bytes) -> None:
    assert http.media_type(((b"content-type", value),)) == media_type
    assert http.media_type(()) == b""
