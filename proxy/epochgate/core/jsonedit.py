"""Edits of JSON-RPC messages that keep every other byte: ids and tokens, marks, epochs taken out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from epochgate.core.jsonrpc import Body, Message
from epochgate.core.jsontext import Span, put, read_object, splice, strip, text_of


def rewrite(
    message: Message, *, id: bytes | None = None, token: bytes | None = None, cancels: bytes | None = None
) -> bytes:
    """The message with these JSON texts at their places and every other byte kept.

    Raises ValueError if it is not rewritable or has no such value.
    """
    edits: list[tuple[Span, bytes]] = []
    for name, value in (("id", id), ("token", token), ("cancels", cancels)):
        if value is None:
            continue
        span = message.spans.get(name)
        if span is None:
            raise ValueError(f"no {name} that can be replaced")
        edits.append((span, value))
    edits.sort()
    return splice(message.raw, edits)


def rewrite_batch(body: Body, new: Sequence[bytes]) -> bytes:
    """The body with its messages replaced in order, what stands between them kept."""
    if not body.is_batch:
        return new[0]
    edits: list[tuple[Span, bytes]] = []
    at = body.raw.index(b"[") + 1
    for message, text in zip(body.messages, new, strict=True):
        at = body.raw.index(message.raw, at)
        end = at + len(message.raw)
        edits.append(((at, end), text))
        at = end
    return splice(body.raw, edits)


def with_meta(raw: bytes, key: str, value_json: bytes) -> bytes:
    """The message with `key` in `result._meta`, `params._meta` or `error.data`, other bytes kept.

    Objects that are absent are made; data that is no object moves under `value`. What cannot be
    read, or has a result that is no object, comes back as it is.
    """
    members = read_object(raw)
    if members is None:
        return raw
    error = text_of(members, "error")
    if error is not None and (details := read_object(error)) is not None:
        data = _with_data(details.get("data"), key, value_json)
        return put(raw, "error", put(error, "data", data))
    holder = "result" if "result" in members else "params"
    outer = text_of(members, holder) or b"{}"
    fields = read_object(outer)
    if fields is None:
        return raw
    meta = text_of(fields, "_meta") or b"{}"
    if read_object(meta) is None:
        meta = b"{}"
    return put(raw, holder, put(outer, "_meta", put(meta, key, value_json)))


def _with_data(data: msgspec.Raw | None, key: str, value_json: bytes) -> bytes:
    if data is None:
        return put(b"{}", key, value_json)
    text = bytes(data)
    if read_object(text) is None:
        text = b'{"value":%b}' % text
    return put(text, key, value_json)


def without_meta(raw: bytes, keys: Sequence[str]) -> bytes:
    """The message less `keys` in `result._meta`, `params._meta` and `error.data._meta`.

    Only a `_meta` that had one is written anew; every other byte is kept.
    """
    for path in (("result", "_meta"), ("params", "_meta"), ("error", "data", "_meta")):
        raw = strip(raw, path, keys)
    return raw
