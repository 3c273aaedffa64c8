"""G1 no splice, the other half: what is proven to be one execution is resumed, and runs once."""

from __future__ import annotations

import pytest

from tests.support.client import Client
from tests.support.proxy import guarding
from tests.support.server import Epochs, Ids, Leg, McpServer, serving
from tests.support.splices import (
    BREAKS,
    CUT_AFTER,
    STEPS,
    Break,
    answers,
    broken_once,
    listen_to_a_call,
    mark,
    rest_of_run,
    runs_told,
)

ONCE = {"initialize": 1, "initialized": 1, "executions": 1}


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("epochs", [Epochs.META, Epochs.HEADER])
async def test_equal_epoch_and_contiguous_ids_are_resumed(how: Break, epochs: Epochs) -> None:
    async def replay(leg: Leg) -> None:
        await leg.open()
        await rest_of_run(leg)

    server = McpServer(broken_once(how), replay, epochs=epochs)
    async with serving(server), guarding(server.port) as proxy:
        messages = await listen_to_a_call(proxy)
        assert runs_told(messages) == [1] * (STEPS + 1)
        assert len(answers(messages)) == 1
        assert answers(messages)[0]["id"] == 7
        assert mark(answers(messages)[0]) == {}
        assert server.found() == ONCE
        assert server.requests[-1].header("last-event-id") == f"1_{CUT_AFTER}"
        assert await proxy.resumes() == {"upstream resume epoch_match": 1}


async def test_ids_that_cannot_be_compared_are_resumed_by_epoch() -> None:
    async def replay(leg: Leg) -> None:
        await leg.open()
        await rest_of_run(leg)

    server = McpServer(broken_once(), replay, ids=Ids.RANDOM)
    async with serving(server), guarding(server.port) as proxy:
        assert runs_told(await listen_to_a_call(proxy)) == [1] * (STEPS + 1)
        assert server.found() == ONCE


async def test_a_server_that_sends_its_last_event_again_is_no_divergence() -> None:
    """rmcp does: same id, same bytes (R31)."""

    async def replay(leg: Leg) -> None:
        await leg.open()
        await leg.raw(leg.run.events[-1][1])
        await rest_of_run(leg)

    server = McpServer(broken_once(), replay)
    async with serving(server), guarding(server.port) as proxy:
        assert runs_told(await listen_to_a_call(proxy)) == [1] * (STEPS + 1)
        assert server.found() == ONCE
        assert await proxy.moved("dropped_messages_total") == {"reason=duplicate": 1}


@pytest.mark.parametrize("status", [409, 429, 502, 503, 504])
async def test_a_server_that_is_busy_is_asked_again(status: int) -> None:
    async def replay(leg: Leg) -> None:
        if leg.server.counts["GET"] < 3:
            await leg.refuse(status)
            return
        await leg.open()
        await rest_of_run(leg)

    server = McpServer(broken_once(), replay)
    async with serving(server), guarding(server.port) as proxy:
        assert runs_told(await listen_to_a_call(proxy)) == [1] * (STEPS + 1)
        assert server.found() == ONCE
        assert server.counts["GET"] == 3


async def test_an_epoch_that_a_tool_talks_about_is_not_the_servers() -> None:
    """W15: only the named places of a message count, on a leg that never broke and on a resumed one."""
    forged = {"_meta": {"session_epoch": 999}, "text": '"session_epoch": 999', "session_epoch": 999}

    async def talk(leg: Leg) -> None:
        await leg.send("notifications/message", {"level": "info", "data": forged})
        await leg.progress(len(leg.run.events) + 1)

    async def play(leg: Leg) -> None:
        await leg.open()
        for _ in range(3):
            await talk(leg)
        await leg.cut()

    async def replay(leg: Leg) -> None:
        await leg.open()
        await talk(leg)
        result = leg.tagged({"content": [], "structuredContent": forged})
        await leg.write({"jsonrpc": "2.0", "id": leg.run.id, "result": result})
        await leg.end()

    server = McpServer(play, replay)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        messages = await (await client.call()).messages()
        assert await proxy.resumes() == {"upstream resume epoch_match": 1}
        assert len(messages) == 9
        assert messages[-1]["result"]["structuredContent"] == forged
        assert server.found() == ONCE
        assert await proxy.resumes() == {"upstream resume epoch_match": 1}


@pytest.mark.parametrize("is_tagged", [True, False], ids=["states its epoch", "states none"])
async def test_a_log_between_resumed_events_makes_no_gap(is_tagged: bool) -> None:
    """R6, R8: a log that states no epoch is dropped, but its id was the next one all the same."""

    async def replay(leg: Leg) -> None:
        await leg.open()
        if is_tagged:
            await leg.log("again")
        else:
            await leg.log("again", epoch=None)
        await rest_of_run(leg)

    server = McpServer(broken_once(), replay)
    async with serving(server), guarding(server.port) as proxy:
        messages = await listen_to_a_call(proxy)
        assert await proxy.resumes() == {"upstream resume epoch_match": 1}
        assert runs_told(messages) == [1] * (STEPS + 1 + is_tagged)
        assert server.found() == ONCE
