"""An MCP server of the Python SDK 2.3, for the stateless revision and for sessions, that a test can steer.

    python stateless_server.py --port 0 [--cors ORIGIN]

Told on stdout: `ready`, `received` (the method of each message), `execution`, `cancelled` (a call that was),
`listening` and `unlistened` (the ends of `subscriptions/listen`). Orders on stdin: `release` (calls with this
`label`), `change` (tell listeners that the tools changed). What it answers is the same in every run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
from collections.abc import Callable
from typing import Annotated, Any

import uvicorn
from epochs import Spy
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.subscriptions import ToolsListChanged
from pydantic import Field
from server import allowing, readable
from steering import Gates, WebServer, tell

Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]


class Bus(InMemorySubscriptionBus):
    """Tells of the streams that begin and end."""

    def subscribe(self, listener: Callable[[Any], None]) -> Callable[[], None]:
        unsubscribe = super().subscribe(listener)
        tell("listening")

        def end() -> None:
            tell("unlistened")
            unsubscribe()

        return end


def build(gates: Gates, bus: Bus) -> MCPServer:
    server = MCPServer("peer", subscriptions=bus)

    @server.tool(structured_output=False)
    async def count(steps: int, hold_at: int, ctx: Context, label: str = "") -> str:
        """Count to `steps`, telling progress; wait after step `hold_at` until released."""
        tell("execution", label=label)
        for step in range(1, steps + 1):
            await ctx.report_progress(step, steps, f"step {step}")
            if step == hold_at:
                await hold(label)
        return f"counted to {steps}"

    async def hold(label: str) -> None:
        try:
            await gates.wait_opened(label)
        except asyncio.CancelledError:
            tell("cancelled", label=label)
            raise

    @server.tool(structured_output=False)
    async def route(region: Region, text: str) -> str:
        """Its region travels in a header too."""
        return f"{text} in {region}"

    @server.tool(structured_output=False)
    async def fail() -> str:
        """Never works."""
        raise ToolError("as it should")

    return server


async def obey(gates: Gates, bus: Bus) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        match (order := json.loads(line))["do"]:
            case "release":
                gates.open(order.get("label", ""))
            case "change":
                await bus.publish(ToolsListChanged())
            case unknown:
                raise SystemExit(f"no such order: {unknown}")


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--cors", metavar="ORIGIN", help="let pages of this origin in")
    options = parser.parse_args()

    gates, bus = Gates(are_open=False), Bus()
    security = allowing(options.cors) if options.cors else None
    app = build(gates, bus).streamable_http_app(transport_security=security)
    app = Spy(app, lambda method: tell("received", method=method))
    if options.cors:
        app = readable(app, options.cors)
    listener = socket.create_server(("127.0.0.1", options.port))
    web = WebServer(
        uvicorn.Config(app, log_level="warning", lifespan="on", ws="none", timeout_graceful_shutdown=1)
    )
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    obeying = asyncio.create_task(obey(gates, bus))
    await asyncio.wait({serving, obeying}, return_when=asyncio.FIRST_COMPLETED)
    web.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
