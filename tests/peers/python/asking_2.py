"""The tool that asks its caller before it answers, for `mcp` 2.x and FastMCP on it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import types
from pydantic import BaseModel

Tell = Callable[..., None]
Wait = Callable[[str], Awaitable[None]]


class Reply(BaseModel):
    """What an elicitation asks for."""

    text: str


def asker(context_type: type, tell: Tell, wait_opened: Wait) -> Callable[..., Awaitable[str]]:
    """`ask`, as a function that a server whose tools are given a `context_type` can make a tool of."""

    async def sample(ctx: Any, label: str) -> str:
        content = types.TextContent(type="text", text=label)
        answer = await ctx.session.create_message(
            [types.SamplingMessage(role="user", content=content)],
            max_tokens=10,
            related_request_id=ctx.request_id,
        )
        return str(answer.content.text)

    async def elicit(ctx: Any, label: str) -> str:
        return str((await ctx.elicit(label, Reply)).data.text)

    questions = {"sampling": sample, "elicitation": elicit}

    async def ask(kind: str, label: str, waits: str, ctx: Any) -> str:
        """Ask, and give back the answer. `waits`: hold `before` the question, `after` its answer, or no."""
        run = uuid.uuid4().hex
        tell("execution", run=run, label=label)
        await ctx.report_progress(0, None, run)
        if waits == "before":
            await wait_opened(label)
        answer = await questions[kind](ctx, label)
        tell("answered", label=label, answer=answer)
        if waits == "after":
            await wait_opened(label)
        return json.dumps({"run": run, "answer": answer})

    ask.__annotations__["ctx"] = context_type
    return ask
