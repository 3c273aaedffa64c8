"""Runs a client through a proxy of its own: `python -m tests.interop.through COMMAND… URL`.

Whoever starts the client, as the official suite does, appends the address of the server.
"""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import urlsplit

from tests.interop.stage import Stage
from tests.peers.install import ensure


async def main(command: list[str], url: str) -> int:
    server = urlsplit(url)
    assert server.port is not None
    stage = Stage(ensure())
    try:
        proxy = await stage.proxy(server.port)
        there = server._replace(netloc=f"127.0.0.1:{proxy.port}").geturl()
        client = await asyncio.create_subprocess_exec(*command, there)
        return await client.wait()
    finally:
        await stage.clear()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:-1], sys.argv[-1])))
