"""Heals that meet trouble of their own, and what the client sees of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.support.client import Answer, Client, Json
from tests.support.proxy import guarding
from tests.support.server import Epochs, Leg, McpServer, Play, Request, honest, serving, until, whole

STATEFUL: Json = {"name": "work", "inputSchema": {}, "annotations": {"readOnlyHint": False}}
TWICE = {"initialize": 2, "initialized": 2, "executions": 2}


def broken_first(then: Play = honest) -> Play:
    async def play(leg: Leg) -> None:
        if leg.run.number > 1:
            await then(leg)
            return
        await leg.open()
        for step in range(1, 4):
            await leg.progress(step)
        await leg.cut()

    return play


def first(method: str, status: int, count: int, but: int = 0) -> Callable[[Request], int | None]:
    """Refuse so many requests of a method, behind the first `but`."""
    seen = 0

    def accepts(request: Request) -> int | None:
        nonlocal seen
        if request.message.get("method") != method:
            return None
        seen += 1
        return status if but < seen <= but + count else None

    return accepts


async def last_of_a_call(port: int, number: object = 7) -> Json:
    async with Client(port) as client:
        await client.open()
        return (await (await client.call(number)).messages())[-1]


@pytest.mark.parametrize("status", [404, 500, 502, 503])
async def test_a_heal_whose_initialize_is_refused_is_tried_again(status: int) -> None:
    """Refused is not lost (R27)."""
    server = McpServer(broken_first(), epochs=Epochs.NEVER)
    server.accepts = first("initialize", status, 2, but=1)
    async with serving(server), guarding(server.port) as proxy:
        assert (await last_of_a_call(proxy.port))["result"]["content"][0]["text"] == "run 2 done"
        assert server.executions == 2


@pytest.mark.parametrize("status", [401, 403])
async def test_a_heal_that_meets_a_challenge_is_parked_and_the_call_answered(status: int) -> None:
    """R27: never healed past credentials; with nobody to pass the challenge to, an error in the end."""
    server = McpServer(broken_first(), epochs=Epochs.NEVER)
    server.accepts = first("initialize", status, 100, but=1)
    async with serving(server), guarding(server.port, heal_deadline="0.5s") as proxy:
        assert (await last_of_a_call(proxy.port))["error"]["code"] == -32051
        assert server.executions == 1
        assert server.counts["initialize"] < 6
        assert (await proxy.moved("heals_total"))["outcome=parked,trigger=stream_restart"] >= 1


async def test_a_heal_whose_initialized_is_refused_is_tried_again() -> None:
    server = McpServer(broken_first(), epochs=Epochs.NEVER)
    server.accepts = first("notifications/initialized", 503, 1, but=1)
    async with serving(server), guarding(server.port) as proxy:
        assert (await last_of_a_call(proxy.port))["result"]["content"][0]["text"] == "run 2 done"
        assert server.executions == 2
        await until(lambda: len(server.sessions) == 1)  # none is left behind (R26)


@pytest.mark.parametrize("what", ["name", "capability"])
async def test_another_server_in_its_place_ends_the_session(what: str) -> None:
    """Incompatible: LOST (R27)."""
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        server.evict()
        if what == "name":
            server.name = "another"
        else:
            server.capabilities = {"tools": {}}
        (answer,) = await (await client.call()).messages()
        assert answer["error"]["code"] == -32051
        assert server.executions == 0
        late = await client.call()
        assert late.status == 404  # the client negotiates anew
        assert await proxy.moved("heals_total") == {"outcome=incompatible,trigger=session_gone": 1}
        client.session = None
        await client.open()
        assert (await (await client.call()).messages())[-1]["result"]


async def test_a_lost_session_that_held_state_is_shown_to_the_client() -> None:
    """R21: a server that annotates, and a completed call of a tool that is not read-only."""
    server = McpServer(tools=(STATEFUL,))
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        await (await client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).json()
        await (await client.call()).messages()
        server.evict()
        assert (await client.call()).status == 404
        assert server.found() == {"initialize": 1, "initialized": 1, "executions": 1}


async def test_a_heal_restores_the_log_level_and_subscriptions() -> None:
    server = McpServer(broken_first(), epochs=Epochs.NEVER)
    server.capabilities = {"tools": {}, "logging": {}, "resources": {"subscribe": True}}
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        for method, params in (
            ("logging/setLevel", {"level": "warning"}),
            ("resources/subscribe", {"uri": "a:1"}),
            ("resources/subscribe", {"uri": "a:2"}),
            ("resources/unsubscribe", {"uri": "a:1"}),
        ):
            await (await client.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).json()
        before = len(server.requests)
        assert (await (await client.call()).messages())[-1]["result"]
        healed = [one.message for one in server.requests[before:] if one.message]
        methods = [str(one.get("method")) for one in healed]
        assert methods.index("initialize") < methods.index("notifications/initialized")
        assert methods.index("logging/setLevel") < methods.index("tools/call", 1)
        restored = [one["params"] for one in healed if one["method"] == "resources/subscribe"]
        assert restored == [{"uri": "a:2"}]
        level = next(one["params"] for one in healed if one["method"] == "logging/setLevel")
        assert level == {"level": "warning"}


async def test_a_prelude_is_played_before_the_call() -> None:
    """The last arguments of each tool (R40)."""
    server = McpServer(epochs=Epochs.NEVER, tools=({"name": "login"}, {"name": "work"}))
    async with (
        serving(server),
        guarding(server.port, replay_tools="login") as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        await (await client.call(1, "login")).messages()
        server.evict()
        await (await client.call(2, "work")).messages()
    assert [run.name for run in server.runs] == ["login", "login", "work"]


async def test_requests_wait_for_a_heal_and_go_to_the_new_session() -> None:
    """R24; answers, cancels and DELETE never wait."""
    gate = asyncio.Event()
    server = McpServer(broken_first(), epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        server.delay_initialize = gate
        first_call = await client.call(1)
        for _ in range(3):
            await first_call.next_message()
        await until(lambda: server.counts["initialize"] == 2)
        others = [asyncio.ensure_future(client.call(number)) for number in (2, 3)]
        note = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        assert (await client.post(note)).status == 202
        assert server.executions == 1
        gate.set()
        told = await first_call.messages()
        assert told[-1]["id"] == 1
        answers: list[Answer] = [await other for other in others]
        assert [(await one.messages())[-1]["id"] for one in answers] == [2, 3]
        new = next(iter(server.sessions))
        assert {run.session.id for run in server.runs[1:]} == {new}
        assert server.counts["initialize"] == 2


async def test_a_delete_during_a_heal_wins() -> None:
    """R25: no hidden run in an orphan session."""
    gate = asyncio.Event()
    server = McpServer(broken_first(), epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        server.delay_initialize = gate
        call = await client.call()
        for _ in range(3):
            await call.next_message()
        await until(lambda: server.counts["initialize"] == 2)
        deleted = await client.delete()
        assert deleted.status in (200, 204)
        assert (await call.messages())[-1]["error"]["code"] == -32051
        gate.set()
        await until(lambda: not server.sessions)  # the one being made is ended too
        assert server.executions == 1
        assert (await client.call()).status == 404


async def test_streams_that_never_broke_go_on_through_a_heal() -> None:
    """R18: a reset of one call's leg is no reason to run its neighbour twice."""
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        if leg.run.name == "healthy":
            await go_on.wait()
        elif leg.run.number == 2:
            await leg.cut()
        await leg.answer()
        await leg.end()

    server = McpServer(play, epochs=Epochs.NEVER, tools=({"name": "healthy"}, {"name": "breaks"}))
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        healthy = await client.call(1, "healthy")
        await healthy.next_message()
        broken = await client.call(2, "breaks")
        assert (await broken.messages())[-1]["result"]["content"][0]["text"] == "run 3 done"
        go_on.set()
        assert (await healthy.messages())[-1]["result"]["content"][0]["text"] == "run 1 done"
        assert [run.name for run in server.runs] == ["healthy", "breaks", "breaks"]
        # The session that was left behind is ended when its last stream has (R26).
        await until(lambda: server.counts["DELETE"] == 1)
        assert len(server.sessions) == 1


