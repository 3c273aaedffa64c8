"""A name whose addresses are servers of their own, as a headless Service has it, through a rollout."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from tests.shell.running import running_proxy
from tests.support.client import PRIMED, Client, outcome
from tests.support.server import McpServer, serving

MARK = "dev.epochgate/restart"


class Hosts:
    """What the proxy sees as `/etc/hosts`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "hosts"

    def write(self, *addresses: str) -> None:
        self.path.write_text("".join(f"{address} mcp.test\n" for address in addresses))

    def seen_by(self) -> tuple[str, ...]:
        return "bwrap", "--die-with-parent", "--dev-bind", "/", "/", "--bind", str(self.path), "/etc/hosts"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("", 0))
        port: int = sock.getsockname()[1]
        return port


def server_at(address: str, port: int) -> McpServer:
    server = McpServer()
    server.host, server.port = address, port
    return server


async def test_sessions_of_a_pod_that_was_replaced_are_healed_at_once_on_another(tmp_path: Path) -> None:
    """The others stay where they are, and what is new goes to the new pod."""
    hosts = Hosts(tmp_path)
    hosts.write("127.0.0.2", "127.0.0.3")
    port = free_port()
    old, staying, new = (server_at(f"127.0.0.{at}", port) for at in (2, 3, 4))
    flags = ("--resolve", "200ms")
    async with (
        serving(old),
        serving(staying),
        running_proxy(f"http://mcp.test:{port}", *flags, within=hosts.seen_by()) as proxy,
        Client(proxy.port, version=PRIMED) as one,
        Client(proxy.port, version=PRIMED) as two,
    ):
        for client in (one, two):
            await client.open()
        assert (old.counts["initialize"], staying.counts["initialize"]) == (1, 1)

        async with serving(new):
            await old.stop()
            hosts.write("127.0.0.3", "127.0.0.4")
            began = asyncio.get_running_loop().time()
            answers = [await client.call() for client in (one, two)]
            told_of = [next(one for one in await answer.messages() if "id" in one) for answer in answers]
            took = asyncio.get_running_loop().time() - began

            marked = [answer["result"].get("_meta", {}).get(MARK) for answer in told_of]
            (mark,) = [mark for mark in marked if mark is not None]
            assert mark["reissued"] is False  # nobody was there to run it
            assert took < 9  # and nobody is waited for until `resume_deadline` (10 s)
            assert staying.executions + new.executions == 2
            assert old.executions == 0

            async with Client(proxy.port, version=PRIMED) as third, Client(proxy.port) as fourth:
                for client in (third, fourth):
                    await client.open()
                    assert str(outcome(await (await client.call()).messages())).endswith("done")
            assert staying.counts["initialize"] == new.counts["initialize"] == 2
            assert await proxy.ready() == 200
