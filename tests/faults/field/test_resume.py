"""Resumes as they are met in the field: cursors on wrong streams, servers that cannot, ids begun anew."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import IS_LONG
from tests.support.client import PRIMED, Answer, Client, outcome
from tests.support.legs import Session
from tests.support.proxy import guarding
from tests.support.server import Epochs, Ids, Leg, McpServer, Play, serving, until
from tests.support.splices import (
    CUT_AFTER,
    STEPS,
    answers,
    broken_once,
    is_spliced,
    listen_to_a_call,
    mark,
    runs_told,
)

RESUMES = 1_000 if IS_LONG else 60
AT_ONCE = 20


async def logging_for_ever(leg: Leg) -> None:
    """A standalone stream that tells a line for each request that the server has seen since."""
    await leg.open()
    told: list[int] = [0]
    while True:
        await until(lambda: len(leg.server.requests) > told[-1])
        told.append(len(leg.server.requests))
        await leg.send("notifications/message", {"level": "info", "data": "run 0 line"}, id=f"g{told[-1]}")


# cursors across streams


async def test_a_calls_cursor_brings_what_followed_on_that_call_and_nothing_of_the_standalone_stream() -> (
    None
):
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await go_on.wait()
        await leg.progress(2)
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    server.stand = logging_for_ever
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        standing = await client.get()
        await standing.next_message()
        call = await client.call()
        event = await call.next_event()
        assert event is not None
        call.reset()
        go_on.set()
        back = await (await client.get(event.id)).messages()
        assert runs_told(back) == [1, 1]
        assert back[-1]["id"] == 7
        assert runs_told([await standing.next_message()]) == [0]  # still there, and still its own


async def test_the_newest_cursor_on_the_clients_get_leaves_its_standalone_stream_alone() -> None:
    """Clients that keep one cursor for everything: it names the call's stream, and so it is taken."""
    server = McpServer()
    server.stand = logging_for_ever
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        standing = await client.get()
        await standing.next_message()
        events = [event async for event in (await client.call()).events()]
        assert (await client.get(events[-1].id)).status == 405  # that call is over
        again = await (await client.get(events[0].id)).messages()
        assert runs_told(again) == [1, 1, 1]
        await standing.next_message()
        assert server.counts["GET"] == 1


@pytest.mark.parametrize("epochs", [Epochs.META, Epochs.NEVER])
async def test_streams_whose_ids_all_begin_at_0_are_never_mixed(epochs: Epochs) -> None:
    """The server itself takes one call's cursor for the other's."""
    both = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        for step in range(1, STEPS + 1):
            await leg.progress(step)
            if step == CUT_AFTER and leg.run.number <= 2:
                if leg.run.number == 2:
                    both.set()
                await both.wait()
                await leg.cut()
        await leg.answer()
        await leg.end()

    server = McpServer(play, epochs=epochs)
    server.next_event_id = lambda run: str(len(run.events))  # type: ignore[method-assign]
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        calls = [await client.call(number, token=f"t{number}") for number in (1, 2)]
        for number, call in enumerate(calls, 1):
            messages = await call.messages()
            assert not is_spliced(messages)
            assert [one["id"] for one in answers(messages)] == [number]
            assert "result" in messages[-1]
            tokens = {
                one["params"]["progressToken"] for one in messages if "progress" in one.get("method", "")
            }
            assert tokens == {f"t{number}"}
        assert server.executions <= 4


# servers that cannot resume


async def test_a_resume_with_headers_and_nothing_more_has_an_end() -> None:
    """A tool's answer is owed: silence is probed, and in the end it is an error."""
    server = McpServer(broken_once(), headers_only)
    limits = {"silence": "0.1s", "ping": "0.5s", "max_silence": "0.6s"}
    async with serving(server), guarding(server.port, **limits) as proxy:
        messages = await listen_to_a_call(proxy)
        assert outcome(messages) == -32050
        assert server.counts["ping"] >= 1
        assert server.executions == 1
        assert await proxy.resumes() == {"upstream fail upstream_silent": 1}


async def never_answered(leg: Leg) -> None:
    await leg.peer.wait_gone()


async def headers_only(leg: Leg) -> None:
    await leg.open()
    await leg.peer.wait_gone()


async def nothing(leg: Leg) -> None:
    await leg.open()
    await leg.end()


async def not_allowed(leg: Leg) -> None:
    await leg.refuse(405)


@pytest.mark.parametrize("replay", [never_answered, headers_only, nothing, not_allowed])
async def test_resumes_that_lead_nowhere_leave_no_connection_behind(replay: Play) -> None:
    opened = closed = 0

    async def counted(leg: Leg) -> None:
        nonlocal opened, closed
        opened += 1
        try:
            await replay(leg)
        finally:
            closed += 1

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await leg.cut()

    limits = {
        "resume_deadline": "0.1s",
        "resume_headers": "0.1s",
        "silence": "0.1s",
        "max_silence": "0.1s",
        "max_sessions": "10000",
        "reissue": "never",
    }
    server = McpServer(play, counted)

    async def one_call(port: int) -> object:
        async with Client(port) as client:
            await client.open()
            return outcome(await (await client.call()).messages())

    async with serving(server), guarding(server.port, **limits) as proxy:
        while opened < RESUMES:
            told = await asyncio.gather(*(one_call(proxy.port) for _ in range(AT_ONCE)))
            assert told == [-32050] * AT_ONCE
        await until(lambda: opened == closed)
        assert (await proxy.moved("streams")).get("kind=request,state=retry") is None


