"""An MCP server made with the official Python SDK, 1.30 or 2.3, that a test can steer.

    python server.py --port 0 [--events] [--epoch] [--retry MS] [--released] [--asking] [--destructive]
                     [--old] [--cors ORIGIN]

It says what happens as JSON lines on stdout (`ready`, `received` with the method of each message,
`execution` for each run of a tool, `cancelled` for one that was) and obeys JSON lines on stdin (`release`,
`evict`, `forget`). `--events` gives it one event store for all its sessions, `--epoch`
tags every message with the epoch of its session, `--retry` tells clients how long to wait before they resume,
`--asking` adds tools that ask their caller (1.30 only), `--destructive` declares that `count` destroys,
`--old` serves HTTP+SSE of 2024-11-05 at `/sse` instead, `--cors` lets pages of this origin in (1.30 only).
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
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from starlette.middleware.cors import CORSMiddleware

try:
    from mcp.server.mcpserver import Context, MCPServer

    IS_V2 = True
except ModuleNotFoundError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer

    IS_V2 = False


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


def build(gates: Gates, options: argparse.Namespace) -> tuple[object, MCPServer]:
    """The ASGI application and the server behind it."""
    store = IntegerEventStore() if options.events else None
    resuming = {"event_store": store, "retry_interval": options.retry}
    if options.cors:
        resuming["transport_security"] = allowing(options.cors)
    server = MCPServer("peer") if IS_V2 else MCPServer("peer", **resuming)
    hints = ToolAnnotations(destructiveHint=True) if options.destructive else None

    @server.tool(structured_output=False, annotations=hints)
    async def count(steps: int, hold_at: int, ctx: Context, label: str = "") -> str:
        """Count to `steps`, telling progress; wait after step `hold_at` until released."""
        run = uuid.uuid4().hex
        tell("execution", run=run, label=label)
        total = 0
        for step in range(1, steps + 1):
            total += step
            await ctx.report_progress(step, steps, run)
            if step == hold_at:
                await hold(label)
        return json.dumps({"run": run, "sum": total})

    async def hold(label: str) -> None:
        try:
            await gates.wait_opened(label)
        except asyncio.CancelledError:
            tell("cancelled", label=label)
            raise

    @server.tool(structured_output=False)
    async def echo(text: str) -> str:
        """Give back what was said."""
        return text

    if options.asking:
        from asking import add_asking_tools

        add_asking_tools(server, tell, gates.wait_opened)
    if options.old:
        return server.sse_app(), server
    app = server.streamable_http_app(**resuming) if IS_V2 else server.streamable_http_app()
    return app, server


def allowing(origin: str) -> TransportSecuritySettings:
    """The SDK's own guard against pages of elsewhere, which lets this one through."""
    return TransportSecuritySettings(allowed_hosts=["127.0.0.1:*"], allowed_origins=[origin])


def readable(app: object, origin: str) -> CORSMiddleware:
    """`app`, answering preflights and letting pages of this origin read its answers, as its authors would."""
    methods = ["GET", "POST", "DELETE"]
    exposed = ["Mcp-Session-Id", "WWW-Authenticate"]
    return CORSMiddleware(
        app, allow_origins=[origin], allow_methods=methods, allow_headers=["*"], expose_headers=exposed
    )


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


async def obey(gates: Gates, server: MCPServer) -> None:
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
    parser.add_argument("--retry", type=int, help="milliseconds before a client should resume")
    parser.add_argument("--released", action="store_true", help="let the tool run through")
    parser.add_argument("--asking", action="store_true", help="add the tools that ask their caller")
    parser.add_argument("--destructive", action="store_true", help="declare `count` destructive")
    parser.add_argument("--old", action="store_true", help="serve the transport of 2024-11-05")
    parser.add_argument("--cors", metavar="ORIGIN", help="let pages of this origin in")
    options = parser.parse_args()

    gates = Gates(options.released)
    app, server = build(gates, options)
    if options.epoch:
        app = EpochTags(app)
    app = Spy(app, lambda method: tell("received", method=method))
    if options.cors:
        app = readable(app, options.cors)

    listener = socket.create_server(("127.0.0.1", options.port))
    web = WebServer(uvicorn.Config(app, log_level="warning", lifespan="on", ws="none"))
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    obeying = asyncio.create_task(obey(gates, server))
    await asyncio.wait({serving, obeying}, return_when=asyncio.FIRST_COMPLETED)
    web.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
