"""An MCP client made with the official Python SDK, 1.30 or 2.3 (its legacy mode), that a test can steer.

    python client.py URL

Orders are JSON lines on stdin: `initialize`, `list`, `call` (with `call`, `tool`, `arguments`), `close`.
What happens is told as JSON lines on stdout: `initialized`, `listed`, `progress`, `result`, `error`, `log`.
Calls run side by side; `call` names one in all that is told of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

try:
    from mcp.shared.exceptions import MCPError
except ImportError:
    from mcp.shared.exceptions import McpError as MCPError


def tell(event: str, **what: Any) -> None:
    print(json.dumps({"event": event, **what}), flush=True)


async def on_log(params: Any) -> None:
    tell("log", level=params.level, logger=params.logger, data=params.data)


async def initialize(session: ClientSession) -> None:
    result = (await session.initialize()).model_dump(mode="json", by_alias=True)
    tell("initialized", server=result["serverInfo"]["name"], revision=result["protocolVersion"])


async def list_tools(session: ClientSession) -> None:
    tell("listed", tools=sorted(tool.name for tool in (await session.list_tools()).tools))


async def call_tool(session: ClientSession, call: str, tool: str, arguments: dict[str, Any]) -> None:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        tell("progress", call=call, progress=progress, total=total, message=message)

    result = await session.call_tool(tool, arguments, progress_callback=on_progress)
    plain = result.model_dump(mode="json", by_alias=True)
    tell("result", call=call, text=plain["content"][0]["text"], meta=plain.get("_meta") or {})


async def tell_failure(order: dict[str, Any], doing: Any) -> None:
    try:
        await doing
    except MCPError as error:
        told = error.error
        tell("error", call=order.get("call"), code=told.code, message=told.message, data=told.data)


def perform(session: ClientSession, order: dict[str, Any]) -> Any:
    match order["do"]:
        case "initialize":
            return initialize(session)
        case "list":
            return list_tools(session)
        case "call":
            return call_tool(session, order["call"], order["tool"], order["arguments"])
        case unknown:
            raise SystemExit(f"no such order: {unknown}")


async def main(url: str) -> None:
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(streamable_http_client(url))
        session = await stack.enter_async_context(
            ClientSession(streams[0], streams[1], logging_callback=on_log)
        )
        running = set()
        tell("ready")
        while line := await orders.readline():
            order = json.loads(line)
            if order["do"] == "close":
                break
            task = asyncio.create_task(tell_failure(order, perform(session, order)))
            running.add(task)
            task.add_done_callback(running.discard)
        for task in running:
            task.cancel()
    tell("closed")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
