"""Slow readings that share nothing with the product: the WHATWG's event streams, and JSON by `json`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


# --- event streams ----------------------------------------------------------------------------------


def lines(stream: bytes) -> list[bytes]:
    """The lines that are complete, byte by byte; each ends in LF, CRLF or CR."""
    found: list[bytes] = []
    line = bytearray()
    was_cr = False
    for byte in stream:
        if byte == 10 and was_cr:
            was_cr = False
            continue
        was_cr = byte == 13
        if byte in (10, 13):
            found.append(bytes(line))
            line.clear()
        else:
            line.append(byte)
    return found


def events(stream: bytes) -> list[list[bytes]]:
    """The lines of each event that its blank line completes."""
    found: list[list[bytes]] = [[]]
    for line in lines(stream.removeprefix(b"\xef\xbb\xbf")):
        if line:
            found[-1].append(line)
        else:
            found.append([])
    return found[:-1]


@dataclass(slots=True)
class Fields:
    """What the lines of one event say."""

    id: bytes | None = None
    name: bytes = b""
    data: bytes | None = None
    retry: int | None = None
    others: list[bytes] = field(default_factory=list)  # every line that is no id, as it stands


def fields(of_event: list[bytes]) -> Fields:
    said = Fields()
    for line in of_event:
        key, value = line, b""
        for at, byte in enumerate(line):
            if byte == ord(":"):
                key, value = line[:at], line[at + 1 :]
                break
        if value.startswith(b" "):
            value = value[1:]
        if key != b"id":
            said.others.append(line)
        if key == b"data":
            said.data = value if said.data is None else said.data + b"\n" + value
        elif key == b"event":
            said.name = value
        elif key == b"id" and 0 not in value:
            said.id = value
        elif key == b"retry" and value and all(byte in b"0123456789" for byte in value) and len(value) < 16:
            said.retry = int(value)
    return said


# --- JSON -------------------------------------------------------------------------------------------


class NotJson(ValueError):
    pass


class Unclear(Exception):
    """JSON that readers may refuse: deeper than their stack, or half of a surrogate pair in a key or in
    one of the short texts that decide something."""


_DECIDING = frozenset(
    ("id", "method", "name", "progressToken", "requestId", "session_epoch", "x.dev/epoch", "époque")
)


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written: none is rounded."""

    text: str


class Pairs(list[tuple[str, Any]]):
    """The members of an object in order, with those that stand twice."""

    def last(self) -> dict[str, Any]:
        return dict(self)

    @property
    def has_twice(self) -> bool:
        return len(dict(self)) < len(self)


def read(raw: bytes) -> Any:
    """The value of a JSON text. Raises `NotJson`, or `Unclear` where the standard leaves readers a choice."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise NotJson from error
    try:
        value = json.loads(
            text,
            object_pairs_hook=Pairs,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_refuse,
        )
    except ValueError as error:
        raise NotJson from error
    except RecursionError as error:
        raise Unclear from error
    if _is_unclear(value):
        raise Unclear
    return value


def _refuse(constant: str) -> Any:
    raise NotJson(constant)


def _is_unclear(value: Any, key: str = "") -> bool:
    if isinstance(value, str):
        return key in _DECIDING and _LONE_SURROGATE.search(value) is not None
    if isinstance(value, Pairs):
        names = (name for name, _ in value)
        is_key_cut = any(_LONE_SURROGATE.search(name) for name in names)
        return is_key_cut or any(_is_unclear(inner, _inner(key, name)) for name, inner in value)
    return isinstance(value, list) and any(_is_unclear(inner, key) for inner in value)


def _inner(key: str, name: str) -> str:
    return key if key in _DECIDING else name


def last_wins(value: Any) -> Any:
    """The value with objects as dicts: of members that stand twice the last counts."""
    if isinstance(value, Pairs):
        return {key: last_wins(inner) for key, inner in value}
    return [last_wins(inner) for inner in value] if isinstance(value, list) else value
