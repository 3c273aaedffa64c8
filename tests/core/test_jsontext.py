"""JSON objects as text: where members stand, and edits in place."""

from __future__ import annotations

import pytest

from epochgate.core import jsontext


def _located(raw: bytes, start: int = 0, end: int | None = None) -> dict[str, bytes] | None:
    members = jsontext.read_object(raw[start:end])
    assert members is not None
    spans = jsontext.locate(raw, start, members)
    return None if spans is None else {key: raw[begin:end] for key, (begin, end) in spans.items()}


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        (b"{}", {}),
        (b" { } ", {}),
        (b'{"a":1,"b":{"a":2}}', {"a": b"1", "b": b'{"a":2}'}),
        (b'\r\n{\t"a" : 1 , "b" :"x" }\n', {"a": b"1", "b": b'"x"'}),
        (b'{"\\u0061\\/":[1, 2]}', {"a/": b"[1, 2]"}),
        (b'{"\xc3\xa4":true}', {"\xe4": b"true"}),
        (b'{"":null}', {"": b"null"}),
    ],
)
def test_members_are_located(raw: bytes, values: dict[str, bytes]) -> None:
    assert _located(raw) == values


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"b":2,"a":1}',
        b'{"a":1,"\\u0061":1}',
        b'{"b":2,"a":1,"a":12}',
        b'{"a":0,"a":"x}xxxx"}',
    ],
)
def test_a_key_that_stands_twice_is_not_located(raw: bytes) -> None:
    assert _located(raw) is None


def test_an_object_inside_is_located_in_the_whole_text() -> None:
    assert _located(b'{"x": {"a":1}}', 6, 13) == {"a": b"1"}


def test_a_path_is_followed() -> None:
    raw = b'{"a":{"b":7,"c":{}},"b":8}'

    assert jsontext.find_path(raw, ("a", "b")) == (10, 11)
    assert jsontext.find_path(raw, ("a", "x")) is None
    assert jsontext.find_path(raw, ("b", "x")) is None
    assert jsontext.find_path(raw, ()) == (0, len(raw))


def test_keys_are_unique_as_far_as_the_path_leads() -> None:
    raw = b'{"a":{"b":{"c":1,"c":2}}}'

    assert jsontext.has_unique_keys_on(raw, ("a",))
    assert not jsontext.has_unique_keys_on(raw, ("a", "b"))
    assert jsontext.has_unique_keys_on(raw, ("x", "b"))


def test_text_that_is_something_else_reads_as_nothing() -> None:
    assert jsontext.read_object(b"[1]") is None
    assert jsontext.read_array(b'{"a":1}') is None
    assert jsontext.read_array(b"[1") is None
    assert jsontext.read_string(b"1") is None
    assert jsontext.read_string(b'"\xff"') is None
    assert jsontext.read_string(None) is None


def test_a_member_is_set_in_place_or_first() -> None:
    assert jsontext.put(b'{"a": 1, "b":2}', "b", b"[3]") == b'{"a": 1, "b":[3]}'
    assert jsontext.put(b'{"a": 1}', "b", b"2") == b'{"b":2,"a": 1}'
    assert jsontext.put(b"{ }", "b", b"2") == b'{"b":2 }'
    assert jsontext.put(b'{"a":1,"a":2}', "a", b"3") == b'{"a":3}'


def test_utf8_is_told_from_other_bytes() -> None:
    assert jsontext.is_utf8(b"a")
    assert jsontext.is_utf8("ä".encode())
    assert not jsontext.is_utf8(b"\xe4")
