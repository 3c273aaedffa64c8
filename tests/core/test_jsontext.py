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
        b'{"a":1,"a":1,"b":2}',
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


HALF = b"\\ud83d"  # of a surrogate pair, as JavaScript writes it where a string was cut


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        (b'{"a": "%b", "b":1}', {"a": b'"%b"', "b": b"1"}),
        (b'{"a":"\\ud83d\\ude00%b"}', {"a": b'"\\ud83d\\ude00%b"'}),
        (b'{"a":"%b","b":[1],"b":[2]}', {"a": b'"%b"', "b": b"[2]"}),
        (b'{"a":"%b","a":"\\ude00"}', {"a": b'"\\ude00"'}),
        (b'{"a":"%b","b":[1],"b":"\\ude00"}', {"a": b'"%b"', "b": b'"\\ude00"'}),
    ],
)
def test_an_object_with_cut_text_is_read_and_its_members_keep_theirs(
    raw: bytes, values: dict[str, bytes]
) -> None:
    """Of a key that stands twice the last counts."""
    members = jsontext.read_object(raw.replace(b"%b", HALF))

    assert members is not None
    assert {key: bytes(value) for key, value in members.items()} == {
        key: value.replace(b"%b", HALF) for key, value in values.items()
    }


def test_an_array_with_cut_text_is_read_and_its_elements_keep_theirs() -> None:
    elements = jsontext.read_array(b' ["%b" , 1,"\\ude00"]' % HALF)

    assert elements is not None
    assert [bytes(element) for element in elements] == [b'"\\ud83d"', b"1", b'"\\ude00"']


@pytest.mark.parametrize("rest", [b"", b"\x01", b"\\q"])
def test_cut_text_in_what_is_no_json_changes_nothing(rest: bytes) -> None:
    assert jsontext.read_object(b'{"a":"%b%b' % (HALF, rest)) is None
    assert jsontext.read_array(b'["%b%b' % (HALF, rest)) is None


def test_a_string_is_read_with_its_escapes() -> None:
    assert jsontext.read_string(b'"\\u0061\\n"') == "a\n"


@pytest.mark.parametrize(
    ("raw", "text", "start"),
    [
        (b'{"a":1,"id":7}', b"7", 12),
        (b'{"id":17,"id2":7}', b"17", 6),
        (b'{"id" :\r\n 7}', b"7", 10),
        (b'{"id": {"id2":7}}', b'{"id2":7}', 7),
        (b'{"id2":7,"id" :7}', b"7", 15),
    ],
)
def test_the_value_of_a_key_that_stands_once_is_found(raw: bytes, text: bytes, start: int) -> None:
    assert jsontext.find_member(raw, "id", text) == (start, start + len(text))
    assert raw[start : start + len(text)] == text


@pytest.mark.parametrize(
    ("path", "stripped"),
    [
        ((), b'{"b":{"k":2,"c":3}}'),
        (("b",), b'{"k":1, "b":{"c":3}}'),
        (("x",), b'{"k":1, "b":{"k":2,"c":3}}'),
        (("k",), b'{"k":1, "b":{"k":2,"c":3}}'),
    ],
)
def test_keys_are_stripped_where_the_path_leads_and_nowhere_else(
    path: tuple[str, ...], stripped: bytes
) -> None:
    assert jsontext.strip(b'{"k":1, "b":{"k":2,"c":3}}', path, ("k",)) == stripped


def test_what_has_nothing_to_strip_keeps_its_bytes() -> None:
    assert jsontext.strip(b'{ "a" : 1 }', (), ("k",)) == b'{ "a" : 1 }'
    assert jsontext.strip(b"[1]", (), ("k",)) == b"[1]"
    assert jsontext.strip(b'{"b":{"c":3},"x":1,"x":2}', ("b",), ("k",)) == b'{"b":{"c":3},"x":1,"x":2}'


def test_what_is_no_object_has_no_key_twice_and_leads_nowhere() -> None:
    assert jsontext.has_unique_keys_on(b"[1]", ("a",))
    assert jsontext.find_path(b"[1]", ("a",)) is None
