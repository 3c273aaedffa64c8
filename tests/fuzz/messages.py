"""JSON-RPC messages: read as a parser reads them, rewritten in one place only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epochgate.core import jsonedit, jsonrpc
from epochgate.core.jsonrpc import Kind, Message
from epochgate.core.jsontext import read_array
from tests.fuzz import plain
from tests.fuzz.plain import Number, Pairs
from tests.fuzz.spelling import Choices, json_object, spelled

WORDS = (
    b'{"jsonrpc":"2.0","id":12345678901234,"result":{}}',
    b'{"id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":7}}}',
    b'{"method":"notifications/progress","params":{"progressToken":7,"progress":1}}',
    b'{"method":"notifications/cancelled","params":{"requestId":"a"}}',
    b'"id":',
    b'"method":',
    b'"params":{',
    b'"_meta":{',
    b'"progressToken":',
    b'"requestId":',
    b'"name":',
    b'"task":',
    b'"result":',
    b'"error":{"code":1,"data":{}}',
    b'"tools/call"',
    b'"notifications/progress"',
    b'"notifications/cancelled"',
    b'"\\u0069d":',
    b'"\\u006dethod":',
    b'"progress\\u0054oken":',
    b"null",
    b"true",
    b"1e400",
    b"-0",
    b"1.50",
    b"12345678901234567890",
    b"NaN",
    b"Infinity",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xc3\xa4",
    b"\\ud83d\\ude00",
    b"\\ud83d",
    b"\\ude00",
    b"\\/",
    b'\\"',
    b"\\\\",
    b"\\n",
    b"},",
    b" : ",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"\xa0",
    b"[" * 5000,
    b"]" * 5000,
)
KEYS = (
    b'"id"',
    b'"method"',
    b'"params"',
    b'"_meta"',
    b'"progressToken"',
    b'"requestId"',
    b'"name"',
    b'"task"',
    b'"result"',
    b'"error"',
    b'"x"',
    b'"\\u0069d"',
    b'"_m\\u0065ta"',
    b'"\\ud83d"',
    b'"\\"id"',
)
VALUES = (
    b"1",
    b"12345678901234",
    b'"a"',
    b'"tools/call"',
    b'"notifications/progress"',
    b'"notifications/cancelled"',
    b"null",
    b"{}",
    b"-0",
    b"1.50",
    b"1e400",
    b"9007199254740993",
    b'"id"',
    b'"\\u0061"',
    b'"cut \\ud83d"',
    b'"\\ud83d\\ude00\\\\"',
    b'"\xc3\xa4"',
    b'"\xff"',
    b"true",
    b"1 ",
)
_NEW = b'"n\\u00e9w \\" id"'
_PLACES = {
    "id": ("id",),
    "cancels": ("params", "requestId"),
    "progress": ("params", "progressToken"),
    "token": ("params", "_meta", "progressToken"),
}


def one(data: bytes) -> None:
    choices = Choices(data)
    match choices.number(3):
        case 0:
            raw = spelled(choices.rest(), WORDS)
        case 1:
            raw = json_object(choices, KEYS, VALUES)
        case _:
            raw = b"[" + b" , ".join([json_object(choices, KEYS, VALUES) for _ in range(2)]) + b"]"
    _agrees(raw)


def _agrees(raw: bytes) -> None:
    message = jsonrpc.read_message(raw)
    body = jsonrpc.read_body(raw)
    later = jsonrpc.located(jsonrpc.read_message(raw, is_located=False))
    assert later == message
    assert (body is None) == (not _is_body(raw, message))
    try:
        value = plain.read(raw)
    except plain.NotJson:
        if _is_utf8(raw):
            assert body is None
        else:
            assert not message.is_rewritable
        return
    except plain.Unclear:
        return
    _is_read_right(message, value)
    if message.is_rewritable:
        _is_rewritten_right(message, value)
    if body is not None and body.is_batch:
        assert len(body.messages) == len(value)
        for member, inner in zip(body.messages, value, strict=True):
            _is_read_right(member, inner)
        texts = [b'{"n":%d}' % n for n in range(len(body.messages))]
        assert plain.last_wins(plain.read(jsonedit.rewrite_batch(body, texts))) == [
            {"n": Number(str(n))} for n in range(len(texts))
        ]
    if body is not None:
        assert jsonedit.rewrite_batch(body, [member.raw for member in body.messages]) == raw


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_body(raw: bytes, message: Message) -> bool:
    if message.kind is not Kind.INVALID:
        return True
    members = read_array(raw) or []
    return any(jsonrpc.read_message(bytes(member)).kind is not Kind.INVALID for member in members)


def _is_read_right(message: Message, value: Any) -> None:
    top = value.last() if isinstance(value, Pairs) else {}
    kind = _kind(top)
    assert message.kind.value == kind
    if kind == "invalid":
        return
    assert _value_of(message.id) == top.get("id", _ABSENT)
    method = top.get("method")
    assert message.method == method
    params = top.get("params")
    params = params.last() if isinstance(params, Pairs) else {}
    meta = params.get("_meta")
    meta = meta.last() if isinstance(meta, Pairs) else {}
    token = cancels = _ABSENT
    if kind == "request":
        token = meta.get("progressToken", _ABSENT)
    elif kind == "notification" and method == "notifications/progress":
        token = params.get("progressToken", _ABSENT)
    elif kind == "notification" and method == "notifications/cancelled":
        cancels = params.get("requestId", _ABSENT)
    assert _value_of(message.token) == token
    assert _value_of(message.cancels) == cancels
    tool = params.get("name")
    assert message.tool == (tool if method == "tools/call" and isinstance(tool, str) else None)
    assert message.is_task == (kind == "request" and "task" in params)
    assert jsonrpc.read_message(message.raw).params().keys() == params.keys()
    if message.id is not None:
        assert jsonrpc.id_type(message.id).value == _id_type(top["id"])
        assert jsonrpc.stamp_key(message.id) == _stamp_key(top["id"])


_ABSENT = object()


def _value_of(text: bytes | None) -> Any:
    return _ABSENT if text is None else plain.read(text)


def _kind(top: dict[str, Any]) -> str:
    request_id = top.get("id", _ABSENT)
    has_id = request_id is None or isinstance(request_id, str | Number)
    if request_id is not _ABSENT and not has_id:
        return "invalid"
    if "method" in top:
        if not isinstance(top["method"], str):
            return "invalid"
        return "request" if has_id else "notification"
    if top.get("error") is not None:
        return "error" if top.get("result") is None else "invalid"
    return "result" if has_id and "result" in top else "invalid"


def _id_type(value: Any) -> str:
    if isinstance(value, str):
        return "str"
    text = value.text if isinstance(value, Number) else ""
    is_whole = text.removeprefix("-").isdigit() and text != "-0"
    return "int" if is_whole and len(text) < 20 and abs(int(text)) < 2**53 else "other"


def _stamp_key(value: Any) -> bytes:
    if value is None:
        return b"null"
    return str(value.text if isinstance(value, Number) else value).encode()


def _is_rewritten_right(message: Message, value: Pairs) -> None:
    """What may be replaced stands once on its way, and nothing else changes."""
    for name in message.spans:
        is_progress = name == "token" and message.kind is Kind.NOTIFICATION
        path = _PLACES["progress" if is_progress else name]
        wanted, count = _replaced(value, path)
        assert count == 1, f"{name} stands {count} times"
        given = {name: _NEW}
        changed = jsonedit.rewrite(message, **given)
        assert plain.read(changed) == wanted
        start, end = message.spans[name]
        assert changed == message.raw[:start] + _NEW + message.raw[end:]
    wanted_names = {
        name
        for name, text in (("id", message.id), ("token", message.token), ("cancels", message.cancels))
        if text is not None
    }
    assert set(message.spans) == wanted_names


def _replaced(value: Any, path: Sequence[str]) -> tuple[Any, int]:
    """The value with another one at the path, and how often that stands there, however one reads."""
    if not path:
        return plain.read(_NEW), 1
    if not isinstance(value, Pairs):
        return value, 0
    count = 0
    changed = Pairs()
    for key, inner in value:
        if key == path[0]:
            inner, found = _replaced(inner, path[1:])
            count += found
        changed.append((key, inner))
    return changed, count
