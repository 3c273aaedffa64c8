"""An `initialize` within a session may open another one: there has to be room for it."""

from __future__ import annotations

import asyncio
import json

from tests.support.client import PRIMED, Client, initialize, outcome
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, serving


async def standing(leg: Leg) -> None:
    """A standalone stream on which nothing comes."""
    await leg.open()
    await leg.peer.wait_gone()


async def test_without_room_it_is_answered_with_an_error_and_the_session_goes_on() -> None:
    server = McpServer()
    server.stand = standing
    async with (
        serving(server),
        guarding(server.port, max_sessions="1") as proxy,
        Client(proxy.port, version=PRIMED) as client,
    ):
        await client.open()
        listening = await client.get()
        await listening.next_event()

        refused = await client.post({**initialize(), "id": "again"})

        assert (refused.status, refused.header("content-type")) == (200, "application/json")
        assert refused.header("mcp-session-id") is None
        assert await refused.json() == {
            "jsonrpc": "2.0",
            "id": "again",
            "error": {
                "code": -32052,
                "message": "epochgate: the proxy holds as many sessions as it may",
                "data": {"reason": "max_sessions", "generation": 1},
            },
        }
        assert server.counts["initialize"] == 1
        assert outcome(await (await client.call()).messages()) == "run 1 done"
        assert (await proxy.moved("sessions")) == {"state=live": 1}


async def test_one_in_a_batch_is_refused_with_the_others() -> None:
    server = McpServer()
    server.stand = standing
    async with (
        serving(server),
        guarding(server.port, max_sessions="1") as proxy,
        Client(proxy.port, version=PRIMED) as client,
    ):
        await client.open()
        await (await client.get()).next_event()
        refused = await client.post([initialize(), {"jsonrpc": "2.0", "id": 1, "method": "ping"}])
        assert refused.status == 200
        assert [(one["id"], one["error"]["code"]) for one in json.loads(await refused.read())] == [
            (0, -32052),
            (1, -32052),
        ]


async def test_a_session_that_nothing_uses_makes_room_for_the_one_that_it_becomes() -> None:
    async with (
        serving(McpServer()) as server,
        guarding(server.port, max_sessions="1") as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        again = await client.post(initialize())
        assert again.status == 200
        await again.read()
        client.session = again.header("mcp-session-id")
        assert outcome(await (await client.call()).messages()) == "run 1 done"
        await server.until(lambda: server.counts["DELETE"] == 1)
        assert (await proxy.moved("sessions")) == {"state=live": 1}


async def test_those_under_way_count() -> None:
    """One that has found room takes it until its answer is there."""
    server = McpServer()
    server.stand = standing
    async with (
        serving(server),
        guarding(server.port, max_sessions="2") as proxy,
        Client(proxy.port, version=PRIMED) as client,
        Client(proxy.port) as newcomer,
    ):
        await client.open()
        await (await client.get()).next_event()
        server.delay_initialize = asyncio.Event()
        first = asyncio.create_task(client.post(initialize()))
        await server.until(lambda: server.counts["initialize"] == 2)

        second = await client.post(initialize())
        assert "error" in await second.json()
        assert (await newcomer.post(initialize())).status == 503

        server.delay_initialize.set()
        answer = await first
        assert answer.header("mcp-session-id") not in (None, client.session)
        assert (await proxy.moved("sessions")) == {"state=live": 2}
