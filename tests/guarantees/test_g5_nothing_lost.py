"""G5 nothing lost on the client leg: who was given an id and returns gets every event once, in order.

The server numbers none of its events and could resume nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.conftest import IS_LONG
from tests.support.client import DEADLINE_S, PRIMED, UNPRIMED, Answer, Client, Event, Truncated
from tests.support.proxy import guarding
from tests.support.server import Ids, Leg, McpServer, serving, until

EVENTS = 50  # with the answer
STEPS = [f"run 1 step {step}" for step in range(1, EVENTS)]


def texts(events: list[Event]) -> list[str]:
    """What each message says, in the order of arrival."""
    found = []
    for event in events:
        message = event.message
        if "result" in message:
            found.append(message["result"]["content"][0]["text"])
        elif message["method"] == "notifications/progress":
            found.append(message["params"]["message"])
        else:
            found.append(str(message["params"]["data"]))
    return found


class Reader:
    """A client that keeps what it has read whole, and its cursor, across legs."""

    def __init__(self) -> None:
        self.messages: list[Event] = []
        self.cursor: str | None = None

    @property
    def has_answer(self) -> bool:
        return bool(self.messages) and "result" in self.messages[-1].message

    async def read(self, answer: Answer, most: int | None = None) -> None:
        """Read `most` events, or to the end of the leg."""
        assert answer.status == 200
        while most is None or most > 0:
            event = await answer.next_event()
            if event is None:
                return
            most = None if most is None else most - 1
            self.cursor = event.id or self.cursor
            if event.is_message:
                self.messages.append(event)


async def fifty(leg: Leg) -> None:
    await leg.open()
    for step in range(1, EVENTS):
        await leg.progress(step)
    await leg.answer()
    await leg.end()


async def sizes(server: McpServer, version: str) -> list[int]:
    """The size of each event of an uncut leg."""
    async with guarding(server.port) as proxy, Client(proxy.port, version=version) as client:
        await client.open()
        return [len(event.raw) async for event in (await client.call()).events()]


def cuts(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Where to cut: after how many events, and after how many bytes of the next.

    Not before the first event: a client that was given no id cannot return. Cursors differ by a digit
    or two in width, so the last bytes of an event are left out.
    """
    for count, size in enumerate(sizes[1:], 1):
        inside = range(1, size - 4, 4) if IS_LONG else (1, size // 2, size - 4)
        yield from ((count, part) for part in (0, *inside))


@pytest.mark.parametrize("version", [PRIMED, UNPRIMED])
@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
async def test_a_leg_cut_anywhere_loses_nothing_and_repeats_nothing(version: str, is_reset: bool) -> None:
    async with serving(McpServer(fifty, ids=Ids.NONE)) as server:
        places = list(cuts(await sizes(server, version)))
        async with guarding(server.port, hold="60s", max_sessions="100000") as proxy:
            for count, part in places:
                server.runs.clear()
                async with Client(proxy.port, version=version) as client:
                    await client.open()
                    reader = Reader()
                    answer = await client.call()
                    await reader.read(answer, count)
                    await answer.read_exactly(part)  # half-delivered is not delivered
                    if is_reset:
                        answer.reset()
                    else:
                        await answer.close()
                    assert not reader.has_answer
                    await reader.read(await client.get(reader.cursor))
                assert texts(reader.messages) == [*STEPS, "run 1 done"], (count, part)
                assert server.executions == 1
    assert len(places) > 150


@pytest.mark.parametrize("count", range(1, EVENTS, 1 if IS_LONG else 7))
async def test_a_leg_cut_while_the_tool_is_at_work_loses_nothing(count: int) -> None:
    is_away = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        for step in range(1, EVENTS):
            await leg.progress(step)
            if step == count:
                await is_away.wait()
        await leg.answer()
        await leg.end()

    async with serving(McpServer(play, ids=Ids.NONE)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            reader = Reader()
            answer = await client.call()
            await reader.read(answer, count)
            answer.reset()
            is_away.set()
            await reader.read(await client.get(reader.cursor))
        assert texts(reader.messages) == [*STEPS, "run 1 done"]
        assert server.executions == 1


async def test_a_leg_cut_after_every_single_event_loses_nothing() -> None:
    async with serving(McpServer(fifty, ids=Ids.NONE)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            reader = Reader()
            answer = await client.call()
            for _ in range(EVENTS):
                event = await answer.next_event()
                assert event is not None
                assert event.is_message
                reader.cursor = event.id
                reader.messages.append(event)
                answer.reset()
                if not reader.has_answer:
                    answer = await client.get(reader.cursor)
        assert texts(reader.messages) == [*STEPS, "run 1 done"]
        assert server.executions == 1


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
async def test_events_that_came_while_the_client_was_away_are_redelivered(newline: bytes) -> None:
    is_away = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        for step in range(1, 11):
            await leg.progress(step)
        await is_away.wait()
        for step in range(11, EVENTS):
            await leg.progress(step)
        await leg.answer()
        await leg.end()

    async with serving(McpServer(play, ids=Ids.NONE, newline=newline)) as server:
        async with guarding(server.port) as proxy, Client(proxy.port, version=PRIMED) as client:
            await client.open()
            answer = await client.call()
            seen: list[Event] = []
            while len(seen) < 10:
                event = await answer.next_event()
                assert event is not None
                if event.is_message:
                    seen.append(event)
            answer.reset()
            is_away.set()
            await until(lambda: len(server.runs[-1].events) == EVENTS)
            back = await client.get(seen[-1].id)
            rest = [event async for event in back.events() if event.is_message]
            assert texts(seen + rest) == [*STEPS, "run 1 done"]
            ids = [int(event.id or "") for event in seen + rest]
            assert ids == list(range(ids[0], ids[0] + EVENTS))  # contiguous (R15)
        assert server.executions == 1


async def test_an_event_that_is_read_in_part_is_redelivered_whole() -> None:
    """Half-delivered is not delivered, and the answer stays while it is kept (R14)."""
    async with serving(McpServer(fifty, ids=Ids.NONE)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            body = await (await client.call()).read()
            cursor = Event(body.split(b"\n\n")[-3]).id  # of the event before the answer
            for _ in range(3):
                again = await client.get(cursor)
                events = [event async for event in again.events() if event.is_message]
                assert texts(events) == ["run 1 done"]
        assert server.executions == 1


async def test_at_the_last_event_of_a_finished_stream_there_is_nothing_more() -> None:
    async with (
        serving(McpServer(fifty, ids=Ids.NONE)) as server,
        guarding(server.port) as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        events = [event async for event in (await client.call()).events()]
        answer = await client.get(events[-1].id)
        assert (answer.status, answer.header("allow")) == (405, "POST, DELETE")


async def test_a_replay_is_refused_to_a_client_that_takes_no_stream_and_is_still_there_after() -> None:
    async with serving(McpServer()) as server, guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        first = await (await client.call()).next_event()
        assert first is not None
        cursor = ("Last-Event-ID", str(first.id))
        refused = await client.send("GET", "/mcp", [cursor, ("Accept", "application/json")])
        assert refused.status == 406
        for headers in ([cursor], [cursor, ("Accept", "text/html, */*")]):
            replay = await client.send("GET", "/mcp", headers)
            assert replay.status == 200
            assert (await replay.messages())[-1]["id"] == 7
        assert (await proxy.page())['requests_total{class="session",method="GET",status="406"}'] == 1


async def test_a_client_that_returns_too_late_gets_the_error_it_is_owed() -> None:
    is_given_up = asyncio.Event()

    async def endless(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await leg.peer.wait_gone()
        is_given_up.set()

    async with serving(McpServer(endless)) as server, guarding(server.port, hold="0.05s") as proxy:
        async with Client(proxy.port, version=PRIMED) as client:
            await client.open()
            answer = await client.call("seven")
            events = [await answer.next_event() for _ in range(2)]
            assert events[1] is not None
            answer.reset()
            async with asyncio.timeout(DEADLINE_S):
                await is_given_up.wait()
            late = await client.get(events[1].id)
            messages = await late.messages()
        assert [(one["id"], one["error"]["code"]) for one in messages] == [("seven", -32050)]
        assert server.executions == 1


async def test_what_the_standalone_stream_missed_is_redelivered() -> None:
    go_on = asyncio.Event()

    async def stand(leg: Leg) -> None:
        await leg.open()
        await leg.log("first")
        await go_on.wait()
        await leg.log("second")
        await leg.log("third")
        await leg.peer.wait_gone()

    server = McpServer(ids=Ids.NONE)
    server.stand = stand
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.get()
        first = await answer.next_event()
        assert first is not None
        answer.reset()
        go_on.set()
        again = await client.get(first.id)
        events = [await again.next_event() for _ in range(2)]
        assert texts([event for event in events if event is not None]) == ["run 0 second", "run 0 third"]
        assert server.counts["GET"] == 1  # never a second one upstream (R35)


async def test_without_the_proxy_the_same_cut_loses_the_answer() -> None:
    """The test can fail: the server itself resumes nothing."""

    async def no_resume(leg: Leg) -> None:
        await leg.refuse(405)

    async with serving(McpServer(fifty, no_resume, ids=Ids.NONE)) as server, Client(server.port) as client:
        await client.open()
        answer = await client.call()
        await answer.next_event()
        answer.reset()
        assert (await client.get("1")).status == 405
        with pytest.raises(Truncated):
            await answer.read()
