"""An MCP server made with FastMCP that a test can steer: the lines, orders and flags of server.py."""

from __future__ import annotations

import asyncio

from asking_2 import asker
from event_store import IntegerEventStore
from fastmcp import Context, FastMCP
from mcp.types import ToolAnnotations
from steering import STEPS_HELP, Gates, count_to, options, serve, tell


async def main() -> None:
    chosen = options()
    gates = Gates(chosen.released)
    server = FastMCP("peer")
    hints = ToolAnnotations(destructiveHint=True) if chosen.destructive else None

    @server.tool(output_schema=None, annotations=hints, description=STEPS_HELP)
    async def count(steps: int, hold_at: int, ctx: Context, label: str = "") -> str:
        return await count_to(ctx, gates, steps, hold_at, label)

    @server.tool(output_schema=None)
    async def echo(text: str) -> str:
        """Give back what was said."""
        return text

    if chosen.asking:
        server.tool(output_schema=None)(asker(Context, tell, gates.wait_opened))
    store = IntegerEventStore() if chosen.events else None
    app = server.http_app(path="/mcp", event_store=store, retry_interval=chosen.retry)
    (endpoint,) = (route.endpoint for route in app.routes if route.path == "/mcp")
    await serve(app, chosen.port, chosen.epoch, gates, lambda: endpoint.session_manager)


if __name__ == "__main__":
    asyncio.run(main())
