"""Puts the parts of a scenario on the stage, each a process of its own, and clears them away."""

from __future__ import annotations

import os
import socket
import sys
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path

from tests.interop.cutter import Cutter
from tests.interop.steered import Steered
from tests.peers.install import Peers

HERE = Path(__file__).parents[1] / "peers"
PYTHON_KINDS = ("python-1.30", "python-2.3")
KINDS = (*PYTHON_KINDS, "typescript")
ASKING_KINDS = ("python-1.30", "typescript-sdk")


class Stage:
    """What a test plays with. `clear` ends whatever was started."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._stack = AsyncExitStack()

    async def clear(self) -> None:
        await self._stack.aclose()

    async def server(self, kind: str, *flags: str, port: int = 0) -> tuple[Steered, int]:
        """A server, and its port. It is there again, empty, when started again there."""
        if kind == "typescript":
            return await self._everything(port or free_port())
        command = [*self._program(kind, "server"), "--port", str(port), *flags]
        server = await self._start(f"server {kind}", command)
        return server, (await server.wait_told("ready"))["port"]

    async def client(self, kind: str, port: int) -> Steered:
        """A client that talks to this port."""
        return await self.client_of(kind, f"http://127.0.0.1:{port}/mcp")

    async def client_of(self, kind: str, url: str) -> Steered:
        """The same for any URL."""
        client = await self._start(f"client {kind}", [*self._program(kind, "client"), url])
        await client.wait_told("ready")
        return client

    async def fixtures(self, kind: str) -> int:
        """A server that has what the official conformance suite asks for, and its port."""
        if kind == "typescript-sdk":
            program = [str(self._peers.node_22), str(HERE / "ts" / "conformance.mjs")]
        else:
            python = self._program(kind, "server")[0]
            program = [python, str(HERE / "python" / "conformance.py")]
        server = await self._start(f"fixtures {kind}", program)
        return int((await server.wait_told("ready"))["port"])

    async def proxy(self, upstream: int, *flags: str) -> Proxy:
        """`epochgate run` in front of this port."""
        command = [sys.executable, "-m", "epochgate", "run", "--upstream", f"http://127.0.0.1:{upstream}"]
        listeners = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        process = await self._start("epochgate", [*command, *listeners, "--log-format", "json", *flags])
        said = await process.wait_told("listening")
        return Proxy(process, _port(said["listen"]), _port(said["admin"]))

    async def cutter(self, target: int) -> Cutter:
        """A relay in front of this port that can be cut."""
        cutter = Cutter(target)
        await cutter.start()
        self._stack.push_async_callback(cutter.stop)
        return cutter

    async def _everything(self, port: int) -> tuple[Steered, int]:
        script = self._peers.node / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
        server = await self._start(
            "server-everything", ["node", str(script), "streamableHttp"], PORT=str(port)
        )
        await server.wait_text("listening on port")
        return server, port

    async def _start(self, name: str, command: list[str], **variables: str) -> Steered:
        nodes = {"PEERS_NODE": str(self._peers.node), "PEERS_NODE_2": str(self._peers.node_2)}
        # All run by one Node, whatever the machine has.
        path = f"{self._peers.node_22.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        env = {**os.environ, **nodes, "PATH": path, **variables}
        process = await Steered.start(name, command, env)
        self._stack.push_async_callback(process.kill)
        return process

    def _program(self, kind: str, role: str) -> list[str]:
        """What runs the server or the client of a kind."""
        match kind:
            case "python-1.30":
                return [str(self._peers.python_1), str(HERE / "python" / f"{role}.py")]
            case "python-2.3":
                return [str(self._peers.python_2), str(HERE / "python" / f"{role}.py")]
            case "fastmcp":
                return [str(self._peers.fastmcp), str(HERE / "python" / f"fastmcp_{role}.py")]
            case "mcp-remote":
                return [str(self._peers.python_1), str(HERE / "python" / f"bridge_{role}.py")]
            case "typescript-2":
                return ["node", str(HERE / "ts-2" / f"{role}.mjs")]
            case _:
                return ["node", str(HERE / "ts" / f"{role}.mjs")]


class Proxy:
    """A running `epochgate run`."""

    def __init__(self, process: Steered, port: int, admin: int) -> None:
        self.process = process
        self.port = port
        self.admin = admin

    def moved(self, family: str) -> dict[str, float]:
        """The series of a family of `/metrics` that are not 0, by what stands between their braces."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        values = (line.rpartition(" ") for line in lines if line.startswith(family + "{"))
        return {name[len(family) + 1 : -1]: float(value) for name, _, value in values if float(value)}


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
