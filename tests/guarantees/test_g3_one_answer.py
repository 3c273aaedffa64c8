"""G3 one answer: every request gets exactly one response, the result or an explicit error, and in time."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.client import (
    BOTH,
    JSON,
    Client,
    Json,
    Truncated,
    call,
    initialize,
    outcome,
)
from tests.support.proxy import Proxy, guarding
from tests.support.server import Epochs, Leg, McpServer, Play, honest, serving, until, whole


async def one_call(port: int) -> object:
    async with Client(port) as client:
        await client.open()
        return outcome(await (await client.call()).messages())


# broken everywhere


async def never_opened(leg: Leg) -> None:
    await leg.cut()


async def broken_in_the_head(leg: Leg) -> None:
    await leg.peer.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
    await leg.cut()


async def broken_in_json(leg: Leg) -> None:
    await leg.peer.send(
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"jso'
    )
    await leg.cut()


async def no_http(leg: Leg) -> None:
    await leg.peer.send(b"*** what is this ***\r\n\r\n")
    await leg.cut()


async def bad_chunk(leg: Leg) -> None:
    await leg.open()
    await leg.progress(1)
    await leg.peer.send(b"zz\r\nnonsense\r\n")
    await leg.peer.wait_gone()


async def empty_stream(leg: Leg) -> None:
    await leg.open()
    await leg.end()


async def only_an_unrelated_answer(leg: Leg) -> None:
    await leg.open()
    await leg.answer(request_id="somebody's")
    await leg.end()


BROKEN = [
    never_opened,
    broken_in_the_head,
    broken_in_json,
    no_http,
    bad_chunk,
    empty_stream,
    only_an_unrelated_answer,
]


@pytest.mark.parametrize("play", BROKEN)
async def test_a_call_that_always_breaks_is_an_error_after_its_second_run(play: Play) -> None:
    server = McpServer(play, epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy:
        assert await one_call(proxy.port) == -32050
        assert server.executions == 2


@pytest.mark.parametrize("play", BROKEN)
async def test_a_call_that_breaks_once_is_answered_by_its_second_run(play: Play) -> None:
    async def once(leg: Leg) -> None:
        await (play if leg.run.number == 1 else honest)(leg)

    server = McpServer(once, epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy:
        assert await one_call(proxy.port) == "run 2 done"
        assert server.found() == {"initialize": 2, "initialized": 2, "executions": 2}


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"no JSON"), (200, b""), (204, b""), (202, b""), (200, b'{"jsonrpc":"2.0","id":0,"result":{}}')],
)
async def test_a_whole_answer_that_answers_nothing_is_an_error(status: int, body: bytes) -> None:
    async def play(leg: Leg) -> None:
        await leg.peer.send(whole(status, [("content-type", JSON)], body))

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy:
        assert await one_call(proxy.port) == -32050
        assert server.executions == 1


@pytest.mark.parametrize("status", [400, 403, 413, 500, 503])
async def test_a_refusal_of_the_server_passes_as_it_is(status: int) -> None:
    async def play(leg: Leg) -> None:
        await leg.refuse(status, b"not today", ("x-why", "because"))

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        assert (answer.status, await answer.read(), answer.header("x-why")) == (
            status,
            b"not today",
            "because",
        )


# gone


async def test_a_session_lost_between_calls_is_healed_and_the_call_answered() -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        assert outcome(await (await client.call()).messages()) == "run 1 done"
        session = client.session
        await server.restart()
        answer = await client.call()
        messages = await answer.messages()
        assert outcome(messages) == "run 2 done"
        assert answer.header("mcp-session-id") == session  # the id the client knows never changes
        assert server.found() == {"initialize": 2, "initialized": 2, "executions": 2}
        assert messages[-1]["result"]["_meta"]["dev.epochgate/restart"]["reason"] == "session_gone"
        assert await proxy.moved("heals_total") == {"outcome=healed,trigger=session_gone": 1}
        assert outcome(await (await client.call()).messages()) == "run 3 done"
        assert server.counts["initialize"] == 2


async def test_many_calls_that_find_their_session_gone_share_one_heal() -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        server.evict()
        answers = await asyncio.gather(*(client.call() for _ in range(20)))
        told = [outcome(await answer.messages()) for answer in answers]
        assert sorted(map(str, told)) == sorted(f"run {number} done" for number in range(1, 21))
        assert server.found() == {"initialize": 2, "initialized": 2, "executions": 20}


async def test_a_server_that_is_away_for_a_moment_is_waited_for() -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        await server.stop()
        call = asyncio.ensure_future(client.call())
        await _until_upstream_failed(proxy)
        await server.start()
        assert outcome(await (await call).messages()) == "run 1 done"
        assert server.executions == 1


async def _until_upstream_failed(proxy: Proxy) -> None:
    await until(lambda: bool(proxy.log("upstream failed")))


async def test_a_server_that_stays_away_is_an_error_at_the_heal_deadline() -> None:
    server = McpServer()
    deadlines = {"resume_deadline": "0.2s", "resume_headers": "0.1s", "heal_deadline": "0.5s"}
    async with serving(server), guarding(server.port, **deadlines) as proxy, Client(proxy.port) as client:
        await client.open()
        await server.stop()
        assert outcome(await (await client.call()).messages()) == -32051
        # Unreachable is not lost (R27): the next caller finds the server again.
        await server.start()
        assert outcome(await (await client.call()).messages()) == "run 1 done"
        assert server.found() == {"initialize": 2, "initialized": 2, "executions": 1}


# cancelled, deleted


async def silent_stream(leg: Leg) -> None:
    await leg.open()
    await leg.progress(1)
    await leg.peer.wait_gone()


async def test_a_cancelled_call_ends() -> None:
    """With the answer or 5 s after the cancel (R29)."""
    server = McpServer(silent_stream)
    async with serving(server), guarding(server.port, cancel_grace="0.1s") as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            answer = await client.call()
            await answer.next_event()
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            assert (await client.post(cancel)).status == 202
            assert [one for one in await answer.messages() if "method" not in one] == []
        (cancelled,) = [one.message for one in server.requests if "cancel" in str(one.message.get("method"))]
        assert cancelled["params"]["requestId"] == server.runs[0].id  # the stamp, not the client's id


async def test_a_deleted_session_answers_what_it_owes() -> None:
    """Owed requests end with an error (R25)."""
    server = McpServer(silent_stream)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        await answer.next_event()
        assert (await client.delete()).status == 204
        assert outcome(await answer.messages()) == -32051
        assert (await client.call()).status == 404
        assert server.found() == {"initialize": 1, "initialized": 1, "executions": 1}


async def test_a_batch_that_breaks_is_sent_again_without_what_was_answered() -> None:
    """R41; the members keep their ids."""
    sent: list[list[Json]] = []

    async def batch(leg: Leg) -> None:
        members = json.loads(leg.request.body)
        sent.append(members)
        await leg.open()
        for member in members:
            result = {"content": [{"type": "text", "text": f"batch {len(sent)}"}]}
            await leg.write({"jsonrpc": "2.0", "id": member["id"], "result": result}, None)
            if len(sent) == 1:
                await leg.cut()
        await leg.end()

    server = McpServer(epochs=Epochs.NEVER)
    server.batch = batch
    async with (
        serving(server),
        guarding(server.port) as proxy,
        Client(proxy.port, version="2025-03-26") as client,
    ):
        await client.open()
        answer = await client.post([call(1), call("two"), call(3)])
        told = [one for one in await answer.messages() if "method" not in one]
    assert [one["id"] for one in told] == [1, "two", 3]
    texts = [one["result"]["content"][0]["text"] for one in told]
    assert texts == ["batch 1", "batch 2", "batch 2"]
    assert [len(members) for members in sent] == [3, 2]


async def test_two_requests_of_one_id_are_answered_each_on_its_own_stream() -> None:
    """Large hosted clients send id 1 for everything (R33)."""
    both = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        if leg.run.number == 2:
            both.set()
        await both.wait()
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answers = await asyncio.gather(client.call(), client.call())
        told = [outcome(await answer.messages()) for answer in answers]
        assert sorted(map(str, told)) == ["run 1 done", "run 2 done"]
        assert server.runs[0].id != server.runs[1].id


@pytest.mark.parametrize("number", [7, "7", 0, "", 'ünï " \\ x', 2**53 - 1, -1, 1.5, 10**20])
async def test_ids_come_back_with_their_type_and_bytes(number: object) -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        (answer,) = [one for one in await (await client.call(number)).messages() if "id" in one]
        assert answer["id"] == number
        assert type(answer["id"]) is type(number)


# out of reach from the start


async def test_initialize_of_a_server_out_of_reach_is_an_answer_with_an_error() -> None:
    """With status 200 (W4)."""
    server = McpServer()
    async with serving(server):
        pass
    async with guarding(server.port) as proxy, Client(proxy.port) as client:
        answer = await client.post(initialize())
        message = await answer.json()
        assert (answer.status, message["id"], message["error"]["code"]) == (200, 0, -32051)


async def test_other_traffic_to_a_server_out_of_reach_is_closed_without_an_answer() -> None:
    """W4: a status of ours would be taken for the server's."""
    server = McpServer()
    async with serving(server):
        pass
    async with guarding(server.port) as proxy, Client(proxy.port) as client:
        for method, target in (("GET", "/.well-known/oauth-protected-resource"), ("OPTIONS", "/mcp")):
            with pytest.raises(Truncated):
                await client.send(method, target, [])
        modern = ("MCP-Protocol-Version", "2026-07-28")
        with pytest.raises(Truncated):
            await client.post({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}, modern)
        with pytest.raises(Truncated):
            await client.post(call())


async def test_raw_requests_are_what_the_client_helper_sends() -> None:
    """This client's own framing, once, so that a fault of it is not taken for one of the proxy."""
    server = McpServer()
    async with serving(server), Client(server.port) as client:
        await client.post(initialize())
        (request,) = server.requests
        assert request.header("accept") == BOTH
        assert json.loads(request.body) == initialize()
