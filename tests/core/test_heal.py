"""A heal as a plan: what is sent, what makes the new session unusable, what is put back (W9, R27, R40)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from epochgate.core import heal, jsonrpc
from epochgate.core.heal import InitializeResult

OLD: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}},
    "serverInfo": {"name": "server", "version": "1"},
    "instructions": "be kind",
}


def read(value: Any) -> InitializeResult:
    found = heal.read_initialize_result(json.dumps(value).encode())
    assert found is not None
    return found


def capable(**capabilities: Any) -> dict[str, Any]:
    return {**OLD, "capabilities": capabilities}


@pytest.mark.parametrize(
    ("new", "incompatible", "changes"),
    [
        (OLD, (), ()),
        ({**OLD, "protocolVersion": "2025-11-25"}, ("protocolVersion 2025-06-18 -> 2025-11-25",), ()),
        ({**OLD, "serverInfo": {"name": "other", "version": "1"}}, ("serverInfo.name",), ()),
        ({**OLD, "serverInfo": {"name": "server", "version": "2"}}, (), ("serverInfo.version",)),
        ({**OLD, "instructions": "be quick"}, (), ("instructions",)),
        (
            capable(tools={"listChanged": True}, resources={"subscribe": True}),
            ("capabilities.logging is gone",),
            (),
        ),
        (
            capable(tools={}, resources={"subscribe": True}, logging={}),
            ("capabilities.tools.listChanged is gone",),
            (),
        ),
        (
            capable(tools={"listChanged": True}, resources={"subscribe": False}, logging={}),
            ("capabilities.resources.subscribe is gone",),
            (),
        ),
        (
            capable(tools={"listChanged": True}, resources={"subscribe": True}, logging={}, prompts={}),
            (),
            ("capabilities.prompts is new",),
        ),
        ({}, ("protocolVersion 2025-06-18 -> ", "serverInfo.name"), ("serverInfo.version", "instructions")),
    ],
)
def test_less_than_before_is_incompatible_and_more_is_a_change(
    new: dict[str, Any], incompatible: tuple[str, ...], changes: tuple[str, ...]
) -> None:
    """Another version or name is another server (R27, W9)."""
    comparison = heal.compare(read(OLD), read(new))

    assert comparison.incompatible[: len(incompatible)] == incompatible
    assert comparison.changes == changes
    assert bool(comparison.incompatible) is bool(incompatible)


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b'"x"', b'{"capabilities":7}', b"{"])
def test_what_is_no_initialize_result(raw: bytes) -> None:
    assert heal.read_initialize_result(raw) is None


def test_the_recorded_initialize_asks_for_the_negotiated_version() -> None:
    """Replaying the client's own version would make every server upgrade incompatible (W9)."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"sampling": {}},
        "clientInfo": {"name": "c", "version": "1", "x": 1},
        "_meta": {"progressToken": 3, "trace": "t"},
    }
    recorded = jsonrpc.read_message(
        json.dumps({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params}).encode()
    )

    body = json.loads(heal.initialize_request(recorded, "2025-06-18", b"77"))

    assert body == {
        "jsonrpc": "2.0",
        "id": 77,
        "method": "initialize",
        "params": {**params, "protocolVersion": "2025-06-18", "_meta": {"trace": "t"}},
    }


def test_state_is_put_back_in_order_and_only_the_prelude_must_succeed() -> None:
    """In the order of the client (R40)."""
    steps = heal.restore_steps("debug", ("file:///a", "file:///b"), [{"name": "login"}, {"name": "open"}])

    assert [(step.method, step.params, step.must_succeed) for step in steps] == [
        ("logging/setLevel", {"level": "debug"}, False),
        ("resources/subscribe", {"uri": "file:///a"}, False),
        ("resources/subscribe", {"uri": "file:///b"}, False),
        ("tools/call", {"name": "login"}, True),
        ("tools/call", {"name": "open"}, True),
    ]
    assert heal.restore_steps(None, (), []) == ()


@pytest.mark.parametrize(
    ("reason", "trigger"),
    [
        ("session_gone", "session_gone"),
        ("epoch_mismatch", "epoch_mismatch"),
        ("session_replaced", "session_replaced"),
        ("event_id_reset", "id_reset"),
        ("request_id_reset", "id_reset"),
        ("question_void", "question_void"),
        ("no_epoch_captured", "stream_restart"),
        ("event_id_gap", "stream_restart"),
        ("upstream_lost", "stream_restart"),
    ],
)
def test_what_a_heal_is_counted_under(reason: str, trigger: str) -> None:
    assert heal.trigger_of(reason) == trigger
    assert trigger in heal.TRIGGERS


def test_an_initialize_without_parameters_is_sent_again_with_the_version_alone() -> None:
    recorded = jsonrpc.read_message(b'{"jsonrpc":"2.0","id":0,"method":"initialize"}')

    body = heal.initialize_request(recorded, "2025-06-18", b"9")

    assert json.loads(body)["params"] == {"protocolVersion": "2025-06-18"}


def test_a_result_that_is_nested_too_deeply_is_none() -> None:
    assert heal.read_initialize_result(b'{"capabilities":{"x":' + b"[" * 100_000) is None
