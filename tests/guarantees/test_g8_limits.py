"""G8 bounded: numbers of sessions, requests, heals and attempts, and the time that things are kept."""

from __future__ import annotations

from tests.support.client import PRIMED, Client
from tests.support.proxy import guarding
from tests.support.server import Epochs, Ids, Leg, McpServer, serving


async def endless(leg: Leg) -> None:
    await leg.open()
    await leg.progress(1)
    await leg.peer.wait_gone()


async def test_a_request_too_many_of_a_session_is_an_error_and_not_sent() -> None:
    async with serving(McpServer(endless)) as server, guarding(server.port, max_streams="2") as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            for number in range(2):
                await (await client.call(number)).next_event()
            (answer,) = await (await client.call(2)).messages()
            assert (answer["id"], answer["error"]["code"]) == (2, -32052)
        assert server.executions == 2


async def test_a_session_heals_so_often_a_minute_and_no_more() -> None:
    """Two replicas behind one address would heal for ever (R26)."""
    async with serving(McpServer()) as server, guarding(server.port, max_heals_per_minute="2") as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            for _ in range(2):
                server.evict()
                assert (await (await client.call()).messages())[-1]["id"] == 7
            server.evict()
            answer = await client.call()
            assert answer.status == 404 or b"-32051" in await answer.read()
            assert (await client.call()).status == 404  # the client negotiates anew
        assert server.counts["initialize"] == 3


async def test_a_body_too_large_is_refused() -> None:
    async with serving(McpServer()) as server, guarding(server.port, max_body="4KiB") as proxy:
        async with Client(proxy.port) as client:
            assert (await client.send("POST", "/x", [], b"x" * 5000)).status == 413
            assert (await client.send("POST", "/x", [("X-Long", "y" * 70_000)], b"")).status == 431
        assert server.requests == []


async def test_what_was_delivered_leaves_memory_when_its_time_is_over() -> None:
    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.log("x" * 100_000)
        await leg.answer()
        await leg.end()

    server = McpServer(play, ids=Ids.NONE)
    async with (
        serving(server),
        guarding(server.port, retain="0.1s") as proxy,
        Client(proxy.port, version=PRIMED) as client,
    ):
        await client.open()
        events = [event async for event in (await client.call()).events()]
        while (await proxy.page())["journal_bytes"]:
            pass
        answer = await client.get(events[0].id)
        (told,) = await answer.messages()
        assert (told["id"], told["error"]["code"]) == (7, -32050)  # a tombstone, not silence (R13)


async def test_a_session_that_nobody_uses_is_forgotten() -> None:
    async with (
        serving(McpServer()) as server,
        guarding(server.port, session_idle="0.1s", retain="0.1s") as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        while any(value for value in (await proxy.moved("sessions")).values()):
            pass


async def test_a_break_that_keeps_recurring_ends_within_its_attempts() -> None:
    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await leg.cut()

    async with serving(McpServer(play, epochs=Epochs.NEVER)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            messages = await (await client.call()).messages()
            assert messages[-1]["error"]["code"] == -32050
        assert server.found() == {"initialize": 2, "initialized": 2, "executions": 2}


async def test_an_epoch_server_whose_resumes_always_break_is_given_up() -> None:
    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await leg.cut()

    async def replay(leg: Leg) -> None:
        await leg.open()
        await leg.cut()

    async with serving(McpServer(play, replay)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            messages = await (await client.call()).messages()
            assert messages[-1]["error"]["code"] == -32050
        assert server.executions == 2
        assert server.counts["GET"] == 6  # three for each run
