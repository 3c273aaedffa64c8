"""Lost sessions as they are met in the field: a 404 on any method, silent re-creation, replicas, odd ids."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest

from tests.support.client import Client, Json, outcome
from tests.support.legs import Session
from tests.support.proxy import guarding
from tests.support.server import Epochs, Leg, McpServer, Request, serving
from tests.support.server import head as answer_head
from tests.support.splices import STEPS, answers, broken_once, is_spliced, mark, runs_told

ONCE = {"initialize": 1, "initialized": 1, "executions": 1}
LISTS_CHANGED = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def stand(leg: Leg) -> None:
    """A standalone stream that tells the session it belongs to."""
    await leg.open()
    await leg.send("notifications/message", {"level": "info", "data": f"session {leg.session.epoch}"})
    await leg.peer.wait_gone()


def re_creating(server: McpServer) -> None:
    """Make the server build a session anew for every id it does not know, and echo that id."""

    def find(request: Request) -> int | None:
        known = request.header("mcp-session-id")
        if known is not None and known not in server.sessions:
            server.sessions[known] = Session(known, next(epochs))
        return None

    epochs = itertools.count(100)
    server.accepts = find


# a 404 on each method


async def test_a_404_on_a_get_is_healed_and_the_stream_is_of_the_new_session() -> None:
    server = McpServer()
    server.stand = stand
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        server.evict()
        listening = await client.get()
        assert (listening.status, listening.header("mcp-session-id")) == (200, client.session)
        assert (await listening.next_message())["params"]["data"] == "session 2"
        assert server.counts["initialize"] == 2


async def test_a_404_on_a_delete_is_a_delete_that_worked() -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        server.evict()
        assert (await client.delete()).status == 200
        assert (await client.call()).status == 404
        assert server.counts["initialize"] == 1
        assert await proxy.moved("heals_total") == {}


async def test_a_404_on_a_notification_is_acknowledged_and_the_next_call_answered() -> None:
    """A 4xx or 5xx on a notification ends the session of some clients (W4)."""
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        server.evict()
        assert (await client.post(LISTS_CHANGED)).status == 202
        assert outcome(await (await client.call()).messages()) == "run 1 done"
        assert server.found() == {"initialize": 2, "initialized": 2, "executions": 1}


async def test_a_session_that_is_lost_again_and_again_ends_in_an_answer() -> None:
    """The fresh session answers 404 too: no loop, and the client can begin anew."""
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        server.evict()
        server.accepts = lambda request: (
            404 if request.message.get("method") in ("tools/call", "ping") else None
        )
        answer = await client.call()
        body = await answer.read()
        assert answer.status == 404 or json.loads(body)["error"]["code"] in (-32050, -32051)
        assert server.executions == 0
        assert server.counts["tools/call"] <= 3  # the call, and two more (R28)
        assert server.counts["initialize"] <= 4
        server.accepts = lambda request: None
        client.session = None
        await client.open()
        assert outcome(await (await client.call()).messages()) == "run 1 done"


async def test_a_heal_shows_the_client_nothing_of_its_own_exchanges() -> None:
    """The `initialize` is the client's own; the answer to it is not told to the client."""
    server = McpServer(broken_once(), epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open({"roots": {"listChanged": True}})
        messages = await (await client.call()).messages()
        assert [one["id"] for one in messages if "id" in one] == [7]
        first, second = (one for one in server.requests if one.message.get("method") == "initialize")
        assert second.message["params"] == first.message["params"]
        assert second.message["id"] != first.message["id"]
        assert second.header("mcp-session-id") is None  # the old id is dropped before the handshake


# silently made anew under the same id


@pytest.mark.parametrize("epochs", [Epochs.META, Epochs.NEVER])
async def test_a_session_re_created_under_its_id_is_not_spliced_into_a_broken_call(epochs: Epochs) -> None:
    """200, right framing, the id echoed, events of another run: no proof of anything."""

    async def break_and_forget(leg: Leg) -> None:
        leg.server.evict()
        await leg.cut()

    async def replay(leg: Leg) -> None:
        await leg.open()
        for step in range(1, STEPS + 1):
            message = f"run 9 step {step}"
            params = {"progressToken": leg.run.token, "progress": step, "message": message}
            await leg.send("notifications/progress", params, id=f"e{step}")
        await leg.answer(id=f"e{STEPS + 1}")
        await leg.end()

    server = McpServer(broken_once(break_and_forget), replay, epochs=epochs)
    re_creating(server)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        messages = await answer.messages()
        assert answer.header("mcp-session-id") == client.session
        assert not is_spliced(messages)
        assert set(runs_told(messages)) == {0, 1, 2}
        reason = "epoch_mismatch" if epochs is Epochs.META else "no_epoch_captured"
        assert mark(answers(messages)[0])["reason"] == reason
        assert server.executions == 2


async def test_a_call_answered_out_of_a_re_created_session_is_counted() -> None:
    server = McpServer()
    re_creating(server)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        assert (await (await client.post(PING)).json())["result"]
        server.evict()
        assert (await (await client.post(PING)).json())["result"]
        assert (await proxy.page())["epoch_drift_total"] == 1


# replicas behind one address


async def test_replicas_that_take_turns_are_a_fault_of_affinity_and_no_lost_session() -> None:
    """Every second request meets the replica that does not know the session."""
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        turns = itertools.cycle([None, 404])
        server.accepts = lambda request: next(turns)
        statuses = []
        for _ in range(4):
            answer = await client.call()
            await answer.read()
            statuses.append(answer.status)
        assert server.counts["initialize"] == 1
        assert 200 in statuses
        assert set(statuses) <= {200, 404}
        assert (await proxy.page())["affinity_faults_total"] >= 1
        assert proxy.log("affinity faults")[0]["level"] == "warning"


async def test_an_initialized_that_meets_another_replica_costs_no_session() -> None:
    server = McpServer()
    wrong = iter([404])
    server.accepts = lambda request: (
        next(wrong, None) if request.message.get("method") == "notifications/initialized" else None
    )
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()  # asserts the 202
        assert outcome(await (await client.call()).messages()) == "run 1 done"
        assert server.counts["initialize"] == 1


# what a session holds


async def test_updates_arrive_after_a_heal_and_the_old_id_still_ends_the_session() -> None:
    """Subscriptions lived in the session that is gone."""
    server = McpServer()
    server.capabilities = {"tools": {}, "resources": {"subscribe": True}}
    update = asyncio.Event()

    def subscribers() -> set[str]:
        asked = [one for one in server.requests if one.message.get("method") == "resources/subscribe"]
        return {one.header("mcp-session-id") or "" for one in asked}

    async def updating(leg: Leg) -> None:
        await leg.open()
        await update.wait()
        if leg.session.id in subscribers():
            await leg.send("notifications/resources/updated", {"uri": "a:1"})
        await leg.peer.wait_gone()

    server.stand = updating
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        subscribe: Json = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "resources/subscribe",
            "params": {"uri": "a:1"},
        }
        await (await client.post(subscribe)).json()
        server.evict()
        assert outcome(await (await client.call()).messages()) == "run 1 done"
        (new,) = server.sessions
        listening = await client.get()
        update.set()
        assert (await listening.next_message())["params"]["uri"] == "a:1"
        assert new in subscribers()
        assert (await client.delete()).status == 204
        deleted = [one.header("mcp-session-id") for one in server.requests if one.method == "DELETE"]
        assert deleted == [new]


