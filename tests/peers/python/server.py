"""An MCP server made with the official Python SDK, 1.30 or 2.3, that a test can steer.

    python server.py --port 0 [--events] [--epoch] [--released]

It says what happens as JSON lines on stdout (`ready`, `received` with the method of each message,
`execution` for each run of the tool) and obeys JSON lines on stdin (`release`, `evict`, `forget`).
`--events` gives it an event store, `--epoch` tags every message with the epoch of its session.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import uuid

import uvicorn
from epochs import EpochTags, Spy
from event_store import IntegerEventStore

try:
    from mcp.server.mcpserver import Context, MCPServer

    IS_V2 = True
except ModuleNotFoundError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer

    IS_V2 = False


def tell(event: str, **what: object) -> None:
    print(json.dumps({"event": event, **what}), flush=True)


class Gate:
    """Where a run of the tool waits until the test lets it go on."""

    def __init__(self, is_open: bool) -> None:
        self._opened = asyncio.Event()
        if is_open:
            self._opened.set()

    async def wait_opened(self) -> None:
        await self._opened.wait()

    def open(self) -> None:
        self._opened.set()


def build(gate: Gate, has_store: bool) -> tuple[object, MCPServer]:
    """The ASGI application and the server behind it."""
    store = IntegerEventStore() if has_store else None
    server = MCPServer("peer") if IS_V2 else MCPServer("peer", event_store=store)

    @server.tool(structured_output=False)
    async def count(steps: int, hold_at: int, ctx: Context) -> str:
        """Count to `steps`, telling progress; wait after step `hold_at` until released."""
        run = uuid.uuid4().hex
        tell("execution", run=run)
        total = 0
        for step in range(1, steps + 1):
            total += step
            await ctx.report_progress(step, steps, run)
            if step == hold_at:
                await gate.wait_opened()
        return json.dumps({"run": run, "sum": total})

    @server.tool(structured_output=False)
    async def echo(text: str) -> str:
        """Give back what was said."""
        return text

    app = server.streamable_http_app(event_store=store) if IS_V2 else server.streamable_http_app()
    return app, server


class WebServer(uvicorn.Server):
    """uvicorn, telling when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            tell("ready", port=self.servers[0].sockets[0].getsockname()[1])


async def evict(server: MCPServer, *, is_forgotten_only: bool) -> int:
    """End every session; `is_forgotten_only` leaves what is in flight running. Returns how many."""
    manager = server.session_manager
    sessions = dict(manager._server_instances)
    for session_id, transport in sessions.items():
        if is_forgotten_only:
            manager._server_instances.pop(session_id)
        else:
            await manager._discard_session(session_id, transport)
    return len(sessions)


async def obey(gate: Gate, server: MCPServer) -> None:
    """Carry out the test's orders until it closes our stdin."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        match json.loads(line)["do"]:
            case "release":
                gate.open()
                tell("released")
            case "evict":
                tell("evicted", sessions=await evict(server, is_forgotten_only=False))
            case "forget":
                tell("evicted", sessions=await evict(server, is_forgotten_only=True))
            case unknown:
                raise SystemExit(f"no such order: {unknown}")


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--events", action="store_true", help="keep events, with integer ids")
    parser.add_argument("--epoch", action="store_true", help="state the session's epoch on every message")
    parser.add_argument("--released", action="store_true", help="let the tool run through")
    options = parser.parse_args()

    gate = Gate(options.released)
    app, server = build(gate, options.events)
    if options.epoch:
        app = EpochTags(app)
    app = Spy(app, lambda method: tell("received", method=method))

    listener = socket.create_server(("127.0.0.1", options.port))
    web = WebServer(uvicorn.Config(app, log_level="warning", lifespan="on", ws="none"))
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    obeying = asyncio.create_task(obey(gate, server))
    await asyncio.wait({serving, obeying}, return_when=asyncio.FIRST_COMPLETED)
    web.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
