"""What every steered client in Python shares: telling, the questions it is asked, and obeying orders.

Orders are JSON lines on stdin: `initialize` (with any `session`), `list`, `call` (with `call`, `tool`,
`arguments`), `cancel` (a `call`), `answer` (the question of this `number`, or with `kind` all to come of that
kind, with `text`), `work` (tell the `progress` of its answer), `renew` (end the session and begin another, at
any other `url`), `close`. What happens is told as JSON lines on stdout: `ready`, `initialized`, `listed`,
`progress`, `result`, `error`, `log`, `asked` (with `number` and `kind`, unless it is answered already),
`closed`. Calls run side by side; `call` names one in all that is told of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Protocol

from mcp import types

try:
    from mcp.shared.exceptions import MCPError
except ImportError:
    from mcp.shared.exceptions import McpError as MCPError


def tell(event: str, **what: Any) -> None:
    print(json.dumps({"event": event, **what}), flush=True)


class Questions:
    """What the server asked. It gets its answers from the test."""

    def __init__(self) -> None:
        self._answers: list[asyncio.Future[str]] = []
        self._contexts: list[Any] = []
        self._standing: dict[str, str] = {}  # answers by kind

    async def ask(self, kind: str, context: Any) -> str:
        if kind in self._standing:
            return self._standing[kind]
        answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        self._contexts.append(context)
        tell("asked", number=len(self._answers), kind=kind)
        return await answer

    def answer(self, number: int, text: str) -> None:
        self._answers[number - 1].set_result(text)

    def answer_all(self, kind: str, text: str) -> None:
        self._standing[kind] = text

    def token(self, number: int) -> str | int | None:
        """The progress token that came with this question."""
        meta = self._contexts[number - 1].meta
        return meta.progressToken if meta else None

    async def sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        text = types.TextContent(type="text", text=await self.ask("sampling", context))
        return types.CreateMessageResult(role="assistant", content=text, model="test")

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content=await self.form(context))

    async def form(self, context: Any) -> dict[str, str]:
        """An elicitation's answer: fits the forms of the steered servers and of server-everything."""
        text = await self.ask("elicitation", context)
        return {"text": text, "name": text}

    async def roots(self, context: Any) -> types.ListRootsResult:
        root = types.Root(uri="file:///root", name=await self.ask("roots", context))
        return types.ListRootsResult(roots=[root])


class Acting(Protocol):
    """One session of a client library."""

    async def initialize(self) -> tuple[str, str]:
        """The server's name and the revision that was agreed on."""

    async def list_tools(self) -> list[str]: ...

    async def call_tool(
        self, call: str, tool: str, arguments: dict[str, Any], on_progress: Callable[..., Awaitable[None]]
    ) -> Any:
        """The result, as the library's model."""

    async def cancel(self, call: str) -> None: ...

    async def work(self, token: str | int | None, progress: float) -> None: ...


Connect = Callable[[AsyncExitStack, str, Questions], Awaitable[Acting]]


async def call_tool(session: Acting, call: str, tool: str, arguments: dict[str, Any]) -> None:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        tell("progress", call=call, progress=progress, total=total, message=message)

    result = await session.call_tool(call, tool, arguments, on_progress)
    plain = result.model_dump(mode="json", by_alias=True)
    text = "\n".join(part.get("text", "") for part in plain["content"])
    tell("result", call=call, text=text, failed=bool(plain.get("isError")), meta=plain.get("_meta") or {})


async def perform(session: Acting, questions: Questions, order: dict[str, Any]) -> None:
    match order["do"]:
        case "initialize":
            server, revision = await session.initialize()
            tell("initialized", session=order.get("session"), server=server, revision=revision)
        case "list":
            tell("listed", tools=sorted(await session.list_tools()))
        case "call":
            await call_tool(session, order["call"], order["tool"], order["arguments"])
        case "cancel":
            await session.cancel(order["call"])
        case "work":
            await session.work(questions.token(order["number"]), order["progress"])
        case "answer" if "kind" in order:
            questions.answer_all(order["kind"], order["text"])
        case "answer":
            questions.answer(order["number"], order["text"])
        case unknown:
            raise SystemExit(f"no such order: {unknown}")


def tell_failure(order: dict[str, Any], task: asyncio.Task[None]) -> None:
    """Tell what the library raised; a task that was cancelled was given up by the test."""
    if task.cancelled() or (error := task.exception()) is None:
        return
    if isinstance(error, MCPError):
        what = {"code": error.error.code, "message": error.error.message, "data": error.error.data}
    else:
        what = {"code": None, "message": repr(error), "data": None}
    tell("error", call=order.get("call"), **what)


async def play(url: str, connect: Connect, orders: asyncio.StreamReader) -> str | None:
    """One session, until it is closed (None) or renewed (where the next one is)."""
    async with AsyncExitStack() as stack:
        questions = Questions()
        session = await connect(stack, url, questions)
        running = set()
        tell("ready")
        while line := await orders.readline():
            order = json.loads(line)
            if order["do"] in ("renew", "close"):
                break
            task = asyncio.create_task(perform(session, questions, order))
            running.add(task)
            task.add_done_callback(running.discard)
            task.add_done_callback(lambda task, order=order: tell_failure(order, task))
        for task in running:
            task.cancel()
    return order.get("url", url) if line and order["do"] == "renew" else None


async def main(connect: Connect) -> None:
    """Play sessions at the URL of the command line until the test has enough."""
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    url: str | None = sys.argv[1]
    while url is not None:
        url = await play(url, connect, orders)
    tell("closed")