# ids that begin anew


async def test_a_server_that_filters_its_new_events_by_the_old_cursor_is_found_out_by_its_epoch() -> None:
    """The cursor passes every check; all that is new is held back; the ping's answer tells who is there."""

    async def filtered(leg: Leg) -> None:
        leg.server.sessions[leg.session.id] = Session(leg.session.id, 99)
        await leg.open()
        await leg.peer.wait_gone()

    server = McpServer(broken_once(), filtered)
    async with serving(server), guarding(server.port, silence="0.1s") as proxy:
        messages = await listen_to_a_call(proxy)
        assert not is_spliced(messages)
        assert runs_told(messages)[-1] == 2
        assert mark(messages[-1])["reason"] == "epoch_mismatch"


async def test_a_counter_that_began_anew_is_a_divergence_of_its_own() -> None:
    """One replica lives on, its store was reset: the epoch is right and the ids are not."""

    async def from_the_start(leg: Leg) -> None:
        await leg.open()
        await leg.progress(CUT_AFTER + 1, id="1_1")
        await leg.answer(id="1_2")
        await leg.end()

    server = McpServer(broken_once(), from_the_start)
    async with serving(server), guarding(server.port) as proxy:
        messages = await listen_to_a_call(proxy)
        assert not is_spliced(messages)
        assert mark(messages[-1])["reason"] == "event_id_reset"
        moved = await proxy.resumes()
        assert moved == {"upstream restart event_id_reset": 1}


@pytest.mark.parametrize("ids", [["1700000000000", "1699999999000"], ["1700000000000", "1700000000000"]])
async def test_ids_of_a_clock_that_stood_or_went_back_end_in_one_run(ids: list[str]) -> None:
    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1, id=ids[0])
        if leg.run.number == 1:
            await leg.cut()
        await leg.answer(id=None)
        await leg.end()

    async def replay(leg: Leg) -> None:
        await leg.open()
        await leg.progress(2, id=ids[1])
        await leg.answer(id=None)
        await leg.end()

    async with serving(McpServer(play, replay)) as server, guarding(server.port) as proxy:
        messages = await listen_to_a_call(proxy)
        assert not is_spliced(messages)
        assert len(answers(messages)) == 1


# the answer that comes while nobody is there


async def test_the_answer_that_came_while_nobody_was_there_comes_as_often_as_it_is_asked_for() -> None:
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await go_on.wait()
        await leg.answer()
        await leg.end()

    async with serving(McpServer(play, ids=Ids.NONE)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port, version=PRIMED) as client:
            await client.open()
            call = await client.call()
            events = [await call.next_event() for _ in range(2)]
            assert events[1] is not None
            call.reset()
            go_on.set()
            await until(lambda: len(server.runs[0].events) == 2)
            for _ in range(2):
                back = await client.get(events[1].id)
                assert outcome(await back.messages()) == "run 1 done"
        assert server.counts["GET"] == 0
        assert server.executions == 1


# one stream for each session


async def one_at_a_time(leg: Leg) -> None:
    """A server that holds the one allowed stream until its connection is closed."""
    if leg.server.counts["standing"]:
        await leg.refuse(409)
        return
    leg.server.counts["standing"] = 1
    try:
        await leg.open()
        await leg.send("notifications/message", {"level": "info", "data": "run 0 hello"})
        await leg.server.until(lambda: leg.server.counts["tools/call"] > 0)
        await leg.send("notifications/message", {"level": "info", "data": "run 0 called"})
        await leg.peer.wait_gone()
    finally:
        leg.server.counts["standing"] = 0


async def test_a_get_behind_a_reset_one_meets_no_409() -> None:
    server = McpServer()
    server.stand = one_at_a_time
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        first = await client.get()
        told = await first.next_event()
        assert told is not None
        first.reset()
        await one_exchange(client)
        second = await client.get(told.id)
        assert second.status == 200
        await (await client.call()).messages()
        assert (await second.next_message())["params"]["data"] == "run 0 called"
        assert server.counts["GET"] == 1
        assert server.counts["initialize"] == 1


async def one_exchange(client: Client) -> None:
    """Behind it the proxy has seen the reset."""
    await (await client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})).json()


async def test_of_two_gets_at_once_the_server_sees_one_and_nobody_is_cut() -> None:
    """Two tabs: the newer takes over, a third within the interval is told to wait (R35)."""
    server = McpServer()
    server.stand = one_at_a_time
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        first = await client.get()
        await first.next_message()
        second = await client.get()
        third = await client.get()
        statuses = [second.status, third.status]
        assert statuses[1] == 409
        assert third.header("retry-after") == "5"
        live = second if second.status == 200 else first
        if live is second:
            assert await drained(first)  # ended with the final chunk, not cut
        await (await client.call()).messages()
        assert (await live.next_message())["params"]["data"] == "run 0 called"
        assert server.counts["GET"] == 1
        assert server.counts["initialize"] == 1


async def drained(answer: Answer) -> bool:
    """Whether the answer comes to a clean end without a further message; a cut one raises."""
    return not [event async for event in answer.events() if event.is_message]
