"""G8 bounded: as many sessions as may be held. The one unused for longest makes room, one in use never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.shell.wire import Peer
from tests.support.client import PRIMED, Client, initialize, outcome
from tests.support.proxy import Proxy, guarding
from tests.support.server import Leg, McpServer, serving, whole


async def standing(leg: Leg) -> None:
    """A standalone stream on which nothing comes."""
    await leg.open()
    await leg.peer.wait_gone()


@asynccontextmanager
async def clients(proxy: Proxy, count: int) -> AsyncIterator[list[Client]]:
    """So many sessions, opened one after the other."""
    opened = [Client(proxy.port, version=PRIMED) for _ in range(count)]
    try:
        for client in opened:
            await client.open()
        yield opened
    finally:
        for client in opened:
            await client.__aexit__()


async def refused(proxy: Proxy) -> bool:
    async with Client(proxy.port) as late:
        answer = await late.post(initialize())
        assert (answer.status, answer.header("retry-after")) in ((503, "5"), (200, None))
        return answer.status == 503


def held(server: McpServer) -> list[int]:
    """Which of the server's sessions are still there, by the order in which they were opened."""
    return [session.epoch for session in server.sessions.values()]


async def test_the_session_unused_for_longest_makes_room_and_ends_on_the_server() -> None:
    async with (
        serving(McpServer()) as server,
        guarding(server.port, max_sessions="3") as proxy,
        clients(proxy, 3) as (first, second, _),
    ):
        assert outcome(await (await first.call()).messages()) == "run 1 done"
        async with clients(proxy, 1):
            await server.until(lambda: server.counts["DELETE"] == 1)
            assert held(server) == [1, 3, 4], "the second one was used before the others"
            assert (await second.call()).status == 404
            assert (await proxy.page())["session_evictions_total"] == 1
            assert (await proxy.moved("sessions")) == {"state=live": 3}
            assert outcome(await (await first.call()).messages()) == "run 2 done"


async def test_how_much_there_may_be_is_told_beside_how_much_there_is() -> None:
    async with (
        serving(McpServer()) as server,
        guarding(server.port, max_sessions="3", journal_total="128MiB") as proxy,
        clients(proxy, 2),
    ):
        page = await proxy.page()
        assert page['sessions{state="live"}'] == 2
        assert page["sessions_limit"] == 3
        assert page["journal_limit_bytes"] == 128 * 1024 * 1024


async def test_a_cursor_of_an_evicted_session_is_one_of_an_unknown_session() -> None:
    """Nothing of it can be proven any more, and nothing of it is given to anybody (G3, G9)."""
    async with (
        serving(McpServer()) as server,
        guarding(server.port, max_sessions="1") as proxy,
        clients(proxy, 1) as (client,),
    ):
        events = [event async for event in (await client.call()).events()]
        async with clients(proxy, 1) as (other,):
            assert (await client.get(events[0].id)).status == 404
            assert (await other.get(events[0].id)).status == 400
        assert (await proxy.moved("journal_bytes")) == {}


async def test_sessions_in_use_are_kept_and_the_newcomer_told_when_to_return() -> None:
    is_left = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        if leg.run.number == 1:
            await leg.peer.wait_gone()
        await is_left.wait()
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    server.stand = standing
    async with (
        serving(server),
        guarding(server.port, max_sessions="3") as proxy,
        clients(proxy, 3) as (called, away, listening),
    ):
        running = await called.call()
        await running.next_event()
        left = await away.call()
        await left.next_event()
        left.reset()
        stream = await listening.get()
        await stream.next_event()
        is_left.set()
        while await proxy.moved("streams") != {
            "kind=request,state=open": 1,
            "kind=request,state=answered": 1,
            "kind=standalone,state=open": 1,
        }:
            pass
        assert await refused(proxy)
        assert server.counts["initialize"] == 3
        assert (await proxy.page())["session_evictions_total"] == 0
        assert (await called.delete()).status == 204
        assert not await refused(proxy)


async def test_an_initialize_that_the_server_refuses_costs_nobody_a_session() -> None:
    async with (
        serving(McpServer()) as server,
        guarding(server.port, max_sessions="1") as proxy,
        clients(proxy, 1) as (client,),
    ):
        server.accepts = lambda request: 401 if "initialize" in str(request.message) else None
        async with Client(proxy.port) as stranger:
            assert (await stranger.post(initialize())).status == 401
        assert outcome(await (await client.call()).messages()) == "run 1 done"


async def test_sessions_that_are_being_opened_count() -> None:
    """As many at once as there is room for, no more."""
    server = McpServer()

    goes_on = asyncio.Event()

    async def refuse_late(peer: Peer) -> None:
        await goes_on.wait()
        await peer.send(whole(401))

    server.on_request = refuse_late
    async with (
        serving(server),
        guarding(server.port, max_sessions="2") as proxy,
        Client(proxy.port) as client,
    ):
        waiting = [asyncio.create_task(client.post(initialize())) for _ in range(2)]
        await server.until(lambda: len(server.requests) == 2)
        assert await refused(proxy)
        goes_on.set()
        assert [answer.status for answer in await asyncio.gather(*waiting)] == [401, 401]
        assert (await client.post(initialize())).status == 401
