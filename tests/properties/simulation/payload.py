"""What a simulated server writes: JSON-RPC messages that carry their origin, framed as SSE.

Every message names in its text the request it belongs to (`key`), the execution and session object
that made it (`run`), its step and a serial number. That is what the oracle reads; the proxy does not.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tests.properties.simulation.traits import ServerTraits

Json = dict[str, Any]

ORIGIN = re.compile(r"key=(\S+) run=(\d+)\.(\d+) step=(\d+) n=(\d+)")
ORIGIN_MARK = b"key="  # stands in the bytes of every message that has an origin


@dataclass(frozen=True, slots=True)
class Origin:
    """`key`: client and request; `execution` 0 is the session itself; `owner`: the session object."""

    key: str
    execution: int
    owner: int
    step: int
    serial: int

    def __str__(self) -> str:
        return f"key={self.key} run={self.execution}.{self.owner} step={self.step} n={self.serial}"


def find_origin(text: str) -> Origin | None:
    """The origin stated in the text of a message; notices and errors of the proxy have none."""
    match = ORIGIN.search(text)
    if match is None:
        return None
    key, execution, owner, step, serial = match.groups()
    return Origin(key, int(execution), int(owner), int(step), int(serial))


def progress(token: Any, origin: Origin, total: int) -> Json:
    params = {"progressToken": token, "progress": origin.step, "total": total, "message": str(origin)}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def log(origin: Origin) -> Json:
    params = {"level": "info", "logger": "tool", "data": str(origin)}
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": params}


def question(number: int, origin: Origin) -> Json:
    params = {"message": str(origin), "requestedSchema": {"type": "object", "properties": {}}}
    return {"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": params}


def result(rid: Any, value: Json) -> Json:
    return {"jsonrpc": "2.0", "id": rid, "result": value}


def error(rid: Any, code: int, text: str) -> Json:
    return {"jsonrpc": "2.0", "id": rid, "error": {"code": code, "message": text}}


def tool_result(rid: Any, origin: Origin, forged_epoch: int | None = None) -> Json:
    """`forged_epoch` stands where no epoch is stated, under the name of one."""
    value: Json = {"content": [{"type": "text", "text": str(origin)}], "isError": False}
    if forged_epoch is not None:
        value["structuredContent"] = {"session_epoch": forged_epoch}
    return result(rid, value)


def task_result(rid: Any, origin: Origin) -> Json:
    """What a task-augmented call is answered with at once."""
    task = {"taskId": f"task-{origin.execution}", "status": "working", "statusMessage": str(origin)}
    return result(rid, {"task": task})


def with_epoch(message: Json, epoch: int) -> Json:
    """The message with the epoch at the place that its kind has for it."""
    if "result" in message:
        return {**message, "result": {**message["result"], "_meta": {"session_epoch": epoch}}}
    if "error" in message:
        return {**message, "error": {**message["error"], "data": {"_meta": {"session_epoch": epoch}}}}
    params = {**message.get("params", {}), "_meta": {"session_epoch": epoch}}
    return {**message, "params": params}


def encode(message: Json | list[Json], traits: ServerTraits) -> str:
    """JSON text, of an array for a batch; servers differ in spaces and in where the id stands."""
    if isinstance(message, list):
        return f"[{','.join(encode(member, traits) for member in message)}]"
    if not traits.id_first and "id" in message:
        message = {**{k: v for k, v in message.items() if k != "id"}, "id": message["id"]}
    return json.dumps(message, separators=(",", ":") if traits.id_first else None)


def frame(text: str, event_id: str | None, traits: ServerTraits, retry: int | None = None) -> bytes:
    """One SSE event."""
    lines = [] if event_id is None else [f"id: {event_id}"]
    if text:
        lines.insert(len(lines) if traits.id_first else 0, "event: message")
    if retry is not None:
        lines.append(f"retry: {retry}")
    lines.append(f"data: {text}")
    return (traits.eol.join(lines) + traits.eol * 2).encode()


TOOL_HINTS: dict[str, Json] = {
    "count": {"readOnlyHint": True},
    "quick": {"readOnlyHint": True},
    "order": {"readOnlyHint": False, "destructiveHint": True},
    "ask": {"readOnlyHint": False, "destructiveHint": False},
    "task": {"readOnlyHint": True},
    "stuck": {"readOnlyHint": True},
    "bare": {},
}


def tool_list(is_annotated: bool) -> list[Json]:
    return [
        {
            "name": name,
            "inputSchema": {"type": "object"},
            **({"annotations": hints} if hints and is_annotated else {}),
        }
        for name, hints in TOOL_HINTS.items()
    ]


def calls_in(body: bytes | None) -> list[Json]:
    """The tool calls of a POST, one or a batch."""
    if body is None or b'"tools/call"' not in body:
        return []
    message = json.loads(body)
    return message if isinstance(message, list) else [message]
