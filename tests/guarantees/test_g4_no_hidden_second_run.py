"""G4 no hidden second run: what the policy forbids is never sent twice, and every second run is told."""

from __future__ import annotations

import pytest

from tests.support.client import Client, Json
from tests.support.proxy import Proxy, guarding
from tests.support.server import Epochs, Leg, McpServer, Play, honest, serving

UNANNOTATED: Json = {"name": "work", "inputSchema": {}}
READ_ONLY: Json = {"name": "work", "inputSchema": {}, "annotations": {"readOnlyHint": True}}
IDEMPOTENT: Json = {
    "name": "work",
    "inputSchema": {},
    "annotations": {"destructiveHint": True, "idempotentHint": True},
}
DESTRUCTIVE: Json = {"name": "work", "inputSchema": {}, "annotations": {"destructiveHint": True}}
CONTRADICTORY: Json = {
    "name": "work",
    "inputSchema": {},
    "annotations": {"readOnlyHint": True, "destructiveHint": True},
}
ANNOTATED_NEIGHBOUR: Json = {"name": "other", "inputSchema": {}, "annotations": {"readOnlyHint": True}}


async def broken_once(leg: Leg) -> None:
    if leg.run.number > 1:
        await honest(leg)
        return
    await leg.open()
    await leg.progress(1)
    await leg.cut()


async def broken_always(leg: Leg) -> None:
    await leg.open()
    await leg.progress(1)
    await leg.cut()


async def gone_always(leg: Leg) -> None:
    await leg.refuse(404)


def server_with(*tools: Json) -> McpServer:
    return McpServer(broken_once, epochs=Epochs.NEVER, tools=tools)


async def call_once(proxy: Proxy) -> Json:
    """The answer of one call."""
    async with Client(proxy.port) as client:
        await client.open()
        messages = await (await client.call()).messages()
    (answer,) = [one for one in messages if "method" not in one]
    return answer


SENT = [
    ("unless-destructive", (UNANNOTATED,)),
    ("unless-destructive", (READ_ONLY,)),
    ("unless-destructive", (IDEMPOTENT,)),
    ("hinted", (READ_ONLY,)),
    ("hinted", (IDEMPOTENT,)),
    ("always", (DESTRUCTIVE,)),
]
WITHHELD = [
    ("unless-destructive", (DESTRUCTIVE,)),
    ("unless-destructive", (CONTRADICTORY,)),
    ("unless-destructive", (UNANNOTATED, ANNOTATED_NEIGHBOUR)),  # R28
    ("unless-destructive", (ANNOTATED_NEIGHBOUR,)),  # nothing is known of the tool (R20)
    ("hinted", (UNANNOTATED,)),
    ("hinted", (CONTRADICTORY,)),
    ("hinted", (DESTRUCTIVE,)),
    ("reads", (READ_ONLY,)),
    ("never", (READ_ONLY,)),
]


@pytest.mark.parametrize(("reissue", "tools"), SENT)
async def test_what_the_policy_allows_is_sent_once_more_and_told(
    reissue: str, tools: tuple[Json, ...]
) -> None:
    server = server_with(*tools)
    async with serving(server), guarding(server.port, reissue=reissue) as proxy:
        answer = await call_once(proxy)
        assert answer["result"]["content"][0]["text"] == "run 2 done"
        assert answer["result"]["_meta"]["dev.epochgate/restart"]["reissued"] is True
        assert server.executions == 2
        assert await proxy.moved("reissues_total") == {"method=tools/call,outcome=sent": 1}
        assert [line["outcome"] for line in proxy.log("request re-issue")] == ["sent"]


@pytest.mark.parametrize(("reissue", "tools"), WITHHELD)
async def test_what_the_policy_forbids_is_never_sent_twice(reissue: str, tools: tuple[Json, ...]) -> None:
    server = server_with(*tools)
    async with serving(server), guarding(server.port, reissue=reissue) as proxy:
        answer = await call_once(proxy)
        assert answer["error"]["code"] == -32050
        assert answer["error"]["data"]["method"] == "tools/call"
        assert answer["error"]["data"]["reason"] == "no_epoch_captured"
        assert server.executions == 1
        assert await proxy.moved("reissues_total") == {"method=tools/call,outcome=withheld": 1}


async def test_a_tool_named_in_never_reissue_is_never_sent_twice() -> None:
    server = server_with(READ_ONLY)
    async with serving(server), guarding(server.port, never_reissue="work", reissue="always") as proxy:
        assert (await call_once(proxy))["error"]["code"] == -32050
        assert server.executions == 1


async def test_what_an_older_list_said_of_a_tool_still_counts() -> None:
    """R20: the new session's list is not needed to know that the tool destroys."""
    server = server_with(DESTRUCTIVE)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        await (await client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).json()
        messages = await (await client.call()).messages()
        assert messages[-1]["error"]["code"] == -32050
        assert server.found() == {"initialize": 1, "initialized": 1, "executions": 1}


