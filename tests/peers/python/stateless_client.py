"""The Python SDK's `Client` as it is by default (2.3: probes, then speaks either era), for a test to steer.

    python stateless_client.py URL

Orders on stdin: `connect`, `list`, `call` (with `call`, `tool`, `arguments`; `quiet` asks for no progress),
`leave` (let go of a `call`), `listen`, `unlisten`, `close`. Told on stdout: `ready`, `connected` (with
`revision`), `listed`, `progress`, `result`, `error`, `left`, `listening`, `changed`, `lost` (what it listened
to), `closed`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable
from typing import Any

import httpx2
from mcp import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError

running: dict[str, asyncio.Task[None]] = {}


def tell(event: str, **what: Any) -> None:
    print(json.dumps({"event": event, **what}), flush=True)


async def call(client: Client, call: str, tool: str, arguments: dict[str, Any], is_quiet: bool) -> None:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        tell("progress", call=call, progress=progress, total=total, message=message)

    callback = None if is_quiet else on_progress
    result = await client.call_tool(tool, arguments, progress_callback=callback)
    plain = result.model_dump(mode="json", by_alias=True)
    tell("result", call=call, text=plain["content"][0]["text"], failed=plain["isError"])


async def list_tools(client: Client) -> None:
    tell("listed", tools=sorted(tool.name for tool in (await client.list_tools()).tools))


async def listen(client: Client) -> None:
    async with client.listen(tools_list_changed=True) as subscription:
        tell("listening")
        try:
            async for event in subscription:
                tell("changed", what=type(event).__name__)
        except SubscriptionLost:
            tell("lost")


async def tell_failure(name: str, doing: Awaitable[None]) -> None:
    try:
        await doing
    except asyncio.CancelledError:
        tell("left", call=name)
        raise
    except MCPError as error:
        tell("error", call=name, code=error.error.code, message=error.error.message)
    except ExceptionGroup as group:  # the connection failed while the client was being entered
        failures = group.subgroup(httpx2.TransportError)
        if failures is None:
            raise
        tell("error", call=name, code="TransportError", message=str(failures.exceptions[0]))


async def play(url: str, orders: asyncio.StreamReader) -> None:
    async with Client(url) as client:
        tell("connected", revision=client.protocol_version)
        while line := await orders.readline():
            match order := json.loads(line):
                case {"do": "list"}:
                    start("list", list_tools(client))
                case {"do": "call", "call": name, "tool": tool, "arguments": arguments}:
                    start(name, call(client, name, tool, arguments, order.get("quiet", False)))
                case {"do": "listen"}:
                    start("listen", listen(client))
                case {"do": "leave", "call": name}:
                    running[name].cancel()
                case {"do": "unlisten"}:
                    running["listen"].cancel()
                case {"do": "close"}:
                    break
                case unknown:
                    raise SystemExit(f"no such order: {unknown}")
        for task in running.values():
            task.cancel()


def start(name: str, doing: Awaitable[None]) -> None:
    running[name] = asyncio.create_task(tell_failure(name, doing))


async def main(url: str) -> None:
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    tell("ready")
    while line := await orders.readline():
        assert json.loads(line)["do"] == "connect"
        await tell_failure("connect", play(url, orders))
        tell("closed")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
