"""Marks in `_meta`: put in and taken out, the rest of the message unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epochgate.core import jsonedit
from tests.fuzz import plain
from tests.fuzz.plain import Number
from tests.fuzz.spelling import Choices, json_object, spelled

WORDS = (
    b'{"id":1,"result":{"_meta":{"k":7}}}',
    b'{"id":1,"result":{}}',
    b'{"id":1,"error":{"code":1,"data":{"_meta":{"k":7}}}}',
    b'{"method":"n","params":{"_meta":{"k":7,"x":1}}}',
    b'"id":1,',
    b'"result":',
    b'"params":',
    b'"error":',
    b'"data":',
    b'"_meta":',
    b'"_met\\u0061":',
    b'"k":7',
    b'"k":',
    b'"x":',
    b"[1,2]",
    b"null",
    b"{}",
    b" , ",
    b"\xff",
    b"\xc3\xa4",
    b"\\ud83d",
    b"\\n",
    b"1.50",
)
KEYS = (
    b'"result"',
    b'"params"',
    b'"error"',
    b'"data"',
    b'"_meta"',
    b'"k"',
    b'"x"',
    b'"_met\\u0061"',
    b'"\\u006b"',
)
VALUES = (
    b"1",
    b"null",
    b"{}",
    b"[]",
    b'"k"',
    b'{"k":7}',
    b'{"_meta":{"k":7}}',
    b'"cut \\ud83d"',
    b"1.50 ",
    b'"\xc3\xa4"',
)
_VALUE = {"a": Number("1")}


def one(data: bytes) -> None:
    choices = Choices(data)
    is_object = choices.number(2)
    raw = json_object(choices, KEYS, VALUES) if is_object else spelled(choices.rest(), WORDS)
    marked = jsonedit.with_meta(raw, "k", b'{"a":1}')
    stripped = jsonedit.without_meta(raw, ("k", "l"))
    try:
        value = plain.last_wins(plain.read(raw))
    except (plain.NotJson, plain.Unclear):
        return
    assert plain.last_wins(plain.read(marked)) == _marked(value)
    assert plain.last_wins(plain.read(stripped)) == _stripped(value)
    if _stripped(value) == value:
        assert stripped == raw
    again = jsonedit.with_meta(marked, "k", b'{"a":1}')
    assert plain.last_wins(plain.read(again)) == _marked(value)


def _marked(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    error = value.get("error")
    if isinstance(error, dict):
        data = error.get("data", {})
        data = data if isinstance(data, dict) else {"value": data}
        return value | {"error": error | {"data": data | {"k": _VALUE}}}
    holder = "result" if "result" in value else "params"
    outer = value.get(holder, {})
    if not isinstance(outer, dict):
        return value
    meta = outer.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    return value | {holder: outer | {"_meta": meta | {"k": _VALUE}}}


def _stripped(value: Any) -> Any:
    for path in (("result", "_meta"), ("params", "_meta"), ("error", "data", "_meta")):
        value = _without(value, path)
    return value


def _without(value: Any, path: Sequence[str]) -> Any:
    if not isinstance(value, dict):
        return value
    if not path:
        return {key: inner for key, inner in value.items() if key not in ("k", "l")}
    if path[0] not in value:
        return value
    return value | {path[0]: _without(value[path[0]], path[1:])}
