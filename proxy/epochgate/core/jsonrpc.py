"""JSON-RPC messages as bytes: a look that keeps the type of ids, and edits that keep other bytes.

Only what has to be known is read, the rest stays raw. Nothing here raises on what a peer sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from epochgate.core.enums import Enum
from epochgate.core.jsontext import (
    UNREADABLE,
    Members,
    Span,
    find_member,
    find_path,
    has_unique_keys_on,
    is_utf8,
    read_array,
    read_string,
    text_of,
)
from epochgate.core.jsontext import read_object as read_object  # part of what this module offers
from epochgate.core.values import Value

_Read = TypeVar("_Read", bound=msgspec.Struct)

_SAFE_DIGITS = 15  # every integer of so many digits is safe
SAFE_INTEGER = 2**53  # ids of this size and above are not exact in JavaScript

_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]{0,15})")
_TOKEN_PATH = ("params", "_meta", "progressToken")
# Keys that decide what a request does or stands for: one that stands twice is read in two ways.
_REQUEST_KEYS = (b'"id"', b'"method"', b'"params"', b'"_meta"', b'"progressToken"', b'"requestId"')
_CALL_KEYS = (*_REQUEST_KEYS, b'"name"')
_ANSWER_KEYS = (b'"id"',)
_ABSENT = msgspec.Raw()
_NOTHING = (_ABSENT, msgspec.Raw(b"null"))


class Kind(Enum):
    REQUEST = "request"
    NOTIFICATION = "notification"
    RESULT = "result"
    ERROR = "error"
    INVALID = "invalid"


class IdType(Enum):
    """INT: an integer exact in a double. OTHER (null, 1.5, 1e400, …) cannot be stamped (R36)."""

    INT = "int"
    STR = "str"
    OTHER = "other"


class Message(Value, frozen=True):
    """One message. `id`, `token` and `cancels` are JSON texts as they stand in it.

    `token` is the progress token that a request offers or a progress notification names, `cancels`
    the request id in `notifications/cancelled`. An ERROR may have no id. `is_rewritable` is False
    where these cannot be replaced: a key that stands twice, or no UTF-8 (R36). `tool` is what a
    `tools/call` names; `is_task`: the request is task-augmented.
    """

    raw: bytes
    kind: Kind
    id: bytes | None = None
    method: str | None = None
    token: bytes | None = None
    cancels: bytes | None = None
    is_rewritable: bool = False
    tool: str | None = None
    is_task: bool = False
    spans: Mapping[str, Span] = {}

    @property
    def is_response(self) -> bool:
        return self.kind is Kind.RESULT or self.kind is Kind.ERROR

    def params(self) -> Members:
        """The members of `params`; empty if it is absent or no object."""
        return self._members("params")

    def result(self) -> Members:
        """The members of `result`; empty if it is absent or no object."""
        return self._members("result")

    def error(self) -> Members:
        """The members of `error`; empty if it is absent or no object."""
        return self._members("error")

    def _members(self, key: str) -> Members:
        value = (read_object(self.raw) or {}).get(key)
        return {} if value is None else read_object(bytes(value)) or {}


class Body(Value, frozen=True):
    """The messages of a POST or of an event; a batch may hold INVALID members beside others."""

    raw: bytes
    messages: tuple[Message, ...]
    is_batch: bool
    requests: tuple[Message, ...] = ()


def without_text(message: Message) -> Message:
    """What a message is, less what stands in it."""
    return Message(
        b"",
        message.kind,
        message.id,
        message.method,
        message.token,
        message.cancels,
        tool=message.tool,
        is_task=message.is_task,
    )


def make_body(raw: bytes, messages: tuple[Message, ...], *, is_batch: bool) -> Body:
    """A body of these messages, which stand in `raw` in this order."""
    requests = tuple([message for message in messages if message.kind is Kind.REQUEST])
    return Body(raw, messages, is_batch, requests)


def read_body(raw: bytes, *, is_located: bool = True) -> Body | None:
    """Read one message or a batch; None if nothing in it is a JSON-RPC message. Never raises.

    `is_located`: find the places of what may have to be replaced; `located` does it later.
    """
    members = None if raw[:1] == b"{" else read_array(raw)
    if members is None:
        single = read_message(raw, is_located=is_located)
        return None if single.kind is Kind.INVALID else make_body(raw, (single,), is_batch=False)
    messages = tuple(read_message(bytes(member)) for member in members)
    if all(message.kind is Kind.INVALID for message in messages):
        return None
    return make_body(raw, messages, is_batch=True)


class _Envelope(msgspec.Struct):
    """The members that decide, undecoded; empty where there is none."""

    id: msgspec.Raw = _ABSENT
    method: msgspec.Raw = _ABSENT
    params: msgspec.Raw = _ABSENT
    result: msgspec.Raw = _ABSENT
    error: msgspec.Raw = _ABSENT


class _Meta(msgspec.Struct):
    token: msgspec.Raw = msgspec.field(name="progressToken", default=_ABSENT)


class _Params(msgspec.Struct):
    name: msgspec.Raw = _ABSENT
    task: msgspec.Raw = _ABSENT
    token: msgspec.Raw = msgspec.field(name="progressToken", default=_ABSENT)
    request_id: msgspec.Raw = msgspec.field(name="requestId", default=_ABSENT)
    meta: msgspec.Raw = msgspec.field(name="_meta", default=_ABSENT)


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_PARAMS = msgspec.json.Decoder(_Params)
_META = msgspec.json.Decoder(_Meta)
_NO_PARAMS = _Params()


def _decoded(decoder: msgspec.json.Decoder[_Read], raw: bytes | msgspec.Raw) -> _Read | None:
    """What a decoder of raw members reads; None if this is no object."""
    try:
        return decoder.decode(raw)
    except UNREADABLE:
        members = read_object(bytes(raw))  # half of a surrogate pair may be in the way
    if members is None:
        return None
    fields, keys = decoder.type.__struct_fields__, decoder.type.__struct_encode_fields__
    return decoder.type(
        **{field: members[key] for field, key in zip(fields, keys, strict=True) if key in members}
    )


def located(message: Message) -> Message:
    """The message with the places of its values, if it was read without them."""
    return message if message.is_rewritable else read_message(message.raw)


def read_message(raw: bytes, *, is_located: bool = True) -> Message:
    """Read one message; its kind is INVALID if it is none. Never raises.

    Without `is_located` a response is not rewritable until `located`.
    """
    envelope = _decoded(_ENVELOPE, raw)
    if envelope is None:
        return Message(raw, Kind.INVALID)
    request_id = bytes(envelope.id) or None
    method = read_string(envelope.method) if envelope.method != _ABSENT else None
    kind = _kind(envelope, request_id, method)
    if kind is Kind.INVALID:
        return Message(raw, kind)
    if method is None and not is_located:
        return Message(raw, kind, request_id)
    if method is None:
        spans = _find_spans(raw, {} if request_id is None else {"id": (("id",), request_id)}, None)
        return Message(raw, kind, request_id, None, None, None, spans is not None, None, False, spans or {})
    return _read_call(raw, kind, request_id, method, _read_params(envelope.params))


def _read_call(raw: bytes, kind: Kind, request_id: bytes | None, method: str, params: _Params) -> Message:
    places: dict[str, tuple[Sequence[str], bytes]] = {}
    if request_id is not None:
        places["id"] = (("id",), request_id)
    token = cancels = None
    if kind is Kind.REQUEST:
        token = _read_token(params.meta)
        if token is not None:
            places["token"] = (_TOKEN_PATH, token)
    elif method == "notifications/progress" and (token := bytes(params.token) or None) is not None:
        places["token"] = (("params", "progressToken"), token)
    elif method == "notifications/cancelled" and (cancels := bytes(params.request_id) or None) is not None:
        places["cancels"] = (("params", "requestId"), cancels)
    spans = _find_spans(raw, places, method)
    tool = read_string(params.name) if method == "tools/call" and params.name != _ABSENT else None
    is_task = kind is Kind.REQUEST and params.task != _ABSENT
    return Message(
        raw, kind, request_id, method, token, cancels, spans is not None, tool, is_task, spans or {}
    )


def _kind(envelope: _Envelope, request_id: bytes | None, method: str | None) -> Kind:
    has_usable_id = request_id is not None and request_id[0] in b'"-0123456789n'
    if request_id is not None and not has_usable_id:
        return Kind.INVALID
    if method is not None:
        return Kind.REQUEST if has_usable_id else Kind.NOTIFICATION
    if envelope.method != _ABSENT:
        return Kind.INVALID
    if envelope.error not in _NOTHING:
        return Kind.ERROR if envelope.result in _NOTHING else Kind.INVALID
    return Kind.RESULT if has_usable_id and envelope.result != _ABSENT else Kind.INVALID


def _read_params(raw: msgspec.Raw) -> _Params:
    return _NO_PARAMS if raw == _ABSENT else _decoded(_PARAMS, raw) or _NO_PARAMS


def _read_token(meta: msgspec.Raw) -> bytes | None:
    """The progress token in `params._meta`."""
    read = None if meta == _ABSENT else _decoded(_META, meta)
    return None if read is None else bytes(read.token) or None


def _find_spans(
    raw: bytes, places: Mapping[str, tuple[Sequence[str], bytes]], method: str | None
) -> dict[str, Span] | None:
    """Where the values stand; None if a key stands twice or this is no UTF-8.

    A key that is there, stands nowhere else and cannot be written with escapes is found by search.
    """
    if not (raw.isascii() or is_utf8(raw)):
        return None
    keys = _ANSWER_KEYS if method is None else _CALL_KEYS if method == "tools/call" else _REQUEST_KEYS
    if b"\\u00" not in raw and max(map(raw.count, keys)) < 2:
        return {name: find_member(raw, path[-1], text) for name, (path, text) in places.items()}
    if not has_unique_keys_on(raw, ("params", "_meta")):
        return None
    spans = {name: find_path(raw, path) for name, (path, _) in places.items()}
    return {name: span for name, span in spans.items() if span is not None}


def error_response(id: bytes, code: int, message: str, data: Mapping[str, object]) -> bytes:
    """An error response on one line; `id` is a JSON text."""
    error = {"code": code, "message": message, "data": data}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": msgspec.Raw(id), "error": error})


def notification(method: str, params: Mapping[str, object]) -> bytes:
    """A notification on one line."""
    return msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params})


def request(id: bytes, method: str, params: Mapping[str, object] | None) -> bytes:
    """A request on one line; `id` is a JSON text."""
    members: dict[str, object] = {"jsonrpc": "2.0", "id": msgspec.Raw(id), "method": method}
    if params is not None:
        members["params"] = params
    return msgspec.json.encode(members)


def id_type(id: bytes) -> IdType:
    """The type of this JSON text as an id (R36)."""
    if id.isdigit() and len(id) <= _SAFE_DIGITS:
        return IdType.INT
    if id[:1] == b'"':
        return IdType.STR
    is_safe = _INTEGER.fullmatch(id) is not None and abs(int(id)) < SAFE_INTEGER
    return IdType.INT if is_safe and id != b"-0" else IdType.OTHER


def same_id(a: bytes, b: bytes) -> bool:
    """Whether two JSON texts are the same id: the same type and value (R33)."""
    if a == b:
        return True
    first, second = read_string(a), read_string(b)
    return first is not None and first == second


def stamp_key(id: bytes) -> bytes:
    """Under which a stamp is found: `123` and `"123"` are the same, for servers that turn ids into
    text (R36)."""
    text = read_string(id) if id[:1] == b'"' else None
    return id if text is None else text.encode()


def member(raw: bytes, key: str) -> bytes | None:
    """The JSON text of one member of an object; None if it has none, or is no object."""
    members = read_object(raw)
    return None if members is None else text_of(members, key)
