"""A heal as a plan: which requests re-establish a session, and whether the new one will do.

Pure data: `healing.py` carries it out. Order (design, section 8): initialize, compare, initialized,
reopen the standalone stream, restore, commit, re-issue, tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from epochgate.core import jsonrpc
from epochgate.core.events import RequestHead
from epochgate.core.generation import Generation
from epochgate.core.jsontext import UNREADABLE, strip, text_of

# A reason that restarts, to the trigger that the heal is counted under.
_TRIGGERS = {
    "session_gone": "session_gone",
    "epoch_mismatch": "epoch_mismatch",
    "session_replaced": "session_replaced",
    "event_id_reset": "id_reset",
    "request_id_reset": "id_reset",
    "question_void": "question_void",
}
TRIGGERS = (*dict.fromkeys(_TRIGGERS.values()), "stream_restart")
OUTCOMES = ("healed", "incompatible", "parked", "lost")


def trigger_of(reason: str) -> str:
    return _TRIGGERS.get(reason, "stream_restart")


@dataclass(frozen=True, slots=True)
class RestoreStep:
    """A request that puts state back. One that `must_succeed` makes the heal fail (R40)."""

    method: str
    params: dict[str, Any]
    must_succeed: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """`incompatible` names what rules the new server session out, `changes` what else differs."""

    incompatible: tuple[str, ...]
    changes: tuple[str, ...]


class InitializeResult(msgspec.Struct, rename="camel"):
    """The parts of an `InitializeResult` that decide."""

    protocol_version: str = ""
    capabilities: dict[str, Any] = {}
    server_info: dict[str, Any] = {}
    instructions: Any = None


_RESULT = msgspec.json.Decoder(InitializeResult)


def read_initialize_result(result: bytes) -> InitializeResult | None:
    """Read the `result` of an `initialize` answer; None if it is none."""
    try:
        return _RESULT.decode(result)
    except UNREADABLE:
        return None


def initialize_request(recorded: jsonrpc.Message, negotiated: str, request_id: bytes) -> bytes:
    """The client's own `initialize` with the negotiated version and an id of ours (W9)."""
    members = recorded.params()
    params: dict[str, object] = {**members, "protocolVersion": negotiated}
    if (meta := text_of(members, "_meta")) is not None:
        params["_meta"] = msgspec.Raw(strip(meta, (), ("progressToken",)))
    return jsonrpc.request(request_id, "initialize", params)


def compare(old: InitializeResult, new: InitializeResult) -> Comparison:
    """Another version, another server, or less than before is incompatible; the rest is a change."""
    incompatible: list[str] = []
    changes: list[str] = []
    if new.protocol_version != old.protocol_version:
        incompatible.append(f"protocolVersion {old.protocol_version} -> {new.protocol_version}")
    if new.server_info.get("name") != old.server_info.get("name"):
        incompatible.append("serverInfo.name")
    for path in _missing(old.capabilities, new.capabilities, "capabilities"):
        incompatible.append(f"{path} is gone")
    for path in _missing(new.capabilities, old.capabilities, "capabilities"):
        changes.append(f"{path} is new")
    if new.server_info.get("version") != old.server_info.get("version"):
        changes.append("serverInfo.version")
    if new.instructions != old.instructions:
        changes.append("instructions")
    return Comparison(tuple(incompatible), tuple(changes))


def _missing(wanted: dict[str, Any], there: dict[str, Any], path: str) -> list[str]:
    """What `wanted` has and `there` has not: keys, sub-keys, and flags that are no longer true."""
    missing: list[str] = []
    for key, value in wanted.items():
        here = f"{path}.{key}"
        if key not in there:
            missing.append(here)
        elif isinstance(value, dict) and isinstance(there[key], dict):
            missing += _missing(value, there[key], here)
        elif value is True and there[key] is not True:
            missing.append(here)
    return missing


def restore_steps(
    level: str | None, subscriptions: tuple[str, ...], prelude: list[dict[str, Any]]
) -> tuple[RestoreStep, ...]:
    """Log level, subscriptions still in force, then the prelude's calls in the client's order (R40)."""
    steps: list[RestoreStep] = []
    if level is not None:
        steps.append(RestoreStep("logging/setLevel", {"level": level}))
    steps += [RestoreStep("resources/subscribe", {"uri": uri}) for uri in subscriptions]
    steps += [RestoreStep("tools/call", params, must_succeed=True) for params in prelude]
    return tuple(steps)


@dataclass(slots=True)
class Heal:
    """One heal under way. `new` is the generation that it is about to commit."""

    trigger: str
    replaces: int
    began_at: float
    head: RequestHead
    attempts: int = 0
    new: Generation | None = None
    result_raw: bytes = b""
    changes: tuple[str, ...] = ()
    is_initialized_told: bool = False  # to the new session, by the heal
    steps: list[RestoreStep] = field(default_factory=list)
