"""What a server starts by itself, and calls that may have run already, as they are met in the field."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.shell.wire import Peer
from tests.support.client import Client, Json, call, outcome
from tests.support.proxy import guarding
from tests.support.server import Epochs, Leg, McpServer, Play, honest, serving, until
from tests.support.splices import BREAKS

ASKED = {
    "elicitation/create": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "roots/list": {},
    "ping": {},
}
CAN: Json = {"elicitation": {}, "sampling": {}, "roots": {}}


def question(method: str, number: object = "q1") -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": ASKED[method]}


def replies(server: McpServer) -> list[Json]:
    """The answers of clients that the server got."""
    return [one.message for one in server.requests if one.message and "method" not in one.message]


async def reply(client: Client, asked: Json) -> int:
    answer = await client.post({"jsonrpc": "2.0", "id": asked["id"], "result": {"said": 1}})
    return answer.status


# questions inside a call


@pytest.mark.parametrize("epochs", [Epochs.META, Epochs.NEVER])
@pytest.mark.parametrize("method", ASKED)
async def test_a_question_inside_a_call_reaches_the_client_before_the_call_ends(
    method: str, epochs: Epochs
) -> None:
    """The server gives its result only when it has been answered, on another connection."""

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.write(question(method))
        await leg.server.until(lambda: bool(replies(leg.server)))
        await leg.answer()
        await leg.end()

    server = McpServer(play, epochs=epochs)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open(CAN)
        answer = await client.call(4)
        asked = await answer.next_message()
        assert asked["method"] == method
        assert replies(server) == []  # the proxy answers nothing for the client, no ping either
        assert await reply(client, asked) == 202
        (last,) = await answer.messages()
        assert (last["id"], "result" in last) == (4, True)
        assert replies(server) == [{"jsonrpc": "2.0", "id": "q1", "result": {"said": 1}}]


@pytest.mark.parametrize(
    "kind", ["text/event-stream;charset=UTF-8", "TEXT/EVENT-STREAM", "text/event-stream ; charset=utf-8"]
)
async def test_a_stream_is_one_however_its_type_is_written(kind: str) -> None:
    has_read = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open(("content-type", kind))
        await leg.progress(1)
        await has_read.wait()
        await leg.answer()
        await leg.end()

    async with (
        serving(McpServer(play)) as server,
        guarding(server.port) as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        answer = await client.call()
        assert answer.header("content-type") == kind
        assert (await answer.next_message())["params"]["progressToken"] == "t"
        has_read.set()
        event = await answer.next_event()
        assert event is not None
        assert event.message["id"] == 7


async def test_a_server_that_pings_and_hears_nothing_may_close_and_the_call_is_answered() -> None:
    """The client is away: nobody answers the ping for it, and what the server then does is judged."""

    async def play(leg: Leg) -> None:
        if leg.run.number > 1:
            await honest(leg)
            return
        await leg.open()
        await leg.progress(1)
        await is_away.wait()
        await leg.write(question("ping"))
        leg.server.evict()
        await leg.cut()

    is_away = asyncio.Event()
    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        event = await answer.next_event()
        assert event is not None
        answer.reset()
        is_away.set()
        await until(lambda: server.counts["GET"] == 1)
        assert replies(server) == []
        back = await (await client.get(event.id)).messages()
        assert outcome([one for one in back if "id" in one and "method" not in one]) == "run 2 done"


# each message on the stream that the server chose


async def test_progress_and_result_of_one_segment_come_in_order_and_the_rest_on_its_own_stream() -> None:
    """Three steps and the answer in one write; a change of the list at the same time on the GET."""
    has_called = asyncio.Event()

    async def stand(leg: Leg) -> None:
        await leg.open()
        await has_called.wait()
        await leg.send("notifications/tools/list_changed", {})
        await leg.peer.wait_gone()

    async def play(leg: Leg) -> None:
        leg.is_mute = True
        for step in range(1, 4):
            await leg.progress(step)
        await leg.answer()
        await leg.open()
        has_called.set()
        await leg.raw(b"".join(raw for _, raw in leg.run.events))
        await leg.end()

    server = McpServer(play)
    server.stand = stand
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        standing = await client.get()
        messages = await (await client.call()).messages()
        assert [one["params"]["progress"] for one in messages[:-1]] == [1, 2, 3]
        assert outcome(messages) == "run 1 done"
        assert (await standing.next_message())["method"] == "notifications/tools/list_changed"


async def test_a_question_on_the_get_is_answered_while_the_call_waits_for_it() -> None:
    has_called = asyncio.Event()

    async def stand(leg: Leg) -> None:
        await leg.open()
        await has_called.wait()
        await leg.write(question("roots/list"), None)
        await leg.peer.wait_gone()

    async def play(leg: Leg) -> None:
        await leg.open()
        has_called.set()
        await leg.server.until(lambda: bool(replies(leg.server)))
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    server.stand = stand
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open(CAN)
        standing = await client.get()
        answer = await client.call()
        asked = await standing.next_message()
        assert asked["method"] == "roots/list"
        assert await reply(client, asked) == 202
        assert outcome(await answer.messages()) == "run 1 done"
        assert [one["id"] for one in replies(server)] == ["q1"]


async def test_a_question_that_came_while_nobody_listened_is_asked_when_somebody_does() -> None:
    is_away = asyncio.Event()

    async def stand(leg: Leg) -> None:
        await leg.open()
        await leg.log("here")
        await is_away.wait()
        await leg.write(question("roots/list"), None)
        await leg.peer.wait_gone()

    server = McpServer()
    server.stand = stand
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open(CAN)
        listening = await client.get()
        await listening.next_message()
        listening.reset()
        await (await client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})).json()
        is_away.set()
        asked = await (await client.get()).next_message()
        assert asked["method"] == "roots/list"
        assert await reply(client, asked) == 202
        await until(lambda: [one["id"] for one in replies(server)] == ["q1"])


async def test_an_answer_behind_a_change_of_session_is_absorbed_and_counted() -> None:
    """A question on the GET of the old session; the new one never asked it."""

    async def stand(leg: Leg) -> None:
        await leg.open()
        if leg.session.epoch == 1:
            await leg.write(question("roots/list"), None)
        await leg.peer.wait_gone()

    server = McpServer()
    server.stand = stand
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open(CAN)
        listening = await client.get()
        asked = await listening.next_message()
        await server.restart()
        assert outcome(await (await client.call()).messages()) == "run 1 done"
        assert await reply(client, asked) == 202
        assert replies(server) == []
        assert await proxy.moved("dropped_messages_total") == {"reason=stale_answer": 1}


# calls that may have run already


TOOLS: dict[str, Json] = {
    "none": {},
    "read-only": {"annotations": {"readOnlyHint": True}},
    "idempotent": {"annotations": {"destructiveHint": True, "idempotentHint": True}},
    "contradictory": {"annotations": {"readOnlyHint": True, "destructiveHint": True}},
}
RUNS = {"none": 2, "read-only": 2, "idempotent": 2, "contradictory": 1}


async def before_headers(leg: Leg) -> None:
    await leg.reset()


async def behind_headers(leg: Leg) -> None:
    await leg.open()
    await leg.reset()


async def behind_progress(leg: Leg) -> None:
    await leg.open()
    await leg.progress(1)
    await leg.reset()


async def with_its_process(leg: Leg) -> None:
    """The process is restarted; what ran is known outside."""
    await leg.open()
    await leg.progress(1)
    leg.server.evict()
    await leg.cut()


PLACES = [before_headers, behind_headers, behind_progress, with_its_process]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("place", PLACES)
async def test_a_call_that_may_have_run_is_run_again_only_where_it_does_no_harm(
    place: Play, tool: str
) -> None:
    async def once(leg: Leg) -> None:
        await (place if leg.run.number == 1 else honest)(leg)

    described = {"name": "work", "inputSchema": {}, **TOOLS[tool]}
    server = McpServer(once, epochs=Epochs.NEVER, tools=(described,))
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        await (await client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).json()
        told = outcome(await (await client.call()).messages())
        assert server.executions == RUNS[tool]
        moved = await proxy.moved("reissues_total")
        if RUNS[tool] == 1:
            assert told == -32050
            assert moved == {"method=tools/call,outcome=withheld": 1}
        else:
            assert told == "run 2 done"
            assert moved == {"method=tools/call,outcome=sent": 1}
        # The session is repaired for what comes.
        assert outcome(await (await client.call()).messages()) == f"run {RUNS[tool] + 1} done"


@pytest.mark.parametrize("method", ["tools/list", "resources/read", "ping", "prompts/get"])
async def test_what_only_reads_is_asked_once_more(method: str) -> None:
    server = McpServer(epochs=Epochs.NEVER)

    async def reset_once(peer: Peer) -> None:
        server.on_request = None
        peer.reset()

    async with serving(server), guarding(server.port, reissue="reads") as proxy, Client(proxy.port) as client:
        await client.open()
        server.on_request = reset_once
        message = {"jsonrpc": "2.0", "id": 3, "method": method, "params": {"uri": "a:1", "name": "x"}}
        assert "result" in await (await client.post(message)).json()
        assert server.counts[method] == 2
        assert await proxy.moved("reissues_total") == {f"method={method},outcome=sent": 1}


@pytest.mark.parametrize("number", [7, 8])
async def test_a_client_that_asks_again_by_itself_asks_twice(number: int) -> None:
    """Its own decision, with the old id or a new one: two requests, and none more of the proxy's."""
    server = McpServer(tools=({"name": "work", "annotations": {"destructiveHint": True}},))
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        first = await (await client.post(call(7))).messages()
        second = await (await client.post(call(number))).messages()
        assert [one[-1]["id"] for one in (first, second)] == [7, number]
        assert server.executions == 2
        assert server.runs[0].id != server.runs[1].id
        assert await proxy.moved("reissues_total") == {}
        assert json.dumps(second[-1]["result"]["content"]).count("run 2 done") == 1


@pytest.mark.parametrize("how", BREAKS)
async def test_the_second_run_is_the_last(how: Play) -> None:
    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await how(leg)

    server = McpServer(play, epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        assert outcome(await (await client.call()).messages()) == -32050
        assert server.executions == 2
