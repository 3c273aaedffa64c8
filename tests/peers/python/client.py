"""An MCP client made with the official Python SDK, 1.30 or 2.3 (its `ClientSession`), that a test can steer.

    python client.py URL

Orders and lines are those of acting.py. A URL that ends in `/sse` is spoken to by HTTP+SSE of 2024-11-05.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from acting import Questions, main, tell
from mcp import ClientSession, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client


async def on_log(params: Any) -> None:
    tell("log", level=params.level, logger=params.logger, data=params.data)


class SdkSession:
    """A `ClientSession`, and the ids of its calls' requests."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._request_ids: dict[str, int] = {}

    async def initialize(self) -> tuple[str, str]:
        result = (await self._session.initialize()).model_dump(mode="json", by_alias=True)
        return result["serverInfo"]["name"], result["protocolVersion"]

    async def list_tools(self) -> list[str]:
        return [tool.name for tool in (await self._session.list_tools()).tools]

    async def call_tool(
        self, call: str, tool: str, arguments: dict[str, Any], on_progress: Callable[..., Awaitable[None]]
    ) -> Any:
        # The one that is used next; 2.x has no such.
        self._request_ids[call] = getattr(self._session, "_request_id", -1)
        return await self._session.call_tool(tool, arguments, progress_callback=on_progress)

    async def cancel(self, call: str) -> None:
        params = types.CancelledNotificationParams(requestId=self._request_ids[call], reason="enough")
        notification = types.CancelledNotification(params=params)
        await self._session.send_notification(types.ClientNotification(notification))

    async def work(self, token: str | int | None, progress: float) -> None:
        await self._session.send_progress_notification(token, progress)


async def open_session(stack: AsyncExitStack, streams: Any, questions: Questions) -> SdkSession:
    """A session over these streams, to be initialized."""
    asked = {
        "sampling_callback": questions.sample,
        "elicitation_callback": questions.elicit,
        "list_roots_callback": questions.roots,
    }
    session = ClientSession(streams[0], streams[1], logging_callback=on_log, **asked)
    return SdkSession(await stack.enter_async_context(session))


async def connect(stack: AsyncExitStack, url: str, questions: Questions) -> SdkSession:
    transport = sse_client if url.endswith("/sse") else streamable_http_client
    streams = await stack.enter_async_context(transport(url))
    return await open_session(stack, streams, questions)


if __name__ == "__main__":
    asyncio.run(main(connect))