async def test_twenty_calls_of_a_server_that_restarts_are_answered_through_one_heal() -> None:
    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        if leg.run.number <= 20:
            await leg.peer.wait_gone()
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answers = [await client.call(number) for number in range(20)]
        for answer in answers:
            await answer.next_message()
        await server.restart()
        for number, answer in enumerate(answers):
            told = [one for one in await answer.messages() if "method" not in one]
            assert [one["id"] for one in told] == [number]
            assert "result" in told[0]
        assert server.found() == {"initialize": 2, "initialized": 2, "executions": 40}


@pytest.mark.parametrize(
    ("status", "body"), [(401, b"who?"), (500, b"oops"), (200, None)], ids=["401", "500", "JSON"]
)
async def test_a_second_run_that_is_not_answered_by_a_stream_becomes_an_event(
    status: int, body: bytes | None
) -> None:
    """R34: the client leg is an event stream already."""

    async def second(leg: Leg) -> None:
        result = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"run 2 done"}]}}'
        text = result % str(leg.run.id).encode() if body is None else body
        await leg.peer.send(whole(status, [("content-type", "application/json")], text))

    server = McpServer(broken_first(second), epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy:
        last = await last_of_a_call(proxy.port)
        assert last["id"] == 7
        if body is None:
            assert last["result"]["content"][0]["text"] == "run 2 done"
        else:
            assert last["error"]["data"]["status"] == status
        assert server.executions == 2


async def test_the_standalone_stream_follows_into_the_new_session() -> None:
    async def stand(leg: Leg) -> None:
        await leg.open()
        await leg.send("notifications/message", {"level": "info", "data": f"epoch {leg.session.epoch}"})
        await leg.peer.wait_gone()

    server = McpServer(broken_first(), epochs=Epochs.NEVER)
    server.stand = stand
    server.capabilities = {"tools": {"listChanged": True}, "logging": {}}
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        standing = await client.get()
        assert (await standing.next_message())["params"]["data"] == "epoch 1"
        assert (await (await client.call()).messages())[-1]["result"]
        told = [await standing.next_message() for _ in range(2)]
        assert {one["method"] for one in told} == {
            "notifications/message",
            "notifications/tools/list_changed",
        }
        assert [one["params"]["data"] for one in told if "data" in one.get("params", {})] == ["epoch 2"]
        assert server.counts["GET"] == 2


async def test_a_question_whose_answer_meets_a_lost_session_restarts_the_call_that_asked() -> None:
    """R18: the waiting call can never end; the client's answer gets its 202."""

    async def play(leg: Leg) -> None:
        if leg.run.number > 1:
            await honest(leg)
            return
        await leg.open()
        question = {"jsonrpc": "2.0", "id": 0, "method": "roots/list", "params": {}}
        await leg.write(question)
        leg.server.evict()
        await leg.peer.wait_gone()

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open({"roots": {}})
        call = await client.call()
        asked = await call.next_message()
        reply = {"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}
        assert (await client.post(reply)).status == 202
        last = (await call.messages())[-1]
        assert last["result"]["content"][0]["text"] == "run 2 done"
        assert server.found() == TWICE
        assert await proxy.resumes() == {"upstream restart question_void": 1}


async def test_an_answer_to_a_question_that_is_void_is_acknowledged_and_goes_no_further() -> None:
    async def play(leg: Leg) -> None:
        if leg.run.number > 1:
            await honest(leg)
            return
        await leg.open()
        await leg.write({"jsonrpc": "2.0", "id": 0, "method": "roots/list", "params": {}})
        await leg.cut()

    server = McpServer(play, epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open({"roots": {}})
        call = await client.call()
        asked = await call.next_message()
        assert (await call.messages())[-1]["result"]
        reply = {"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}
        before = len(server.requests)
        assert (await client.post(reply)).status == 202
        assert [one.message for one in server.requests[before:] if "roots" in str(one.message)] == []
        assert await proxy.moved("dropped_messages_total") == {"reason=stale_answer": 1}
