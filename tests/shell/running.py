"""`epochgate run` as a process in front of a scripted MCP server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.shell.wire import Peer, Upstreams, connected

DEADLINE_S = 20.0
FREE = "127.0.0.1:0"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
RESULT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "s", "version": "1"},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "work", "arguments": {}}}


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("EPOCHGATE_")}


@dataclass
class Proxy:
    """A running `epochgate run` and what it said when it listened."""

    process: asyncio.subprocess.Process
    log: asyncio.StreamReader
    port: int
    admin: int
    health: int

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await self.wait()

    async def wait(self) -> int:
        async with asyncio.timeout(DEADLINE_S):
            return await self.process.wait()

    async def ready(self) -> int:
        """The status of `/readyz` on the health listener."""
        async with connected(self.health) as client:
            await client.send(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return int((await client.read_head()).split()[1])


async def drained(admin: str, **variables: str) -> tuple[int, str]:
    """Exit code and stderr of `epochgate drain`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "epochgate", "drain", "--admin", admin),
        stderr=asyncio.subprocess.PIPE,
        env={**environment(), **variables},
    )
    async with asyncio.timeout(DEADLINE_S):
        _, said = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


@asynccontextmanager
async def _log_pipe() -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    """A pipe to log into, and its reader, which takes no more than 32 KiB unless it is read."""
    reader = asyncio.StreamReader(limit=2**14)
    read_end, write_end = os.pipe()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb")
    )
    try:
        yield write_end, reader
    finally:
        transport.close()


@asynccontextmanager
async def running_proxy(upstream: int | str, *flags: str, within: Sequence[str] = ()) -> AsyncIterator[Proxy]:
    """A proxy in front of `upstream`, a port or a URL, run by the command `within`.

    Its log is a pipe that is not read between start and end.
    """
    url = upstream if isinstance(upstream, str) else f"http://127.0.0.1:{upstream}"
    command = [*within, sys.executable, "-m", "epochgate", "run", "--upstream", url]
    listeners = ["--listen", FREE, "--admin", FREE, "--health", FREE, "--drain-delay", "0s"]
    async with _log_pipe() as (write_end, log):
        process = await asyncio.create_subprocess_exec(
            *command, *listeners, *flags, stderr=write_end, env=environment()
        )
        os.close(write_end)
        try:
            said = await told(log, "listening")
            ports = (int(said[name].rpartition(":")[2]) for name in ("listen", "admin", "health"))
            yield Proxy(process, log, *ports)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            assert b"Traceback" not in await log.read()


async def told(log: asyncio.StreamReader, event: str) -> dict[str, Any]:
    """The first line with this event."""
    async with asyncio.timeout(DEADLINE_S):
        while line := await log.readline():
            said: dict[str, Any] = json.loads(line)
            if said["event"] == event:
                return said
    raise AssertionError(f"it ended without saying {event!r}")


async def refused(*flags: str) -> tuple[int, str]:
    """Exit code and stderr of a `run` that does not get to serve."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "epochgate", "run", "--upstream", "http://127.0.0.1:1", *flags),
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    async with asyncio.timeout(DEADLINE_S):
        _, said = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


def request(message: object, *headers: str, method: str = "POST", path: str = "/mcp") -> bytes:
    body = b"" if message is None else json.dumps(message).encode()
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _answer(status: bytes, body: bytes, *headers: bytes) -> bytes:
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join([b"HTTP/1.1 " + status, length, *headers]) + b"\r\n\r\n" + body


class Mcp:
    """A server with one tool, whose answer comes when the test lets it: never, unless `release` is set."""

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(self, upstreams: Upstreams, peer: Peer) -> None:
        while True:
            _, body = await upstreams.take(peer)
            message = json.loads(body) if body else {}
            match message.get("method"):
                case "initialize":
                    result = {"jsonrpc": "2.0", "id": message["id"], "result": RESULT}
                    kind = (b"Content-Type: application/json", b"Mcp-Session-Id: s1")
                    await peer.send(_answer(b"200 OK", json.dumps(result).encode(), *kind))
                case "tools/call":
                    await self._work(peer, message["id"])
                case _:
                    await peer.send(_answer(b"202 Accepted", b""))

    async def _work(self, peer: Peer, number: object) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        note = {
            "jsonrpc": "2.0",
            "method": "notifications/message",
            "params": {"level": "info", "data": "begun"},
        }
        await peer.send(head + _chunk(note))
        self.called.set()
        await self.release.wait()
        await peer.send(_chunk({"jsonrpc": "2.0", "id": number, "result": {"content": []}}) + b"0\r\n\r\n")


def _chunk(message: object) -> bytes:
    event = b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


async def begin_call(port: int, client: Peer) -> None:
    """Open a session on `client` and call the tool; its stream is open when this returns."""
    await client.send(request(INITIALIZE))
    head, _ = await client.read_message()
    assert b"\r\nmcp-session-id: " in head.lower()
    session = head.lower().partition(b"mcp-session-id: ")[2].partition(b"\r\n")[0].decode()
    async with connected(port) as other:
        await other.send(request(INITIALIZED, f"Mcp-Session-Id: {session}"))
        await other.read_message()
    await client.send(request(CALL, f"Mcp-Session-Id: {session}"))
    assert b" 200 " in (await client.read_head()).partition(b"\r\n")[0]


async def read_stream(client: Peer) -> bytes:
    async with asyncio.timeout(DEADLINE_S):
        parts = []
        while part := await client.read_chunk():
            parts.append(part)
    return b"".join(parts)


async def until_refused(port: int) -> None:
    """Return when the listener is closed."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:  # refused, or reset because it waited while the listener closed
                return
            writer.close()
