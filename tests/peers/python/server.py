"""An MCP server made with the official Python SDK, 1.30 or 2.3, that a test can steer.

    python server.py --port 0 [--events] [--epoch] [--retry MS] [--released] [--asking] [--destructive]
                     [--old] [--cors ORIGIN]

It says what happens as JSON lines on stdout (`ready`, `received` with the method of each message or
`DELETE`, `execution` for each run of a tool, `cancelled` for one that was) and obeys JSON lines on stdin
(`release`, `evict`, `forget`). `--events` gives it one event store for all its sessions, `--epoch`
tags every message with the epoch of its session, `--retry` tells clients how long to wait before they resume,
`--asking` adds tools that ask their caller, `--destructive` declares that `count` destroys, `--old` serves
HTTP+SSE of 2024-11-05 at `/sse` instead, `--cors` lets pages of this origin in (1.30 only).
"""

from __future__ import annotations

import asyncio

from event_store import IntegerEventStore
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from starlette.middleware.cors import CORSMiddleware
from steering import STEPS_HELP, Gates, count_to, options, serve, tell

try:
    from mcp.server.mcpserver import Context, MCPServer

    IS_V2 = True
except ModuleNotFoundError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer

    IS_V2 = False


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


async def main() -> None:
    chosen = options()
    gates = Gates(chosen.released)
    store = IntegerEventStore() if chosen.events else None
    resuming = {"event_store": store, "retry_interval": chosen.retry}
    if chosen.cors:
        resuming["transport_security"] = allowing(chosen.cors)
    server = MCPServer("peer") if IS_V2 else MCPServer("peer", **resuming)
    hints = ToolAnnotations(destructiveHint=True) if chosen.destructive else None

    @server.tool(structured_output=False, annotations=hints, description=STEPS_HELP)
    async def count(steps: int, hold_at: int, ctx: Context, label: str = "") -> str:
        return await count_to(ctx, gates, steps, hold_at, label)

    @server.tool(structured_output=False)
    async def echo(text: str) -> str:
        """Give back what was said."""
        return text

    if chosen.asking and IS_V2:
        from asking_2 import asker

        server.tool(structured_output=False)(asker(Context, tell, gates.wait_opened))
    elif chosen.asking:
        from asking import add_asking_tools

        add_asking_tools(server, tell, gates.wait_opened)
    if chosen.old:
        app = server.sse_app()
    else:
        app = server.streamable_http_app(**resuming) if IS_V2 else server.streamable_http_app()
    if chosen.cors:
        app = readable(app, chosen.cors)
    await serve(app, chosen.port, chosen.epoch, gates, lambda: server.session_manager)


if __name__ == "__main__":
    asyncio.run(main())
