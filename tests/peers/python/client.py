"""An MCP client made with the official Python SDK, 1.30 or 2.3 (its legacy mode), that a test can steer.

    python client.py URL

A URL that ends in `/sse` is spoken to by HTTP+SSE of 2024-11-05.

Orders are JSON lines on stdin: `initialize` (with any `session`), `list`, `call` (with `call`, `tool`,
`arguments`), `cancel` (a `call`), `answer` (the question of this `number`, with `text`), `work` (tell the
`progress` of its answer), `renew` (end the session and begin another), `close`. What happens is told as
JSON lines on stdout: `ready`, `initialized`, `listed`, `progress`, `result`, `error`, `log`, `asked` (with
`number` and `kind`), `closed`. Calls run side by side; `call` names one in all that is told of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

from mcp import ClientSession, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

try:
    from mcp.shared.exceptions import MCPError
except ImportError:
    from mcp.shared.exceptions import McpError as MCPError


def tell(event: str, **what: Any) -> None:
    print(json.dumps({"event": event, **what}), flush=True)


async def on_log(params: Any) -> None:
    tell("log", level=params.level, logger=params.logger, data=params.data)


async def initialize(session: ClientSession, name: str | None) -> None:
    result = (await session.initialize()).model_dump(mode="json", by_alias=True)
    server = result["serverInfo"]["name"]
    tell("initialized", session=name, server=server, revision=result["protocolVersion"])


async def list_tools(session: ClientSession) -> None:
    tell("listed", tools=sorted(tool.name for tool in (await session.list_tools()).tools))


class Questions:
    """What the server asked. It gets its answers from the test."""

    def __init__(self) -> None:
        self._answers: list[asyncio.Future[str]] = []
        self._tokens: list[str | int | None] = []

    async def ask(self, kind: str, context: Any) -> str:
        answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        self._tokens.append(context.meta.progressToken if context.meta else None)
        tell("asked", number=len(self._answers), kind=kind)
        return await answer

    def answer(self, number: int, text: str) -> None:
        self._answers[number - 1].set_result(text)

    async def work(self, session: ClientSession, number: int, progress: float) -> None:
        await session.send_progress_notification(self._tokens[number - 1], progress)

    async def sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        text = types.TextContent(type="text", text=await self.ask("sampling", context))
        return types.CreateMessageResult(role="assistant", content=text, model="test")

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"text": await self.ask("elicitation", context)})

    async def roots(self, context: Any) -> types.ListRootsResult:
        root = types.Root(uri="file:///root", name=await self.ask("roots", context))
        return types.ListRootsResult(roots=[root])


request_ids: dict[str, int] = {}


async def cancel(session: ClientSession, call: str) -> None:
    params = types.CancelledNotificationParams(requestId=request_ids[call], reason="enough")
    await session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))


async def call_tool(session: ClientSession, call: str, tool: str, arguments: dict[str, Any]) -> None:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        tell("progress", call=call, progress=progress, total=total, message=message)

    request_ids[call] = getattr(session, "_request_id", -1)  # the one that is used next; 2.x has no such
    result = await session.call_tool(tool, arguments, progress_callback=on_progress)
    plain = result.model_dump(mode="json", by_alias=True)
    tell("result", call=call, text=plain["content"][0]["text"], meta=plain.get("_meta") or {})


async def tell_failure(order: dict[str, Any], doing: Any) -> None:
    try:
        await doing
    except MCPError as error:
        told = error.error
        tell("error", call=order.get("call"), code=told.code, message=told.message, data=told.data)


def perform(session: ClientSession, questions: Questions, order: dict[str, Any]) -> Any:
    match order["do"]:
        case "initialize":
            return initialize(session, order.get("session"))
        case "list":
            return list_tools(session)
        case "call":
            return call_tool(session, order["call"], order["tool"], order["arguments"])
        case "cancel":
            return cancel(session, order["call"])
        case "work":
            return questions.work(session, order["number"], order["progress"])
        case unknown:
            raise SystemExit(f"no such order: {unknown}")


async def play(url: str, orders: asyncio.StreamReader) -> bool:
    """One session, until it is renewed (True) or closed (False)."""
    connect = sse_client if url.endswith("/sse") else streamable_http_client
    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(connect(url))
        questions = Questions()
        asked = {
            "sampling_callback": questions.sample,
            "elicitation_callback": questions.elicit,
            "list_roots_callback": questions.roots,
        }
        session = await stack.enter_async_context(
            ClientSession(streams[0], streams[1], logging_callback=on_log, **asked)
        )
        running = set()
        tell("ready")
        while line := await orders.readline():
            order = json.loads(line)
            if order["do"] in ("renew", "close"):
                break
            if order["do"] == "answer":
                questions.answer(order["number"], order["text"])
                continue
            task = asyncio.create_task(tell_failure(order, perform(session, questions, order)))
            running.add(task)
            task.add_done_callback(running.discard)
        for task in running:
            task.cancel()
    return bool(line) and order["do"] == "renew"


async def main(url: str) -> None:
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    while await play(url, orders):
        pass
    tell("closed")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
