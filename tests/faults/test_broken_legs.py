"""Legs that break anywhere, both at once, or that end in the ways real servers and clients end them."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import IS_LONG
from tests.support.client import PRIMED, Client, Json, Truncated
from tests.support.proxy import guarding
from tests.support.server import (
    Epochs,
    Ids,
    Leg,
    McpServer,
    Play,
    chunk,
    honest,
    rejoin,
    serving,
    until,
    whole,
)

STEPS = 8
JSON = [("content-type", "application/json")]


def text_of(message: Json) -> str:
    if "result" in message:
        return str(message["result"]["content"][0]["text"])
    return str(message["params"].get("message") or message["params"]["data"])


WHOLE = [*(f"run 1 step {step}" for step in range(1, STEPS + 1)), "run 1 done"]


async def produce(leg: Leg) -> bytes:
    """Let the run produce its events without sending any; returns their bytes."""
    leg.is_mute = True
    for step in range(1, STEPS + 1):
        await leg.progress(step)
    await leg.answer()
    leg.is_mute = False
    return b"".join(raw for _, raw in leg.run.events)


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["lf", "crlf"])
async def test_an_upstream_leg_cut_at_any_byte_is_resumed_without_loss_or_repetition(newline: bytes) -> None:
    cut_at = 0
    size = 10_000

    async def play(leg: Leg) -> None:
        nonlocal size
        body = await produce(leg)
        size = len(body) - len(leg.run.events[-1][1])  # the answer itself must not be whole
        await leg.open()
        await leg.raw(b"id: %d_0\ndata:\n\n" % leg.run.number + body[:cut_at])
        await leg.cut()

    async def replay(leg: Leg) -> None:
        await leg.open()
        last = leg.last_id or ""
        await leg.again(None if last.endswith("_0") else last)
        await leg.end()

    server = McpServer(play, replay, newline=newline)
    async with serving(server), guarding(server.port, max_sessions="100000") as proxy:
        while cut_at < size:
            server.runs.clear()
            async with Client(proxy.port) as client:
                await client.open()
                messages = await (await client.call()).messages()
            assert [text_of(message) for message in messages] == WHOLE, cut_at
            assert server.executions == 1, cut_at
            cut_at += 1 if IS_LONG else 23


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
async def test_events_that_come_byte_by_byte_are_whole(newline: bytes) -> None:
    async def play(leg: Leg) -> None:
        body = await produce(leg)
        await leg.open()
        for at in range(len(body)):
            await leg.peer.send(chunk(body[at : at + 1]))
        await leg.end()

    server = McpServer(play, newline=newline)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        assert [text_of(message) for message in await answer.messages()] == WHOLE


async def test_both_legs_break_and_the_client_returns_to_a_whole_answer() -> None:
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        for step in range(1, STEPS + 1):
            await leg.progress(step)
            if step == 4:
                await go_on.wait()
                await leg.cut()

    async def replay(leg: Leg) -> None:
        await leg.open()
        for step in range(5, STEPS + 1):
            await leg.progress(step)
        await leg.answer()
        await leg.end()

    async with serving(McpServer(play, replay)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            answer = await client.call()
            seen = []
            event = None
            for _ in range(2):
                event = await answer.next_event()
                assert event is not None
                seen.append(event.message)
            answer.reset()
            go_on.set()
            await until(lambda: server.counts["GET"] == 1)
            assert event is not None
            seen += await (await client.get(event.id)).messages()
        assert [text_of(message) for message in seen] == WHOLE
        assert server.executions == 1


async def test_of_two_legs_of_a_stream_the_newest_wins_and_the_older_ends_cleanly() -> None:
    """R35: an aborted GET counts against the client's tries, a clean end does not."""
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await go_on.wait()
        await leg.answer()
        await leg.end()

    async with serving(McpServer(play)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port, version=PRIMED) as client:
            await client.open()
            first = await client.call()
            event = await first.next_event()
            assert event is not None
            second = await client.get(event.id)
            assert [text_of(one) for one in await first.messages()] in ([], ["run 1 step 1"])
            third = await client.get(event.id)
            assert [text_of(one) for one in await second.messages()] in ([], ["run 1 step 1"])
            go_on.set()
            assert [text_of(one) for one in await third.messages()] == ["run 1 step 1", "run 1 done"]
        assert server.executions == 1


# how real servers end


