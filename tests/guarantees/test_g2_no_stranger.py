"""G2 no stranger: nothing of another session, stream or request reaches a client, nor a wrong server."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.client import PRIMED, Answer, Client, Event, Json
from tests.support.proxy import guarding
from tests.support.server import Epochs, Leg, McpServer, serving


async def told_who(leg: Leg) -> None:
    await leg.open()
    for step in range(1, 4):
        await leg.progress(step)
    await leg.answer()
    await leg.end()


async def stream_of(client: Client) -> list[Event]:
    await client.open()
    return [event async for event in (await client.call()).events() if event.is_message]


# cursors


async def test_a_cursor_of_another_session_is_refused() -> None:
    """R15: a client that opened a new session still carries the cursor of the old one."""
    async with (
        serving(McpServer(told_who)) as server,
        guarding(server.port) as proxy,
        Client(proxy.port) as alice,
        Client(proxy.port) as bob,
    ):
        first, second = await stream_of(alice), await stream_of(bob)
        cursors = {event.id for event in first} | {event.id for event in second}
        assert len(cursors) == len(first) + len(second)  # nothing is numbered alike
        for event in first:
            answer = await bob.get(event.id)
            assert answer.status == 400
            assert b"run 1" not in await answer.read()
        page = await proxy.page()
        assert page["unknown_cursors_total"] == len(first)
        assert server.counts["GET"] == 0


@pytest.mark.parametrize(
    "cursor", ["1", "0", "-1", "1_4", "9007199254740991", "9007199254740993", "1" * 40, "x", "1.5", "0x10"]
)
async def test_a_forged_cursor_is_refused(cursor: str) -> None:
    async with (
        serving(McpServer(told_who)) as server,
        guarding(server.port) as proxy,
        Client(proxy.port) as client,
    ):
        await stream_of(client)
        assert (await client.get(cursor)).status == 400


async def test_a_cursor_leads_to_its_own_stream_alone() -> None:
    async with (
        serving(McpServer(told_who)) as server,
        guarding(server.port) as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        streams = []
        for number in range(3):
            answer = await client.call(number)
            streams.append([event async for event in answer.events()])
        for number, events in enumerate(streams):
            again = await client.get(events[0].id)
            messages = await again.messages()
            assert messages[-1]["id"] == number
            assert {_run(one) for one in messages} == {number + 1}


def _run(message: Json) -> int:
    if "result" in message:
        return int(message["result"]["content"][0]["text"].split()[1])
    return int(message["params"]["message"].split()[1])


async def test_the_servers_own_event_ids_never_reach_a_client() -> None:
    async with (
        serving(McpServer(told_who)) as server,
        guarding(server.port) as proxy,
        Client(proxy.port, version=PRIMED) as client,
    ):
        await client.open()
        body = await (await client.call()).read()
    assert b"id: 1_" not in body
    ids = [int(raw.partition(b"\n")[0].removeprefix(b"id: ")) for raw in body.split(b"\n\n")[:-1]]
    assert ids == list(range(ids[0], ids[0] + 5))
    assert ids[-1] < 2**53


async def test_a_resume_of_a_session_never_seen_is_refused_and_not_passed_on() -> None:
    """No epoch was captured: nothing could be proven (W3)."""
    async with (
        serving(McpServer(told_who)) as server,
        guarding(server.port) as proxy,
        Client(server.port) as direct,
        Client(proxy.port) as late,
    ):
        await direct.open()
        late.session = direct.session
        seen = len(server.requests)
        assert (await late.get("1_1")).status == 404
        assert len(server.requests) == seen


# stamps


async def test_every_request_goes_up_under_an_id_of_its_own() -> None:
    """Unique to session, generation and stream (R36)."""
    async with (
        serving(McpServer(told_who)) as server,
        guarding(server.port) as proxy,
        Client(proxy.port) as alice,
        Client(proxy.port) as bob,
    ):
        for client in (alice, bob):
            await client.open()
            for number in (1, 1, "1"):
                answer = await client.call(number, token=1)
                assert (await answer.messages())[-1]["id"] == number
    ids = [run.id for run in server.runs]
    tokens = [run.token for run in server.runs]
    assert len({*ids, *tokens}) == 12
    assert [type(one) for one in ids] == [int, int, str] * 2
    assert all(len(str(one)) == 14 for one in ids if isinstance(one, int))


async def test_an_answer_to_another_request_is_dropped() -> None:
    """Two calls; the server mixes up whom it answers (R30)."""
    both = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        if len(leg.server.runs) == 2:
            both.set()
        await both.wait()
        other = next(run for run in leg.server.runs if run is not leg.run)
        await leg.answer(request_id=other.id)
        await leg.answer(request_id="made up")
        await leg.answer(request_id=7)  # the client's own id, which the server never saw
        await leg.answer()
        await leg.end()

    async with serving(McpServer(play)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            answers = await asyncio.gather(client.call(7), client.call(8))
            told = [await answer.messages() for answer in answers]
        assert [[one["id"] for one in messages] for messages in told] == [[7], [8]]
        by_stamp = {run.id: run.number for run in server.runs}
        assert len(by_stamp) == 2
        assert sum((await proxy.moved("dropped_messages_total")).values()) == 6


async def test_progress_of_nobody_is_dropped() -> None:
    """A token that is no stamp of the generation (R30)."""

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.send("notifications/progress", {"progressToken": "t", "progress": 1})
        await leg.answer()
        await leg.end()

    async with serving(McpServer(play)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            (answer,) = await (await client.call(token="t")).messages()
            assert answer["id"] == 7
        assert await proxy.moved("dropped_messages_total") == {"reason=foreign": 1}


async def test_a_log_of_another_call_on_a_resumed_leg_is_dropped() -> None:
    """R6: a server that replays all streams into one; nothing says whose the line is."""

    async def play(leg: Leg) -> None:
        await leg.open()
        for step in range(1, 4):
            await leg.progress(step)
        await leg.cut()

    async def replay(leg: Leg) -> None:
        await leg.open()
        await leg.log("of another call", epoch=None, id=None)
        await leg.answer()
        await leg.end()

    async with serving(McpServer(play, replay)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            messages = await (await client.call()).messages()
        assert b"another" not in json.dumps(messages).encode()
        assert "result" in messages[-1]
        assert server.executions == 1
        assert await proxy.moved("dropped_messages_total") == {"reason=unproven": 1}


# questions


async def test_questions_of_two_runs_under_one_id_are_answered_each_by_its_own() -> None:
    """Servers count from 0 in each session; after a heal both generations are alive (R18, R19)."""
    is_second_asked = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        if leg.run.name == "breaks" and leg.run.number == 2:
            await leg.cut()
        question = {"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {"message": "?"}}
        await leg.write(question)
        if leg.run.number == 3:
            is_second_asked.set()
        session = leg.session.id
        await leg.server.until(lambda: session in answered)
        await leg.write({"jsonrpc": "2.0", "id": leg.run.id, "result": {"said": answered[session]}})
        await leg.end()

    answered: dict[str, object] = {}

    def note(request: object) -> None:
        for one in server.requests:
            if "result" in one.message and "method" not in one.message:
                answered[one.header("mcp-session-id") or ""] = one.message["result"]["content"]

    server = McpServer(play, epochs=Epochs.NEVER, tools=({"name": "breaks"}, {"name": "work"}))
    server.accepts = lambda request: note(request)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open({"elicitation": {}})
        first = await client.call(1, "work")
        asked_first = await _question(await first.next_message(), first)
        second = await client.call(2, "breaks")
        asked_second = await _question(await second.next_message(), second)
        assert is_second_asked.is_set()
        assert asked_first["id"] != asked_second["id"]
        for asked, said in ((asked_second, "second"), (asked_first, "first")):
            reply = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": said}}
            assert (await client.post(reply)).status == 202
        assert (await first.messages())[-1]["result"]["said"] == "first"
        assert (await second.messages())[-1]["result"]["said"] == "second"


async def _question(message: Json, answer: Answer) -> Json:
    while message.get("method") != "elicitation/create":
        message = await answer.next_message()
    return message


async def test_two_clients_whose_server_gives_them_one_id_stay_apart() -> None:
    """R42: a server with derived session ids; the newcomer's visible id is minted by the proxy."""
    server = McpServer(told_who)
    server.make_id = lambda: "derived"
    async with (
        serving(server),
        guarding(server.port) as proxy,
        Client(proxy.port) as alice,
        Client(proxy.port) as bob,
    ):
        first = await stream_of(alice)
        await bob.open()
        assert alice.session != bob.session
        assert (await bob.get(first[0].id)).status == 400
        again = await alice.get(first[0].id)
        assert (await again.messages())[-1]["id"] == 7
