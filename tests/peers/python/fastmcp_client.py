"""An MCP client made with FastMCP, in its default mode, that a test can steer.

    python fastmcp_client.py URL

Orders and lines are those of acting.py, but for `cancel` and `work`. Where the server offers the stateless
revision 2026-07-28, this client takes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from acting import Questions, main, tell
from fastmcp import Client


async def on_log(message: Any) -> None:
    tell("log", level=message.level, logger=message.logger, data=message.data)


class FastSession:
    """A FastMCP `Client`, connected when it is initialized."""

    def __init__(self, stack: AsyncExitStack, client: Client) -> None:
        self._stack = stack
        self._client = client

    async def initialize(self) -> tuple[str, str]:
        await self._stack.enter_async_context(self._client)
        session = self._client.session
        return session.server_info.name, session.protocol_version

    async def list_tools(self) -> list[str]:
        return [tool.name for tool in await self._client.list_tools()]

    async def call_tool(
        self, call: str, tool: str, arguments: dict[str, Any], on_progress: Callable[..., Awaitable[None]]
    ) -> Any:
        return await self._client.call_tool_mcp(tool, arguments, progress_handler=on_progress)

    async def cancel(self, call: str) -> None:
        raise NotImplementedError

    async def work(self, token: str | int | None, progress: float) -> None:
        raise NotImplementedError


async def connect(stack: AsyncExitStack, url: str, questions: Questions) -> FastSession:
    async def sample(messages: Any, params: Any, context: Any) -> str:
        return await questions.ask("sampling", context)

    async def elicit(message: str, response_type: Any, params: Any, context: Any) -> dict[str, str]:
        return await questions.form(context)

    client = Client(url, log_handler=on_log, sampling_handler=sample, elicitation_handler=elicit)
    return FastSession(stack, client)


if __name__ == "__main__":
    asyncio.run(main(connect))
