"""Which traffic is guarded: every shape of request has an intake (design, section 4)."""

from __future__ import annotations

from itertools import product

import pytest

from epochgate.core import era, jsonrpc
from epochgate.core.era import Content, Intake, Revision, SessionId, Start, TrafficClass, Verb

MODERN = (b"MCP-Protocol-Version", b"2026-07-28")
LEGACY = (b"MCP-Protocol-Version", b"2025-11-25")
SESSION = (b"Mcp-Session-Id", b"s")
CURSOR = (b"Last-Event-ID", b"5")

CALL = b'{"id":1,"method":"tools/call"}'
INITIALIZE = b'{"id":1,"method":"initialize"}'
INITIALIZED = b'{"method":"notifications/initialized"}'
ANSWER = b'{"id":1,"result":{}}'


@pytest.mark.parametrize(
    ("method", "headers", "body", "is_known", "intake"),
    [
        (b"POST", (MODERN,), CALL, False, Intake.MODERN),
        (b"POST", (MODERN, SESSION), CALL, True, Intake.MODERN),
        (b"POST", (MODERN,), b"no json", False, Intake.MODERN),
        (b"POST", (MODERN,), INITIALIZE, False, Intake.OPENING),
        (b"POST", (MODERN, SESSION), INITIALIZED, True, Intake.IN_SESSION),
        (b"POST", (MODERN, SESSION), ANSWER, True, Intake.IN_SESSION),
        (b"POST", (MODERN, SESSION), b"[%b]" % CALL, True, Intake.IN_SESSION),
        (b"GET", (MODERN, SESSION), b"", True, Intake.IN_SESSION),
        (b"POST", ((b"mcp-protocol-version", b"2026-12-01"),), CALL, False, Intake.PLAIN),
        (b"POST", (), INITIALIZE, False, Intake.OPENING),
        (b"POST", (SESSION,), INITIALIZE, False, Intake.OPENING),
        (b"POST", (SESSION,), INITIALIZE, True, Intake.IN_SESSION),
        (b"POST", (LEGACY, SESSION), CALL, True, Intake.IN_SESSION),
        (b"POST", (LEGACY, SESSION), b"no json", True, Intake.IN_SESSION),
        (b"POST", (LEGACY, SESSION), CALL, False, Intake.UNKNOWN_SESSION),
        (b"POST", (LEGACY,), CALL, False, Intake.PLAIN),
        (b"GET", (SESSION, CURSOR), b"", True, Intake.IN_SESSION),
        (b"GET", (SESSION, CURSOR), b"", False, Intake.UNKNOWN_RESUME),
        (b"GET", (SESSION, (b"Last-Event-ID", b"")), b"", False, Intake.UNKNOWN_SESSION),
        (b"GET", (CURSOR,), b"", False, Intake.PLAIN),
        (b"GET", ((b"Mcp-Session-Id", b""), CURSOR), b"", False, Intake.PLAIN),
        (b"DELETE", (SESSION,), b"", True, Intake.IN_SESSION),
        (b"DELETE", (SESSION,), b"", False, Intake.UNKNOWN_SESSION),
        (b"OPTIONS", (SESSION,), b"", True, Intake.PLAIN),
        (b"PUT", (), INITIALIZE, False, Intake.PLAIN),
    ],
)
def test_the_intake_of_a_request(
    method: bytes, headers: tuple[tuple[bytes, bytes], ...], body: bytes, is_known: bool, intake: Intake
) -> None:
    """Arrays, responses and the handshake are never modern (W14)."""
    assert era.classify(method, headers, jsonrpc.read_body(body), is_known, era.STATELESS_REVISIONS) is intake


SHAPES = list(product(Verb, Content, Revision, SessionId, Start))


def test_every_shape_has_an_intake() -> None:
    assert {era.decide(shape) for shape in SHAPES} == set(Intake)


def test_a_known_session_is_never_taken_for_an_unknown_one() -> None:
    intakes = {era.decide(shape) for shape in SHAPES if SessionId.KNOWN in shape and Verb.OTHER not in shape}

    assert intakes == {Intake.IN_SESSION, Intake.MODERN}


def test_only_a_single_message_of_a_stateless_revision_is_modern() -> None:
    """The rest belongs to sessions (W14)."""
    modern = [shape for shape in SHAPES if era.decide(shape) is Intake.MODERN]

    assert {shape[:3] for shape in modern} == {
        (Verb.POST, Content.CALL, Revision.STATELESS),
        (Verb.POST, Content.NONE, Revision.STATELESS),
    }


def test_a_resume_of_a_session_never_seen_is_never_passed() -> None:
    shapes = [
        shape for shape in SHAPES if shape[0] is Verb.GET and shape[3:] == (SessionId.UNKNOWN, Start.RESUME)
    ]

    assert {era.decide(shape) for shape in shapes} == {Intake.UNKNOWN_RESUME}


def test_each_intake_has_its_class() -> None:
    assert {intake: intake.traffic_class for intake in Intake} == {
        Intake.MODERN: TrafficClass.MODERN,
        Intake.OPENING: TrafficClass.SESSION,
        Intake.IN_SESSION: TrafficClass.SESSION,
        Intake.UNKNOWN_SESSION: TrafficClass.UNKNOWN,
        Intake.UNKNOWN_RESUME: TrafficClass.UNKNOWN,
        Intake.PLAIN: TrafficClass.PLAIN,
    }


@pytest.mark.parametrize(
    ("http_method", "body", "label"),
    [
        ("POST", CALL, "tools/call"),
        ("POST", INITIALIZED, "notifications/initialized"),
        ("POST", b'{"id":1,"method":"my/own"}', "other"),
        ("POST", b"[%b]" % CALL, "batch"),
        ("POST", ANSWER, "response"),
        ("POST", b'{"error":{}}', "response"),
        ("POST", b"no json", "other"),
        ("GET", b"", "GET"),
        ("DELETE", b"", "DELETE"),
        ("OPTIONS", b"", "other"),
    ],
)
def test_labels_come_from_a_closed_set(http_method: str, body: bytes, label: str) -> None:
    assert era.method_label(http_method, jsonrpc.read_body(body)) == label
