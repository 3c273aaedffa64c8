"""What happens between clients and servers so that each alert has its reason, on proxies that run."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.shell.running import FREE, Proxy, environment, told
from tests.support.client import DEADLINE_S, Client, Truncated
from tests.support.server import McpServer
from tests.verdicts.stage import listen
from tests.verdicts.steps import (
    OTHER_EPOCH,
    WHOLE,
    announces_poll,
    answer,
    answer_to,
    cut,
    end,
    hanging,
    in_turn,
    progress,
    refusing,
    stream,
    wait_for,
)


async def is_told(server: McpServer, port: int) -> list[str]:
    """What a client is told of one call in a session of its own."""
    async with Client(port) as client:
        await client.open()
        return await listen(await client.call())


# --- a server that states epochs ---------------------------------------------------------------------


async def diverge(server: McpServer, port: int) -> None:
    """A stream breaks and goes on in another session."""
    server.play = in_turn(stream(progress(1), cut), WHOLE)
    server.replay = stream(progress(2, epoch=OTHER_EPOCH), answer(), end)
    assert (await is_told(server, port))[-1].endswith("done (epoch_mismatch)")


async def resume(server: McpServer, port: int) -> None:
    """A stream breaks and goes on in the same session."""
    server.play = stream(progress(1), cut)
    server.replay = stream(progress(2), answer(), end)
    assert (await is_told(server, port))[-1].endswith("done")


async def drift(server: McpServer, port: int) -> None:
    server.play = stream(answer(epoch=OTHER_EPOCH), end)
    assert (await is_told(server, port))[-1].endswith("done (drift)")


async def send_what_is_foreign(server: McpServer, port: int) -> None:
    server.play = stream(answer_to(None), answer(), end)
    assert (await is_told(server, port))[-1].endswith("done")


async def go_astray(server: McpServer, port: int) -> None:
    """A request reaches a replica without the session, which lives."""
    server.play = in_turn(refusing(404), WHOLE)
    assert (await is_told(server, port))[-1].endswith("done")


async def deploy_another(server: McpServer, port: int) -> None:
    """Five sessions are lost, and what runs there now cannot take their place."""
    clients = [Client(port) for _ in range(5)]
    for client in clients:
        await client.open()
    server.evict()
    server.name = "another"
    for client in clients:
        assert await listen(await client.call()) == ["error -32051 incompatible"]
        await client.__aexit__()


# --- a server that states none, behind a proxy with small journals --------------------------------------

NARROW = [
    *("--reissue", "never", "--max-sessions", "3", "--max-event-bytes", "1KiB"),
    *("--journal-stream", "1KiB", "--journal-session", "1KiB", "--journal-total", "1KiB"),
]


def beside_nobody(server: McpServer) -> list[str]:
    """A second server that is not there."""
    return ["--upstream", f"http://127.0.0.1:{server.port}, http://127.0.0.1:1"]


CHATTY = [progress(step) for step in range(40)]


async def withhold(server: McpServer, port: int) -> None:
    server.play = stream(progress(1), cut)
    assert (await is_told(server, port))[-1].startswith("error -32050")


async def poll_without_proof(server: McpServer, port: int) -> None:
    server.play = stream(progress(1), announces_poll(), end)
    server.replay = stream(progress(2), answer(), end)
    assert (await is_told(server, port))[-1].endswith("done (unproven)")


async def come_back_too_late(server: McpServer, port: int) -> None:
    """What was delivered has left the journal."""
    server.play = stream(*CHATTY, answer(), end)
    async with Client(port) as client:
        await client.open()
        first = await client.call()
        event = await first.next_event()
        assert event is not None
        await listen(first)
        assert await listen(await client.get(event.id)) == ["error -32050 expired"]


async def stay_away(server: McpServer, proxy: Proxy, client: Client) -> None:
    """A call whose client has left when the server begins to talk, so that its journal fills."""
    has_left = asyncio.Event()
    server.play = stream(progress(0), wait_for(has_left), *CHATTY, hanging)
    await client.open()
    begun = await client.call()
    await begun.next_event()
    begun.reset()
    async with asyncio.timeout(DEADLINE_S), Client(proxy.admin) as asking:
        while b'"away"' not in await (await asking.send("GET", "/sessions", [])).read():
            pass
    has_left.set()


async def open_too_many(port: int) -> None:
    """As many sessions as there may be, and one more."""
    for _ in range(4):
        async with Client(port) as client:
            await client.open()


async def spoil_settings(proxy: Proxy, file: Path) -> None:
    await asyncio.to_thread(file.write_text, "hold: long\n")
    proxy.process.send_signal(signal.SIGHUP)
    await told(proxy.log, "settings not reloaded")


def take_descriptors(proxy: Proxy) -> None:
    """Leave the process few more than it has open."""
    limit = len(os.listdir(f"/proc/{proxy.process.pid}/fd")) + 4
    resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE, (limit, limit))


# --- a server that is away, and processes that die ------------------------------------------------------


IMPATIENT = ["--ready-grace", "1s", "--heal-deadline", "1s"]


async def call_in_vain(port: int) -> None:
    async with Client(port) as client:
        with suppress(Truncated):
            await client.send("GET", "/elsewhere", [])


@asynccontextmanager
async def deaf_proxy(upstream: int) -> AsyncIterator[tuple[int, int]]:
    """A proxy whose log nobody reads once it listens; where it serves, and its health listener."""
    read_end, write_end = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "epochgate", "run", "--upstream", f"http://127.0.0.1:{upstream}"),
        *("--listen", FREE, "--admin", "off", "--health", FREE, "--access-log", "all"),
        stderr=write_end,
        env=environment(),
    )
    os.close(write_end)
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb")
    )
    try:
        said = await told(reader, "listening")
        transport.close()
        yield tuple(int(said[name].rpartition(":")[2]) for name in ("listen", "health"))  # type: ignore[misc]
    finally:
        transport.close()
        process.kill()
        async with asyncio.timeout(DEADLINE_S):
            await process.wait()
