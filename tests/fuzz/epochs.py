"""Epochs: what a message states, and that a block said to be usual states no other one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from epochgate.core import epoch, sse
from tests.fuzz import plain
from tests.fuzz.plain import Number, Pairs
from tests.fuzz.spelling import Choices, json_object, spelled

WORDS = (
    b'data: {"method":"n","params":{"_meta":{"session_epoch":7}}}\n\n',
    b'data: {"id":1,"result":{"_meta":{"session_epoch":8}}}\n\n',
    b'data: {"id":1,"error":{"data":{"_meta":{"x.dev/epoch":"a"}}}}\n\n',
    b'data: {"method":"n","params":{"_meta":{"x.dev\\/epoch":"a"}}}\n\n',
    b'"session_epoch"',
    b'"session_epoch":',
    b'"session_epoch": ',
    b'"session\\u005fepoch":',
    b'"x.dev/epoch":',
    b'"x.dev\\/epoch":',
    b'"x.dev\\u002Fepoch":',
    b'"\xc3\xa9poque":',
    b'"\\u00e9poque":',
    b'{"result":{"_meta":{',
    b'{"params":{"_meta":{',
    b'{"error":{"data":{"_meta":{',
    b'"result":',
    b'"params":',
    b'"_meta":{',
    b'"\\u005fmeta":{',
    b"}}}",
    b"}}",
    b"7",
    b"7.0",
    b"8",
    b'"a"',
    b'"\\u0061"',
    b'"7"',
    b"null",
    b'{"x":7}',
    b"data: ",
    b"\n\n",
    b"\ndata: ",
    b"event: message\n",
    b"id: ",
    b"\xff",
    b"\\ud83d",
    b'\\"',
    b"[",
    b"],",
)
MEMBERS = (
    b'"result"',
    b'"params"',
    b'"error"',
    b'"data"',
    b'"_meta"',
    b'"session_epoch"',
    b'"x.dev/epoch"',
    b'"x.dev\\/epoch"',
    b'"session\\u005fepoch"',
    b'"\xc3\xa9poque"',
    b'"\\u00e9poque"',
    b'"x"',
)
VALUES = (
    b"7",
    b"7.0",
    b"78",
    b'"a"',
    b'"\\u0061"',
    b'"7"',
    b"null",
    b'{"x":7}',
    b'{"x" : 7}',
    b'"\xc3\xa9"',
    b'"\\u00e9"',
    b'{"session_epoch":7}',
    b'{"_meta":{"session_epoch":7}}',
    b'{"_meta":{"session_epoch":8}}',
    b'"\\"session_epoch\\":7,"',
    b'"\\ud83d"',
)
_CAPTURED = (b"7", b'"a"', b'{"x":7}', None, b"78", '"é"'.encode())
_KEYS = (
    ("session_epoch",),
    ("session_epoch", "x.dev/epoch"),
    ("x.dev/epoch", "session_epoch"),
    ("époque",),
)
_PLACES = (("result",), ("params",), ("error", "data"))


def one(data: bytes) -> None:
    choices = Choices(data)
    keys = choices.one_of(_KEYS)
    captured = choices.one_of(_CAPTURED)
    if choices.number(2):
        messages = [json_object(choices, MEMBERS, VALUES) for _ in range(1 + choices.number(3))]
        text = b"\n\n".join([b"data: " + one.replace(b"\r\n", b"\ndata:") for one in messages])
    else:
        text = spelled(choices.rest(), WORDS)
        _message(text, keys)
    block = sse.Framer().feed(text + b"\n\n")
    is_usual = epoch.fast_equal_count(block, keys, captured)
    for raw in sse.split(block):
        message = sse.parse(raw).data
        if message is None:
            continue
        _message(message, keys)
        if is_usual:
            _states_no_other(message, keys, captured)


def _message(raw: bytes, keys: Sequence[str]) -> None:
    stated = epoch.stated_in(raw, keys)
    try:
        value = plain.read(raw)
    except plain.NotJson:
        assert stated is None or not raw.isascii()
        return
    except plain.Unclear:
        return
    members = value if isinstance(value, list) and not isinstance(value, Pairs) else [value]
    found = {_stated(member, keys) for member in members}
    wanted = found.pop() if len(found) == 1 else (_CONFLICT if found else None)
    if wanted is _CONFLICT or wanted is None:
        assert stated == (epoch.CONFLICT if wanted is _CONFLICT else None)
    else:
        assert stated not in (None, epoch.CONFLICT)
        assert _comparable(plain.read(stated or b"")) == wanted


_CONFLICT = object()


def _stated(message: Any, keys: Sequence[str]) -> Any:
    found = []
    is_sound = isinstance(message, Pairs) and not message.has_twice
    for place in _PLACES:
        inner, is_sound_on_the_way = message, True
        for name in (*place, "_meta"):
            inner = inner.last().get(name) if isinstance(inner, Pairs) else None
            is_sound_on_the_way = is_sound_on_the_way and isinstance(inner, Pairs) and not inner.has_twice
        meta = inner.last() if isinstance(inner, Pairs) else {}
        stated = [meta[key] for key in keys if meta.get(key) is not None]
        if stated:
            found.append(_comparable(stated[0]) if is_sound_on_the_way else _CONFLICT)
    if not found:
        return None
    is_one = is_sound and len(set(found)) == 1
    return found[0] if is_one else _CONFLICT


def _comparable(value: Any) -> Any:
    """Hashable; equal for the same value in the same order of members, digits never rounded."""
    if isinstance(value, Pairs):
        return "object", tuple((key, _inner(one)) for key, one in value)
    if isinstance(value, list):
        return "array", tuple(map(_inner, value))
    if isinstance(value, Number):
        text = value.text
        is_decimal = "." in text and "e" not in text.lower()
        return "number", text.rstrip("0").removesuffix(".") if is_decimal else text
    return type(value).__name__, value


def _inner(value: Any) -> Any:
    """Within an epoch that is an object or array, numbers and strings stay as they are written."""
    return value if isinstance(value, Number) else _comparable(value)


def _states_no_other(raw: bytes, keys: Sequence[str], captured: bytes | None) -> None:
    """However a reader takes members that stand twice, it finds no other epoch."""
    try:
        value = plain.read(raw)
    except (plain.NotJson, plain.Unclear):
        return
    known = _CONFLICT if captured is None else _comparable(plain.read(captured))
    for stated in _all_stated(value, keys):
        assert _comparable(stated) == known


def _all_stated(value: Any, keys: Sequence[str]) -> Iterator[Any]:
    members = value if isinstance(value, list) and not isinstance(value, Pairs) else [value]
    for member in members:
        for place in _PLACES:
            for meta in _all_at(member, (*place, "_meta")):
                if isinstance(meta, Pairs):
                    yield from (stated for key, stated in meta if key in keys and stated is not None)


def _all_at(value: Any, path: Sequence[str]) -> Iterator[Any]:
    if not path:
        yield value
    elif isinstance(value, Pairs):
        for key, inner in value:
            if key == path[0]:
                yield from _all_at(inner, path[1:])
