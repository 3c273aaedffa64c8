"""The Python SDK's stdio client with `mcp-remote` between it and the server, as desktop hosts run it.

    python bridge_client.py URL

`PEERS_NODE_2` says where mcp-remote is. Orders and lines are those of acting.py; each session is a process
of mcp-remote.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path

from acting import Questions, main
from client import SdkSession, open_session
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

BRIDGE = Path(os.environ["PEERS_NODE_2"]) / "node_modules" / "mcp-remote" / "dist" / "proxy.js"


async def connect(stack: AsyncExitStack, url: str, questions: Questions) -> SdkSession:
    bridge = StdioServerParameters(
        command="node", args=[str(BRIDGE), url, "--allow-http"], env=dict(os.environ)
    )
    return await open_session(stack, await stack.enter_async_context(stdio_client(bridge)), questions)


if __name__ == "__main__":
    asyncio.run(main(connect))