@pytest.mark.parametrize(("most", "runs"), [("0", 1), ("1", 2), ("2", 3)])
async def test_an_outcome_that_stays_unknown_is_an_error_after_max_reissues(most: str, runs: int) -> None:
    server = McpServer(broken_always, epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port, max_reissues=most) as proxy:
        assert (await call_once(proxy))["error"]["code"] == -32050
        assert server.executions == runs
        assert (await proxy.moved("reissues_total"))["method=tools/call,outcome=exhausted"] == 1


async def test_a_call_that_never_ran_is_sent_twice_more_at_most() -> None:
    """R28: a 404 proves that it did not run, but a server that answers so for ever is not asked for ever."""
    server = McpServer(gone_always, tools=(DESTRUCTIVE,))
    server.accepts = lambda request: 404 if request.message.get("method") == "ping" else None
    async with serving(server), guarding(server.port, max_heals_per_minute="10") as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            answer = await client.call()
            body = await answer.read()
        assert answer.status == 404 or b"-3205" in body
        assert server.executions <= 3


async def test_a_request_larger_than_what_is_kept_is_never_sent_twice() -> None:
    server = server_with(READ_ONLY)
    async with serving(server), guarding(server.port, max_reissue_bytes="1KiB") as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            params = {"name": "work", "arguments": {"text": "x" * 2000}}
            answer = await client.post({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
            assert (await answer.messages())[-1]["error"]["code"] == -32050
        assert server.executions == 1


async def test_a_call_that_was_answered_a_question_is_never_sent_twice() -> None:
    """The user confirmed once; a second run would ask, and act, again (R28)."""

    async def play(leg: Leg) -> None:
        await leg.open()
        question = {"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {"message": "pay?"}}
        await leg.write(question)
        await leg.server.until(lambda: any("result" in one.message for one in leg.server.requests))
        await leg.cut()

    server = McpServer(play, epochs=Epochs.NEVER, tools=(READ_ONLY,))
    async with serving(server), guarding(server.port, reissue="always") as proxy:
        async with Client(proxy.port) as client:
            await client.open({"elicitation": {}})
            answer = await client.call()
            question = await answer.next_message()
            reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}
            assert (await client.post(reply)).status == 202
            assert (await answer.messages())[-1]["error"]["code"] == -32050
        assert server.executions == 1


async def test_a_cancelled_call_is_not_sent_again() -> None:
    """R29: POST, cancel, leg cut."""

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await leg.server.until(lambda: leg.server.counts["notifications/cancelled"] > 0)
        await leg.cut()

    server = McpServer(play, epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port, cancel_grace="0.1s") as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            answer = await client.call()
            await answer.next_message()
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            assert (await client.post(cancel)).status == 202
            assert await answer.messages() == []
        assert server.executions == 1
        assert server.counts["initialize"] == 1


async def test_a_broken_call_is_sent_again_only_when_its_client_is_back() -> None:
    """`reissue_when_away` is off: nobody waits for a second run."""
    async with serving(McpServer(broken_once, epochs=Epochs.NEVER)) as server:
        async with guarding(server.port) as proxy, Client(proxy.port) as client:
            server.play = _cut_when_told(server)
            await client.open()
            answer = await client.call()
            event = await answer.next_event()
            assert event is not None
            answer.reset()
            await _until_away(proxy)
            server.counts["cut"] += 1
            await server.until(lambda: bool(proxy.log("upstream failed")))
            assert server.executions == 1
            back = await client.get(event.id)
            assert (await back.messages())[-1]["result"]["content"][0]["text"] == "run 2 done"
        assert server.found() == {"initialize": 2, "initialized": 2, "executions": 2}


def _cut_when_told(server: McpServer) -> Play:
    async def play(leg: Leg) -> None:
        if leg.run.number > 1:
            await honest(leg)
            return
        await leg.open()
        await leg.progress(1)
        await server.until(lambda: server.counts["cut"] > 0)
        await leg.cut()

    return play


async def _until_away(proxy: Proxy) -> None:
    """Until the proxy has noticed that its client left: the exchange is counted."""
    while not any("tools/call" in name for name in await proxy.moved("requests_total")):
        pass


async def test_a_post_whose_connection_breaks_before_an_answer_is_not_repeated_by_the_transport() -> None:
    """Client libraries repeat idempotent requests by themselves; here each POST is written once."""

    async def play(leg: Leg) -> None:
        await leg.reset()

    server = McpServer(play, tools=(DESTRUCTIVE,))
    async with serving(server), guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            await (await client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).json()
            answer = await client.call()
            assert (await answer.messages())[-1]["error"]["code"] == -32050
        assert server.executions == 1


async def test_plain_and_modern_traffic_is_never_sent_twice() -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        server.accepts = lambda request: 404
        for method in ("GET", "PUT", "DELETE", "OPTIONS"):
            await client.send(method, "/elsewhere", [])
            assert server.counts[method] == 1