@pytest.mark.parametrize("epochs", list(Epochs))
async def test_a_server_that_closes_right_after_its_answer_has_answered(epochs: Epochs) -> None:
    """W7: without a terminator, and with a reset."""

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await leg.answer()
        if leg.run.number % 2:
            await leg.cut()
        await leg.reset()

    server = McpServer(play, epochs=epochs)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        for number in range(1, 11):
            messages = await (await client.call(number)).messages()
            assert text_of(messages[-1]) == f"run {number} done"
        assert server.found() == {"initialize": 1, "initialized": 1, "executions": 10}
        assert await proxy.resumes() == {}


async def test_a_server_that_closes_idle_connections_at_once_costs_no_call() -> None:
    """W2: servers close an idle connection just when it would be used again."""

    async def play(leg: Leg) -> None:
        result = f'{{"jsonrpc":"2.0","id":{leg.run.id},"result":{{"n":{leg.run.number}}}}}'
        await leg.peer.send(whole(200, JSON, result.encode()))
        await leg.cut()  # no `Connection: close` told of it

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        for number in range(1, 201):
            message = await (await client.call(number)).json()
            assert (message["id"], message["result"]["n"]) == (number, number)
        assert server.executions == 200
        assert server.counts["initialize"] == 1


async def test_a_client_that_leaves_before_a_json_answer_leaves_nothing_behind() -> None:
    """It was given no id to return with (R34)."""
    is_called, go_on = asyncio.Event(), asyncio.Event()

    async def play(leg: Leg) -> None:
        is_called.set()
        await go_on.wait()
        await leg.peer.send(
            whole(200, JSON, b'{"jsonrpc":"2.0","id":%s,"result":{}}' % str(leg.run.id).encode())
        )

    server = McpServer(play)
    async with serving(server), guarding(server.port, retain="0.05s", hold="0.05s") as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            asked = asyncio.ensure_future(client.call())
            await is_called.wait()
            await client.__aexit__()  # cuts the call's connection
            with pytest.raises(Truncated):
                await asked
            go_on.set()
            while await proxy.moved("streams"):
                pass
        assert server.executions == 1


async def test_a_retry_of_the_server_reaches_the_client_as_it_is() -> None:
    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.raw(b"retry: 1234\n\n")
        await leg.progress(1)
        await leg.answer()
        await leg.end()

    async with (
        serving(McpServer(play)) as server,
        guarding(server.port) as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        body = await (await client.call()).read()
        assert body.count(b"retry: 1234\n") == 1


async def test_a_server_that_polls_is_polled_by_the_proxy_and_the_client_leg_stays_open() -> None:
    """R4: announced by `retry:`; with epochs it is proven like any resume."""

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await leg.raw(b"retry: 20\n\n")
        await leg.end()

    async def replay(leg: Leg) -> None:
        await leg.open()
        if leg.server.counts["GET"] < 5:
            await leg.raw(b"id: %s\ndata:\nretry: 20\n\n" % (leg.last_id or "").encode())
            await leg.end()
            return
        await leg.answer()
        await leg.end()

    async with serving(McpServer(play, replay)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            messages = await (await client.call()).messages()
        assert [text_of(message) for message in messages] == ["run 1 step 1", "run 1 done"]
        assert server.found() == {"initialize": 1, "initialized": 1, "executions": 1}
        assert server.counts["GET"] == 5


async def test_a_quiet_stream_is_kept_alive_with_comments_between_events() -> None:
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await go_on.wait()
        await leg.answer()
        await leg.end()

    async with (
        serving(McpServer(play)) as server,
        guarding(server.port, keepalive="0.05s") as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        answer = await client.call()
        assert text_of(await answer.next_message()) == "run 1 step 1"
        for _ in range(3):
            event = await answer.next_event()
            assert event is not None
            assert event.raw == b": keepalive\n\n"
        go_on.set()
        assert text_of(await answer.next_message()) == "run 1 done"


@pytest.mark.parametrize("play", [honest])
@pytest.mark.parametrize("ids", list(Ids))
async def test_an_undisturbed_call_costs_the_server_one_request(play: Play, ids: Ids) -> None:
    async with (
        serving(McpServer(play, rejoin, ids=ids)) as server,
        guarding(server.port) as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        before = len(server.requests)
        await (await client.call()).read()
        assert len(server.requests) == before + 1
