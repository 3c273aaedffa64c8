"""One address before whoever stands behind it now, as a Service is before its pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Address:
    """One address for whoever stands behind it now; connections that are there stay where they are."""

    def __init__(self, behind: int) -> None:
        self.behind = behind
        self.port = 0

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward_reader, onward = await asyncio.open_connection("127.0.0.1", self.behind)
        await asyncio.gather(_copy(reader, onward), _copy(onward_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def balanced(behind: int) -> AsyncIterator[Address]:
    address = Address(behind)
    server = await asyncio.start_server(address.carry, "127.0.0.1", 0)
    address.port = server.sockets[0].getsockname()[1]
    try:
        yield address
    finally:
        server.close()
