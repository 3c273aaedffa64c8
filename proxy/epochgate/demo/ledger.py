"""The work of the demo: a ledger, the tool that adds it up, and the events that the tool produces."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

LEDGER: tuple[int, ...] = tuple((entry * 7919) % 9973 + 1 for entry in range(1, 1001))

TOOL: Json = {
    "name": "sum_ledger",
    "description": "Adds up all entries of the ledger, reporting the running total after each.",
    "inputSchema": {"type": "object", "properties": {}},
    "annotations": {"readOnlyHint": True, "idempotentHint": True},
}


@dataclass(slots=True)
class Run:
    """The state of one handler: what it has added up, and which entries those were."""

    epoch: int
    first_entry: int
    last_entry: int = 0
    total: int = 0


@dataclass(slots=True)
class Buffer:
    """The events of one call, ids 1, 2, ...; it knows the request and no session."""

    request_id: int | str
    token: int | str | None
    events: list[bytes] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return len(self.events) > len(LEDGER)

    @property
    def next_entry(self) -> int:
        return len(self.events) + 1

    def append(self, message: Json) -> bytes:
        head = f"id: {len(self.events) + 1}\nevent: message\ndata: ".encode()
        self.events.append(head + encode({"jsonrpc": "2.0"} | message) + b"\n\n")
        return self.events[-1]


def encode(message: Json) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def work(run: Run, buffer: Buffer) -> bytes:
    """Add the buffer's next entry to the run's total, or finish the call; returns the new event.

    The event is tagged with the run's epoch here, when it is produced, not when it is sent.
    """
    entry, meta = buffer.next_entry, {"session_epoch": run.epoch}
    if entry > len(LEDGER):
        content = [{"type": "text", "text": f"{len(LEDGER):,} entries, total {run.total:,}"}]
        totals = {"entries": len(LEDGER), "total": run.total}
        result = {"content": content, "structuredContent": totals, "_meta": meta}
        return buffer.append({"id": buffer.request_id, "result": result})
    run.total += LEDGER[entry - 1]
    run.last_entry = entry
    params: Json = {"progress": entry, "total": len(LEDGER), "message": f"running total {run.total}"}
    if buffer.token is not None:
        params["progressToken"] = buffer.token
    params["_meta"] = meta
    return buffer.append({"method": "notifications/progress", "params": params})
