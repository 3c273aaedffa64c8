"""The processes of the demo: started in a session of their own, read line by line, always stopped."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

START_S = 15.0  # until it must say where it listens
STOP_S = 10.0  # until one that was asked to stop is killed


class DemoFailed(Exception):
    """The scenario could not be played; the text is one line for people."""


class Process(asyncio.SubprocessProtocol):
    """A Python process; what it says first with `key` in it is its hello."""

    def __init__(self, key: str) -> None:
        loop = asyncio.get_running_loop()
        self._key = key
        self._tail = b""
        self._exited: asyncio.Future[None] = loop.create_future()
        self._hello: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._last_line = "it said nothing"

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, self._tail = (self._tail + data).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace").rstrip())

    def process_exited(self) -> None:
        self._exited.set_result(None)
        if not self._hello.done():
            self._hello.set_exception(DemoFailed(f"a process of the demo ended early: {self._last_line}"))

    async def wait_hello(self) -> dict[str, Any]:
        """Raises DemoFailed when the process ends or says nothing within START_S."""
        try:
            return await asyncio.wait_for(asyncio.shield(self._hello), START_S)
        except TimeoutError:
            raise DemoFailed(f"a process of the demo did not listen within {START_S:.0f} s") from None

    async def stop(self, transport: asyncio.SubprocessTransport) -> None:
        """Ask it to end, then make it; returns when it has."""
        for act in (transport.terminate, transport.kill):
            if await self._is_gone_after(act):
                break
        self._hello.cancel()
        transport.close()

    async def _is_gone_after(self, act: Callable[[], None]) -> bool:
        if not self._exited.done():
            act()
        done, _ = await asyncio.wait([self._exited], timeout=STOP_S)
        return bool(done)

    def _take(self, line: str) -> None:
        self._last_line = line or self._last_line
        if self._hello.done() or not line.startswith("{"):
            return
        try:
            found = json.loads(line)
        except ValueError:
            return
        if self._key in found:
            self._hello.set_result(found)


@asynccontextmanager
async def running(key: str, *arguments: str) -> AsyncIterator[dict[str, Any]]:
    """Run `python ARGUMENTS`; yields its hello, the line that has `key`.

    Its stdin is a pipe that ends with us. It sees no EPOCHGATE_ variable: the demo plays with the
    defaults. Raises DemoFailed when it does not come up.
    """
    pipe = asyncio.subprocess.PIPE
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EPOCHGATE_")}
    transport, process = await asyncio.get_running_loop().subprocess_exec(
        lambda: Process(key),
        sys.executable,
        *arguments,
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
        start_new_session=True,  # Ctrl-C is for the demo, which stops its processes in order
    )
    try:
        yield await process.wait_hello()
    finally:
        await process.stop(transport)
