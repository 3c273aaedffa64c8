"""What an upstream status means (W5, R23, R27)."""

from __future__ import annotations

import json

import pytest

from epochgate.core import classify
from epochgate.core.axes import Shape
from epochgate.core.policy import Policy


def error(code: int, message: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "is_gone"),
    [
        (404, b"", True),
        (404, b"<html>not found</html>", True),
        (404, error(-32001, "Session not found"), True),
        (404, error(-32600, "whatever"), True),
        (404, error(-32601, "Method not found"), False),
        (400, error(-32000, "Bad Request: No valid session ID provided"), True),
        (400, error(-32001, "SESSION expired"), True),
        (400, error(-32600, "session terminated"), True),
        (410, error(-32000, "this session ended"), True),
        (400, error(-32602, "invalid session argument"), False),
        (400, error(-32000, "Parse error"), False),
        (400, b"no session", False),
        (400, b"", False),
        (410, b"", False),
        (200, error(-32001, "Session not found"), False),
        (403, error(-32000, "no session"), False),
        (500, error(-32000, "no session"), False),
        (404, b'{"error":"a text, not an object"}', True),
        (404, b'{"x":' + b"[" * 100_000, True),
        (400, b'{"x":' + b"[" * 100_000, False),
    ],
)
def test_whether_the_session_is_gone(status: int, body: bytes, is_gone: bool) -> None:
    """And "method not found" never is (R27, W5)."""
    assert classify.is_session_gone(Policy(), status, body) is is_gone


def test_the_pattern_is_a_setting() -> None:
    """Servers word it as they like (W5)."""
    policy = Policy(gone_pattern="unknown conversation")

    assert classify.is_session_gone(policy, 400, error(-32000, "Unknown Conversation"))
    assert not classify.is_session_gone(policy, 400, error(-32000, "no session"))


@pytest.mark.parametrize(
    ("status", "content_type", "shape"),
    [
        (200, b"text/event-stream", Shape.SSE),
        (200, b"Text/Event-Stream; charset=utf-8", Shape.SSE),
        (200, b"application/json", Shape.UNSUITABLE),
        (200, b"", Shape.UNSUITABLE),
        (202, b"text/event-stream", Shape.UNSUITABLE),
        (204, b"", Shape.UNSUITABLE),
        (302, b"text/html", Shape.UNSUITABLE),
        (500, b"text/event-stream", Shape.UNSUITABLE),
        (401, b"", Shape.AUTH),
        (403, b"text/event-stream", Shape.AUTH),
        (404, b"", Shape.GONE),
        (400, b"", Shape.REFUSED),
        (405, b"", Shape.NOT_ALLOWED),
        (409, b"", Shape.BUSY),
        (429, b"", Shape.BUSY),
        (502, b"", Shape.BUSY),
        (503, b"text/html", Shape.BUSY),
        (504, b"", Shape.BUSY),
    ],
)
def test_the_shape_of_an_answer_to_a_resume(status: int, content_type: bytes, shape: Shape) -> None:
    headers = ((b"Content-Type", content_type),) if content_type else ()

    assert classify.shape(Policy(), status, headers, b"") is shape


def test_a_refusal_that_says_the_session_is_gone_is_gone() -> None:
    """On a resume too (W5)."""
    body = error(-32000, "No valid session ID provided")

    assert classify.shape(Policy(), 400, (), body) is Shape.GONE
    assert classify.shape(Policy(), 404, (), error(-32601, "Method not found")) is Shape.UNSUITABLE