# ids that are no ids


@pytest.mark.parametrize(
    "wild",
    ["..", "../../etc/passwd", "x" * 5_000, "ü\x80", 'a"b', "a b", "%0d%0aX-A:%20b"],
    ids=["dots", "a path", "5 KB", "not ASCII", "a quote", "a blank", "escaped line ends"],
)
async def test_a_session_id_that_is_no_id_goes_to_the_server_and_nowhere_else(wild: str) -> None:
    server = McpServer()
    async with serving(server), guarding(server.port, access_log="all") as proxy:
        before = set(await proxy.page())
        async with Client(proxy.port) as client:
            client.session = wild
            request = f"Mcp-Session-Id: {wild}\r\nContent-Length: 2\r\n\r\n{{}}".encode("latin-1")
            answer = await client.send_raw(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n" + request)
            assert answer.status in (400, 404)
            seen = [one.header("mcp-session-id") for one in server.requests]
            assert seen in ([], [wild.strip()])
            resume = (
                f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nMcp-Session-Id: {wild}\r\nLast-Event-ID: 1\r\n\r\n"
            )
            assert (await client.send_raw(resume.encode("latin-1"))).status in (400, 404)
            assert server.counts["GET"] == 0
        assert set(await proxy.page()) == before  # no series of its own
        written = "\n".join(proxy.lines)
        assert wild not in written
        assert json.dumps(wild)[1:-1] not in written


async def test_a_session_id_cannot_bring_a_header_of_its_own() -> None:
    """A server's id with a bare line end: refused as no HTTP, and nothing of it reaches the client."""
    server = McpServer()
    body = b'{"jsonrpc":"2.0","id":0,"result":{}}'
    headers = [("content-type", "application/json"), ("mcp-session-id", "a\rX-Evil: 1")]
    server.override = answer_head(200, [*headers, ("content-length", str(len(body)))]) + body
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        answer = await client.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
        assert answer.header("x-evil") is None
        assert b"Evil" not in answer.head
