"""The scanner for answers that are passed on in pieces: it replaces what a parser would."""

from __future__ import annotations

import re
from typing import Any

from epochgate.core.scan import TopLevelReplacer
from tests.fuzz import plain
from tests.fuzz.plain import Pairs
from tests.fuzz.spelling import Choices, cut, json_object, spelled

WORDS = (
    b'{"id":12345678901234,"result":{}}',
    b'{"result":{},"id":"abc"}',
    b'"id":12345678901234',
    b'"id":"abc"',
    b'"id"',
    b"12345678901234",
    b'"abc"',
    b'"x":',
    b'"\\"id":12345678901234,"',
    b'"\\\\"',
    b'\\"',
    b"\\\\",
    b'"}{]["',
    b"},",
    b"],",
    b" :\t",
    b"\r\n  ",
    b"data: ",
    b"\xff",
    b"0",
    b"-",
)
KEYS = (b'"id"', b'"x"', b'"\\"id"', b'"id\\\\"', b'"\\\\id"', b'"result"')
VALUES = (
    b"12345678901234",
    b'"abc"',
    b"123456789012345",
    b"-12345678901234",
    b"{}",
    b'"}{]["',
    b'"\\"id\\":12345678901234,"',
    b'"\\\\"',
    b'"id"',
    b'"\\"abc\\""',
    b'"' + b"x" * 90 + b'"',
)
_STAMPS = (b"12345678901234", b'"abc"')
_FAR = re.compile(rb"[ \t\r\n]{40}")  # no server writes so much white space around a colon
_ESCAPED_KEY = re.compile(rb"\\u00[67]")  # nor `id` so


def one(data: bytes) -> None:
    choices = Choices(data)
    stamp = choices.one_of(_STAMPS)
    sizes = choices.numbers(16, below=24)
    is_object = choices.number(2)
    text = json_object(choices, KEYS, VALUES) if is_object else spelled(choices.rest(), WORDS)
    count, out = _scanned(text, stamp, sizes)
    if _FAR.search(text) or _ESCAPED_KEY.search(text):
        return
    try:
        value = plain.read(text.removeprefix(b"data: "))
    except (plain.NotJson, plain.Unclear):
        return
    wanted, stands = _replaced(value, plain.read(stamp))
    assert count == stands
    assert plain.read(out.removeprefix(b"data: ")) == wanted


def _scanned(text: bytes, stamp: bytes, sizes: list[int]) -> tuple[int, bytes]:
    replacer = TopLevelReplacer(b"id", stamp, b'"new"')
    out = b"".join([*map(replacer.feed, cut(text, sizes)), replacer.finish()])
    return replacer.count, out


def _replaced(value: Any, stamp: Any) -> tuple[Any, int]:
    if not isinstance(value, Pairs):
        return value, 0
    is_it = [key == "id" and type(inner) is type(stamp) and inner == stamp for key, inner in value]
    changed = Pairs(
        (key, "new" if replaced else inner) for (key, inner), replaced in zip(value, is_it, strict=True)
    )
    return changed, sum(is_it)
