"""JSON-RPC messages and SSE events as servers and clients write them, and a reader of the latter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Any  # whatever JSON a test writes or reads


@dataclass(slots=True)
class SseEvent:
    """An event as a client reads it; `json` is None for priming."""

    id: bytes | None
    name: bytes
    data: bytes | None
    json: Json


def initialize(version: str = "2025-11-25", id: Json = 0) -> Json:
    info = {"name": "client", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {"sampling": {}}, "clientInfo": info}
    return request("initialize", params, id=id)


def initialize_answer(
    id: Json, epoch: Json = None, version: str = "2025-11-25", *, has_logging: bool = False, **changes: Json
) -> Json:
    capabilities: dict[str, Json] = {"tools": {"listChanged": True}}
    if has_logging:
        capabilities["logging"] = {}
    info = {"name": "server", "version": "1"}
    body = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info, **changes}
    return result(id, body, epoch)


def request(method: str, params: Mapping[str, Json] | None = None, *, id: Json = 5) -> Json:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method: str, params: Mapping[str, Json] | None = None, epoch: Json = None) -> Json:
    message: dict[str, Json] = {"jsonrpc": "2.0", "method": method}
    if params is not None or epoch is not None:
        message["params"] = _with_epoch(params or {}, epoch)
    return message


def result(id: Json, value: Mapping[str, Json] | None = None, epoch: Json = None) -> Json:
    return {"jsonrpc": "2.0", "id": id, "result": _with_epoch(value or {"content": []}, epoch)}


def error(id: Json, code: int = -32000, message: str = "no") -> Json:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def progress(token: Json, done: float, epoch: Json = None, total: float | None = None) -> Json:
    params: dict[str, Json] = {"progressToken": token, "progress": done}
    if total is not None:
        params["total"] = total
    return notification("notifications/progress", params, epoch)


def log(text: Json, epoch: Json = None) -> Json:
    return notification("notifications/message", {"level": "info", "data": text}, epoch)


def ask(id: Json, method: str = "elicitation/create", epoch: Json = None) -> Json:
    return request(method, _with_epoch({"message": "sure?"}, epoch), id=id)


def cancel(id: Json) -> Json:
    return notification("notifications/cancelled", {"requestId": id})


def _with_epoch(value: Mapping[str, Json], epoch: Json) -> dict[str, Json]:
    return dict(value) if epoch is None else {**value, "_meta": {"session_epoch": epoch}}


def event(message: Json, id: Json = None, *, end: str = "\n") -> bytes:
    """One SSE event; a message that is bytes stands as it is."""
    data = message.decode() if isinstance(message, bytes) else json.dumps(message, separators=(",", ":"))
    lines = ["event: message", *([] if id is None else [f"id: {id}"]), f"data: {data}", "", ""]
    return end.join(lines).encode()


def retry(milliseconds: int) -> bytes:
    return b"retry: %d\n\n" % milliseconds


def read_sse(body: bytes) -> list[SseEvent]:
    """Read a stream as a client does; what is not whole yet is not there."""
    events: list[SseEvent] = []
    for block in body.replace(b"\r\n", b"\n").split(b"\n\n")[:-1]:
        fields: dict[bytes, bytes] = {}
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            fields[name] = fields[name] + b"\n" + value if name == b"data" and name in fields else value
        if b"data" in fields:
            data = fields[b"data"]
            text = json.loads(data) if data else None
            events.append(SseEvent(fields.get(b"id"), fields.get(b"event", b""), data, text))
    return events
