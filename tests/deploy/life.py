"""A whole life of a proxy that runs contained: it serves, answers probes, and drains at SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.shell.running import told
from tests.support.client import Client, outcome
from tests.support.server import Leg, McpServer, serving

DEADLINE_S = 30.0
# What an image gets in a pod, but ports that are free and a shorter look around for balancers.
VARIABLES = {
    "EPOCHGATE_LISTEN": "127.0.0.1:0",
    "EPOCHGATE_HEALTH": "127.0.0.1:0",
    "EPOCHGATE_ADMIN": "127.0.0.1:0",
    "EPOCHGATE_DRAIN_DELAY": "1s",
}


@dataclass
class Contained:
    """A running proxy: what started it, and the process itself as this machine counts it."""

    runner: asyncio.subprocess.Process
    pid: int
    port: int
    health: int

    async def end(self) -> int:
        async with asyncio.timeout(DEADLINE_S):
            return await self.runner.wait()


async def probe(port: int, target: str) -> int:
    async with Client(port) as client:
        return (await client.send("GET", target, [])).status


async def until_probe(port: int, target: str, wanted: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while await probe(port, target) != wanted:
            pass


def only_child(pid: int) -> int:
    """Whichever of its threads started it."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    (child,) = "".join((thread / "children").read_text() for thread in threads).split()
    return int(child)


@asynccontextmanager
async def contained(
    command: Sequence[str], variables: Mapping[str, str], user: int | None = None
) -> AsyncIterator[Contained]:
    """Start `command`, whose one child will be the proxy."""
    runner = await asyncio.create_subprocess_exec(
        *command,
        stderr=asyncio.subprocess.PIPE,
        env=variables,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    assert runner.stderr is not None
    try:
        said = await told(runner.stderr, "listening")
        port, health = (int(said[name].rpartition(":")[2]) for name in ("listen", "health"))
        yield Contained(runner, only_child(runner.pid), port, health)
    finally:
        with suppress(ProcessLookupError):
            runner.kill()
        await runner.wait()
        assert b"Traceback" not in await runner.stderr.read()


class Work:
    """A tool that reports once and then waits until it may answer."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def play(self, leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await self.release.wait()
        await leg.answer()
        await leg.end()


@asynccontextmanager
async def working_server(work: Work) -> AsyncIterator[McpServer]:
    async with serving(McpServer(work.play)) as server:
        yield server


async def serves_and_drains(proxy: Contained, work: Work) -> None:
    """Probes answer, and at SIGTERM the call in flight is answered before the process ends with 0."""
    await until_probe(proxy.health, "/readyz", 200)
    for target in ("/livez", "/startupz", "/metrics"):
        assert await probe(proxy.health, target) == 200, target
    async with Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        await answer.next_message()
        os.kill(proxy.pid, signal.SIGTERM)
        await until_probe(proxy.health, "/readyz", 503)
        assert await probe(proxy.health, "/livez") == 200
        work.release.set()
        assert outcome(await answer.messages()) == "run 1 done"
    assert await proxy.end() == 0
