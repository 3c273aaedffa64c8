"""A tool that asks its caller before it answers, in each of the ways there are. For `mcp` 1.30."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable

from mcp import types
from mcp.server.fastmcp import Context, FastMCP
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel

Tell = Callable[..., None]
Wait = Callable[[str], Awaitable[None]]


class Reply(BaseModel):
    """What an elicitation asks for."""

    text: str


def add_asking_tools(server: FastMCP, tell: Tell, wait_opened: Wait) -> None:
    """`ask` asks and gives back the answer; `withdraw` takes its question back when it is released."""

    async def sample(ctx: Context, label: str) -> str:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            tell("answer_progress", label=label, progress=progress)

        content = types.TextContent(type="text", text=label)
        params = types.CreateMessageRequestParams(
            messages=[types.SamplingMessage(role="user", content=content)], maxTokens=10
        )
        answer = await ctx.session.send_request(
            types.ServerRequest(types.CreateMessageRequest(params=params)),
            types.CreateMessageResult,
            metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
            progress_callback=on_progress,
        )
        return str(answer.content.text)

    async def elicit(ctx: Context, label: str) -> str:
        answer = await ctx.elicit(message=label, schema=Reply)
        return str(answer.data.text)

    async def roots(ctx: Context, label: str) -> str:
        return str((await ctx.session.list_roots()).roots[0].name)

    async def ping(ctx: Context, label: str) -> str:
        await ctx.session.send_ping()
        return "pong"

    questions = {"sampling": sample, "elicitation": elicit, "roots": roots, "ping": ping}

    async def begin(ctx: Context, label: str) -> str:
        run = uuid.uuid4().hex
        tell("execution", run=run, label=label)
        await ctx.report_progress(0, None, run)
        return run

    @server.tool(structured_output=False)
    async def ask(kind: str, label: str, waits: str, ctx: Context) -> str:
        """Ask, and give back the answer. `waits`: hold `before` the question, `after` its answer, or no."""
        run = await begin(ctx, label)
        if waits == "before":
            await wait_opened(label)
        answer = await questions[kind](ctx, label)
        tell("answered", label=label, answer=answer)
        if waits == "after":
            await wait_opened(label)
        return json.dumps({"run": run, "answer": answer})

    @server.tool(structured_output=False)
    async def withdraw(label: str, ctx: Context) -> str:
        """Ask, and take the question back when released."""
        run = await begin(ctx, label)
        number = ctx.session._request_id
        asking = asyncio.create_task(sample(ctx, label))
        await wait_opened(label)
        params = types.CancelledNotificationParams(requestId=number, reason="withdrawn")
        taken_back = types.ServerNotification(types.CancelledNotification(params=params))
        await ctx.session.send_notification(taken_back, related_request_id=ctx.request_id)
        asking.cancel()
        return json.dumps({"run": run, "answer": None})
