"""JSON objects as text: read the members undecoded, find where they stand, replace one in place.

An object is decoded to its members, each left raw, so that large values are never parsed. Positions
come from walking the members in order along the text: text and members agree unless a key stands
twice, and then there are no positions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache

import msgspec

Members = dict[str, msgspec.Raw]
Span = tuple[int, int]

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_OBJECT = msgspec.json.Decoder(Members)
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_STRING = msgspec.json.Decoder(str)
# Half of a surrogate pair, or (to be left alone) a whole one; the backslash before `u` is not escaped.
_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*)\\u[dD](?:[89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|([89a-fA-F][0-9a-fA-F]{2}))"
)
_KEY = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_WHITE = b" \t\r\n"
_SPACE = ord(" ")
_COMMA = ord(",")
_COLON = ord(":")
_CLOSE = ord("}")


def read_object(raw: bytes) -> Members | None:
    """The members of an object, undecoded, or None. Of a key that stands twice the last counts."""
    try:
        return _OBJECT.decode(raw)
    except UNREADABLE:
        pass
    text = _mended(raw)
    try:
        members = None if text is None else _OBJECT.decode(text)
    except UNREADABLE:
        return None
    if text is None or members is None:
        return None
    spans = locate(text, 0, members)
    if spans is None:  # a key stands twice
        spans = {key: _last_of(text, bytes(value)) for key, value in members.items()}
    return {key: msgspec.Raw(raw[start:end]) for key, (start, end) in spans.items()}


def _last_of(text: bytes, value: bytes) -> Span:
    at = text.rindex(value)
    return at, at + len(value)


def _mended(raw: bytes) -> bytes | None:
    """The text with another character for each half of a surrogate pair, in as many bytes; None if it
    has none. Halves that differ become private characters that differ.

    JavaScript writes such halves where a string was cut; they are JSON, but msgspec refuses them.
    """
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return None
    return _SURROGATE.sub(lambda found: found[1] + b"\\ue" + found[2] if found[2] else found[0], raw)


def read_array(raw: bytes) -> list[msgspec.Raw] | None:
    """The elements of an array, undecoded, or None."""
    if raw.lstrip(_WHITE)[:1] != b"[":
        return None
    try:
        return _ARRAY.decode(raw)
    except UNREADABLE:
        pass
    text = _mended(raw)
    try:
        elements = None if text is None else _ARRAY.decode(text)
    except UNREADABLE:
        return None
    if text is None or elements is None:
        return None
    at, found = text.index(b"[") + 1, []
    for element in map(bytes, elements):
        at = text.index(element, at)
        found.append(msgspec.Raw(raw[at : at + len(element)]))
        at += len(element)
    return found


def read_string(value: msgspec.Raw | bytes | None) -> str | None:
    """The string that this JSON text is, or None."""
    if value is None:
        return None
    try:
        return _STRING.decode(value)
    except UNREADABLE:
        return None


def text_of(members: Members, key: str) -> bytes | None:
    """The JSON text of a member as it stands, or None."""
    value = members.get(key)
    return None if value is None else bytes(value)


def is_utf8(raw: bytes) -> bool:
    if raw.isascii():
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def locate(raw: bytes, start: int, members: Members) -> dict[str, Span] | None:
    """Where the values of the object stand that begins at `start` (white space may come first).

    Every member is compared where the one before it ended. None if a key stands twice.
    """
    spans: dict[str, Span] = {}
    at = raw.index(b"{", start) + 1
    for key, value in members.items():
        name, text = b'"%b":' % key.encode(), bytes(value)
        if raw[at] <= _SPACE:
            at = _skip(raw, at)
        if raw.startswith(name, at):
            at += len(name)
        elif (at := _after_key(raw, at, key)) == 0:
            return None
        if raw[at] <= _SPACE:
            at = _skip(raw, at)
        if not raw.startswith(text, at):
            return None
        end = at + len(text)
        spans[key] = (at, end)
        at = _skip(raw, end) if raw[end] <= _SPACE else end
        if raw[at] == _COMMA:
            at += 1
    if raw[at] <= _SPACE:
        at = _skip(raw, at)
    return spans if raw[at] == _CLOSE else None


def has_unique_keys(raw: bytes, members: Members) -> bool:
    """Whether no key of this object (its `read_object`) stands twice."""
    return locate(raw, 0, members) is not None


def has_unique_keys_on(raw: bytes, path: Sequence[str]) -> bool:
    """The same for the object and those that the path leads through, as far as it leads."""
    members = read_object(raw)
    if members is None:
        return True
    if not has_unique_keys(raw, members):
        return False
    inner = text_of(members, path[0]) if path else None
    return inner is None or has_unique_keys_on(inner, path[1:])


def find_path(raw: bytes, path: Sequence[str]) -> Span | None:
    """Where the value at the path stands; None if it is not there or a key stands twice."""
    start, end = 0, len(raw)
    for key in path:
        members = read_object(raw[start:end])
        spans = None if members is None else locate(raw, start, members)
        if spans is None or key not in spans:
            return None
        start, end = spans[key]
    return start, end


def find_member(raw: bytes, key: str, text: bytes) -> Span:
    """Where `text` stands, the value of a key that stands once in all of `raw`, without escapes."""
    begin = _key_and_colon(key)
    at = raw.find(begin + text)
    if at >= 0:
        at += len(begin)
    else:
        at = raw.index(begin[:-1]) + len(begin) - 1
        at = _skip(raw, raw.index(b":", at) + 1)
    return at, at + len(text)


@cache
def _key_and_colon(key: str) -> bytes:
    return b'"%b":' % key.encode()


def _after_key(raw: bytes, at: int, key: str) -> int:
    """The position after a key in an unusual form (escapes, a space) and its colon; 0 for another."""
    token = _KEY.match(raw, at)
    if token is None or read_string(token[0]) != key:
        return 0
    colon = _skip(raw, token.end())
    return colon + 1 if raw[colon] == _COLON else 0


def _skip(raw: bytes, at: int) -> int:
    while raw[at] in _WHITE:
        at += 1
    return at


def splice(raw: bytes, edits: Sequence[tuple[Span, bytes]]) -> bytes:
    """The text with these spans, in order and apart, replaced."""
    parts: list[bytes] = []
    at = 0
    for (start, end), text in edits:
        parts += (raw[at:start], text)
        at = end
    parts.append(raw[at:])
    return b"".join(parts)


def put(raw: bytes, key: str, value: bytes) -> bytes:
    """The object with `key` set to this JSON text: in place, else as its first member.

    Every other byte is kept, unless a key stands twice: then the object is written anew.
    """
    members = read_object(raw) or {}
    if key not in members:
        start = raw.index(b"{") + 1
        text = b"%b:%b%b" % (msgspec.json.encode(key), value, b"," if members else b"")
        return raw[:start] + text + raw[start:]
    spans = locate(raw, 0, members)
    if spans is None:
        return msgspec.json.encode(members | {key: msgspec.Raw(value)})
    return splice(raw, [(spans[key], value)])


def strip(raw: bytes, path: Sequence[str], keys: Collection[str]) -> bytes:
    """The text less `keys` of the object at `path`; only that object is written anew."""
    members = read_object(raw)
    if members is None:
        return raw
    if not path:
        kept = {key: value for key, value in members.items() if key not in keys}
        return raw if len(kept) == len(members) else msgspec.json.encode(kept)
    old = text_of(members, path[0])
    if old is None:
        return raw
    new = strip(old, path[1:], keys)
    return raw if new == old else put(raw, path[0], new)
