"""A TCP relay between two parts of a test that can be cut, and remembers every byte."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

DEADLINE_S = 30.0
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: closing sends a reset, not an end


@dataclass
class _Pair:
    """One connection through the cutter: both ends, and what went either way."""

    ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    up: bytearray = field(default_factory=bytearray)
    down: bytearray = field(default_factory=bytearray)
    resumed_at: int | None = None  # how much had gone down when a resume went up; None: not waiting for it


class Cutter:
    """Listens on `port`, relays to `target` on this machine."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._open: list[_Pair] = []
        self._all: list[_Pair] = []
        self._server: asyncio.Server | None = None
        self._passed = asyncio.Condition()
        self.resumed = 0  # streams that were resumed and had their first event
        self._let_resume = asyncio.Event()
        self._let_resume.set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def cut(self, carrying: bytes = b"") -> int:
        """Reset every open connection on which this went up, on both sides; how many there were."""
        pairs = [pair for pair in self._open if carrying in pair.up]
        for pair in pairs:
            self._open.remove(pair)
            for end in pair.ends:
                _reset(end)
        return len(pairs)

    @contextlib.contextmanager
    def holding_resumes(self) -> Iterator[None]:
        """Inside, no resume reaches the target; it arrives when the block ends."""
        self._let_resume.clear()
        try:
            yield
        finally:
            self._let_resume.set()

    def sent_up(self, fragment: bytes) -> int:
        """How often `fragment` went from the client's side to the server's."""
        return sum(pair.up.count(fragment) for pair in self._all)

    def find_down(self, pattern: bytes) -> list[bytes]:
        """What the group of `pattern` matched in the bytes from the server's side, case apart."""
        return [found for pair in self._all for found in re.findall(b"(?i)" + pattern, pair.down)]

    def conversations(self) -> list[tuple[bytes, bytes]]:
        """What went up and what went down, for each connection so far."""
        return [(bytes(pair.up), bytes(pair.down)) for pair in self._all]

    async def wait_resumed(self, count: int = 1) -> None:
        """Wait until so many streams were resumed and had their first event. Raises `TimeoutError`."""
        async with asyncio.timeout(DEADLINE_S), self._passed:
            await self._passed.wait_for(lambda: self.resumed >= count)

    async def wait_down(self, pattern: bytes, times: int) -> None:
        """Wait until `find_down` finds as many. Raises `TimeoutError`."""
        async with asyncio.timeout(DEADLINE_S), self._passed:
            await self._passed.wait_for(lambda: len(self.find_down(pattern)) >= times)

    async def wait_ended(self, carrying: bytes) -> None:
        """Wait until no open connection is one on which this went up. Raises `TimeoutError`."""
        async with asyncio.timeout(DEADLINE_S), self._passed:
            await self._passed.wait_for(lambda: not any(carrying in pair.up for pair in self._open))

    async def wait_none_open(self) -> None:
        """Wait until no connection is open any more. Raises `TimeoutError`."""
        async with asyncio.timeout(DEADLINE_S), self._passed:
            await self._passed.wait_for(lambda: not self._open)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair((writer, up_writer))
        self._open.append(pair)
        self._all.append(pair)
        await asyncio.gather(
            self._pump(reader, up_writer, pair, is_up=True), self._pump(up_reader, writer, pair, is_up=False)
        )
        if pair in self._open:
            self._open.remove(pair)
        async with self._passed:
            self._passed.notify_all()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pair: _Pair, *, is_up: bool
    ) -> None:
        seen = pair.up if is_up else pair.down
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                seen += data
                if is_up and b"last-event-id:" in data.lower():
                    await self._let_resume.wait()
                    pair.resumed_at = len(pair.down)
                writer.write(data)
                await writer.drain()
                self._count_resumed(pair)
                async with self._passed:
                    self._passed.notify_all()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    def _count_resumed(self, pair: _Pair) -> None:
        if pair.resumed_at is not None and b"\nid: " in pair.down[pair.resumed_at :]:
            pair.resumed_at = None
            self.resumed += 1


def _reset(end: asyncio.StreamWriter) -> None:
    raw = end.get_extra_info("socket")
    if raw.fileno() != -1:  # else it is closed already
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        end.transport.abort()
