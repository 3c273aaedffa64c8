"""A relay on one leg that breaks its connections after a random number of bytes, in either direction."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random

RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: closing sends a reset, not an end
MOST_UP, MOST_DOWN = 700, 1_500  # a head and its body; a short stream
BREAKS_OF_TEN = 5


class Fraying:
    """Listens on `port`, relays to `target`; breaks at most `left` more connections."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.left = 0
        self.breaks = 0
        self.random = Random()
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Listen, on the port of before if there was one."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Refuse connections; those that are open go on."""
        assert self._listener is not None
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()

    async def stop(self) -> None:
        self.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self) -> None:
        """Not left to asyncio, which forgets a connection that comes while it stops listening."""
        assert self._listener is not None
        task = asyncio.create_task(self._relay(self._listener.accept()[0]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, accepted: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=accepted)
        ends = [writer]
        try:
            with suppress(OSError):
                up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
                ends.append(up_writer)
                up, down = self._life()
                await self._until_broken(
                    asyncio.create_task(self._pump(reader, up_writer, up)),
                    asyncio.create_task(self._pump(up_reader, writer, down)),
                )
        finally:
            for end in ends:
                end.transport.abort()

    def _life(self) -> tuple[int | None, int | None]:
        """After how many bytes up, or down, the connection breaks."""
        if not self.left or self.random.randrange(10) >= BREAKS_OF_TEN:
            return None, None
        if self.random.random() < 0.5:
            return self.random.randint(0, MOST_UP), None
        return None, self.random.randint(0, MOST_DOWN)

    async def _until_broken(self, *pumps: asyncio.Task[bool]) -> None:
        """Until both ways have ended, or one of them broke the connection."""
        try:
            for pump in asyncio.as_completed(pumps):
                if await pump:
                    return
        finally:
            for one in pumps:
                one.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, life: int | None
    ) -> bool:
        """Whether it broke the connection."""
        while data := await reader.read(1 << 16):
            if life is not None and len(data) > life and self.left:
                self.left -= 1
                self.breaks += 1
                writer.write(data[:life])
                await writer.drain()
                if self.random.random() < 0.5:
                    _reset_on_close(writer)
                return True
            life = None if life is None else max(0, life - len(data))
            writer.write(data)
            await writer.drain()
        writer.write_eof()
        return False


@asynccontextmanager
async def fraying(target: int) -> AsyncIterator[Fraying]:
    relay = Fraying(target)
    relay.open()
    try:
        yield relay
    finally:
        await relay.stop()


def _reset_on_close(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw.fileno() != -1:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
