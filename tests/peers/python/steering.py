"""What every steered server in Python shares: telling, gates, a web server, and obeying the test's orders."""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import uuid
from collections.abc import Callable
from typing import Any

import uvicorn
from epochs import App, EpochTags, Spy

STEPS_HELP = "Count to `steps`, telling progress; wait after step `hold_at` until released."


def tell(event: str, **what: object) -> None:
    print(json.dumps({"event": event, **what}), flush=True)


class Gates:
    """Where runs of a tool wait until the test lets those with their label go on."""

    def __init__(self, are_open: bool) -> None:
        self._are_open = are_open
        self._opened: dict[str, asyncio.Event] = {}

    async def wait_opened(self, label: str) -> None:
        if not self._are_open:
            await self._gate(label).wait()

    def open(self, label: str) -> None:
        self._gate(label).set()

    def _gate(self, label: str) -> asyncio.Event:
        return self._opened.setdefault(label, asyncio.Event())


async def count_to(ctx: Any, gates: Gates, steps: int, hold_at: int, label: str) -> str:
    """The work of the tool `count`: every step of its progress names the run, and so does its answer."""
    run = uuid.uuid4().hex
    tell("execution", run=run, label=label)
    total = 0
    for step in range(1, steps + 1):
        total += step
        await ctx.report_progress(step, steps, run)
        if step == hold_at:
            await _hold(gates, label)
    return json.dumps({"run": run, "sum": total})


async def _hold(gates: Gates, label: str) -> None:
    try:
        await gates.wait_opened(label)
    except asyncio.CancelledError:
        tell("cancelled", label=label)
        raise


def options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--events", action="store_true", help="keep events, with integer ids")
    parser.add_argument("--epoch", action="store_true", help="state the session's epoch on every message")
    parser.add_argument("--retry", type=int, help="milliseconds before a client should resume")
    parser.add_argument("--released", action="store_true", help="let the tool run through")
    parser.add_argument("--asking", action="store_true", help="add the tools that ask their caller")
    parser.add_argument("--destructive", action="store_true", help="declare `count` destructive")
    parser.add_argument("--old", action="store_true", help="serve the transport of 2024-11-05")
    parser.add_argument("--cors", metavar="ORIGIN", help="let pages of this origin in")
    return parser.parse_args()


class WebServer(uvicorn.Server):
    """uvicorn, telling when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            tell("ready", port=self.servers[0].sockets[0].getsockname()[1])


async def serve(app: App, port: int, has_epochs: bool, gates: Gates, manager: Callable[[], Any]) -> None:
    """Serve the SDK's application until the test closes our stdin; `manager` gives what keeps sessions."""
    if has_epochs:
        app = EpochTags(app)
    app = Spy(app, lambda method: tell("received", method=method))
    listener = socket.create_server(("127.0.0.1", port))
    web = WebServer(uvicorn.Config(app, log_level="warning", lifespan="on", ws="none"))
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    obeying = asyncio.create_task(_obey(gates, manager))
    await asyncio.wait({serving, obeying}, return_when=asyncio.FIRST_COMPLETED)
    web.should_exit = True
    await serving


async def _obey(gates: Gates, manager: Callable[[], Any]) -> None:
    """Carry out the test's orders until it closes our stdin."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        order = json.loads(line)
        match order["do"]:
            case "release":
                gates.open(order.get("label", ""))
                tell("released")
            case "evict":
                tell("evicted", sessions=await _evict(manager(), is_forgotten_only=False))
            case "forget":
                tell("evicted", sessions=await _evict(manager(), is_forgotten_only=True))
            case unknown:
                raise SystemExit(f"no such order: {unknown}")


async def _evict(manager: Any, *, is_forgotten_only: bool) -> int:
    """End every session; `is_forgotten_only` leaves what is in flight running. Returns how many."""
    sessions = dict(manager._server_instances)
    for session_id, transport in sessions.items():
        if is_forgotten_only:
            manager._server_instances.pop(session_id)
        else:
            await manager._discard_session(session_id, transport)
    return len(sessions)
