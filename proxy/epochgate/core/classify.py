"""What an upstream status means (W4, W5, R23)."""

from __future__ import annotations

import re
from functools import cache

import msgspec

from epochgate.core import http
from epochgate.core.axes import Shape
from epochgate.core.http import Headers
from epochgate.core.jsontext import UNREADABLE
from epochgate.core.policy import Policy

METHOD_NOT_FOUND = -32601
_GONE_CODES = (-32000, -32001, -32600)
_BUSY = (409, 429, 502, 503, 504)
NEEDS_BODY = (400, 404, 410)  # statuses whose body decides whether the session is gone


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Envelope(msgspec.Struct):
    error: _Error | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def _read_error(body: bytes) -> _Error | None:
    try:
        return _ENVELOPE.decode(body).error
    except UNREADABLE:
        return None


def is_session_gone(policy: Policy, status: int, body: bytes) -> bool:
    """Whether an answer to a request that carried the session id says that the session is gone.

    404, unless the error is "method not found"; or 400 or 410 with one of three codes and a message
    that matches `gone_pattern` (W5).
    """
    if status not in NEEDS_BODY:
        return False
    error = _read_error(body)
    if status == 404:
        return error is None or error.code != METHOD_NOT_FOUND
    if error is None:
        return False
    return error.code in _GONE_CODES and _pattern(policy.gone_pattern).search(error.message) is not None


def shape(policy: Policy, status: int, headers: Headers, body: bytes) -> Shape:
    """The shape of an answer to a GET that asked for a stream."""
    if status in (401, 403):
        return Shape.AUTH
    if status in _BUSY:
        return Shape.BUSY
    if is_session_gone(policy, status, body):
        return Shape.GONE
    if status == 400:
        return Shape.REFUSED
    if status == 405:
        return Shape.NOT_ALLOWED
    if status == 200 and http.media_type(headers) == b"text/event-stream" and not http.is_coded(headers):
        return Shape.SSE
    return Shape.UNSUITABLE
