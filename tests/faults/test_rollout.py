"""A name whose one server is replaced by another while clients are at work, as a rollout does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohappyeyeballs.types import AddrInfoType

from tests.shell.test_upstreams import v4
from tests.support.client import PRIMED, Client, Json, outcome
from tests.support.legs import Leg
from tests.support.proxy import Proxy, guarding
from tests.support.server import McpServer, serving

MARK = "dev.epochgate/restart"
ELICITS: Json = {"elicitation": {}}
ASKS: Json = {"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {"message": "?"}}


@dataclass
class Rollout:
    """`old` is behind the name; `new` comes beside it, and then `old` goes."""

    old: McpServer
    new: McpServer
    proxy: Proxy
    listed: list[McpServer]
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def addresses(self) -> list[AddrInfoType]:
        return [v4("127.0.0.1", server.port) for server in self.listed]

    async def show(self, *servers: McpServer) -> None:
        """The name has these servers now, and the proxy has seen it."""
        self.listed[:] = servers
        await self.old.until(lambda: self._ports() == [server.port for server in servers])

    def _ports(self) -> list[int]:
        upstreams = self.proxy.process._upstreams
        return [one.addresses[0][4][1] for one in upstreams.listed if one.addresses]

    def close_listener(self) -> None:
        """`old` takes no new connection; those that it has go on."""
        assert self.old._server is not None
        self.old._server.close()


@asynccontextmanager
async def rolling() -> AsyncIterator[Rollout]:
    old, new = McpServer(), McpServer()
    async with serving(old), serving(new), guarding(f"http://localhost:{old.port}", resolve="0.1s") as proxy:
        scene = Rollout(old, new, proxy, [old])
        for name in proxy.process._upstreams._names:
            name.find = scene.addresses
        yield scene


async def test_what_runs_on_a_server_that_goes_away_goes_on_there_and_new_calls_go_to_the_next() -> None:
    async with rolling() as scene, Client(scene.proxy.port, version=PRIMED) as client:

        async def works(leg: Leg) -> None:
            await leg.open()
            await leg.progress(1)
            await scene.release.wait()
            await leg.progress(2)
            await leg.answer()
            await leg.end()

        scene.old.play = works
        await client.open()
        running = await client.call(1)
        assert (await running.next_message())["params"]["progress"] == 1
        await scene.show(scene.old, scene.new)
        await scene.show(scene.new)
        scene.close_listener()
        began = asyncio.get_running_loop().time()

        (answer,) = [one for one in await (await client.call()).messages() if "id" in one]

        assert asyncio.get_running_loop().time() - began < 5
        assert answer["result"]["_meta"][MARK]["reissued"] is False
        scene.release.set()
        said = await running.messages()
        assert [one["params"]["progress"] for one in said if "method" in one] == [2]
        assert (scene.old.executions, scene.new.executions) == (1, 1)


async def test_a_stream_of_notifications_moves_with_its_session_and_is_open_once() -> None:
    async with rolling() as scene, Client(scene.proxy.port, version=PRIMED) as client:

        async def stands(leg: Leg) -> None:
            await leg.open()
            await leg.log(f"from {leg.server.port}")
            await leg.peer.wait_gone()

        scene.old.stand = scene.new.stand = stands
        await client.open()
        listening = await client.get()
        assert (await listening.next_message())["params"]["data"].endswith(f"from {scene.old.port}")
        await scene.show(scene.old, scene.new)
        await scene.show(scene.new)
        await scene.old.stop()

        assert (await listening.next_message())["params"]["data"].endswith(f"from {scene.new.port}")

        gets = [
            [one.header("mcp-session-id") for one in server.requests if one.method == "GET"]
            for server in (scene.old, scene.new)
        ]
        assert [len(sessions) for sessions in gets] == [1, 1]
        assert await scene.proxy.moved("heals_total") == {"outcome=healed,trigger=stream_restart": 1}


async def test_sessions_of_an_only_server_stay_there_when_another_comes() -> None:
    async with rolling() as scene, Client(scene.proxy.port, version=PRIMED) as client:
        await client.open()
        await scene.show(scene.old, scene.new)
        for _ in range(3):
            assert str(outcome(await (await client.call()).messages())).endswith("done")
        async with Client(scene.proxy.port, version=PRIMED) as another:
            await another.open()

        assert (scene.old.executions, scene.new.executions) == (3, 0)
        assert (scene.old.counts["initialize"], scene.new.counts["initialize"]) == (1, 1)


async def test_a_session_whose_address_is_given_to_another_server_is_healed_once() -> None:
    """The name lost the address and has it again, with a server that knows nothing of the session."""
    async with rolling() as scene, Client(scene.proxy.port, version=PRIMED) as client:
        await client.open()
        await scene.show(scene.old, scene.new)
        await scene.show(scene.new)
        await scene.old.restart()
        await scene.show(scene.new, scene.old)

        assert str(outcome(await (await client.call()).messages())).endswith("done")
        assert await scene.proxy.moved("heals_total") == {"outcome=healed,trigger=session_gone": 1}
        assert scene.old.executions + scene.new.executions == 1
