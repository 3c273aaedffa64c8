"""One client session whose server sessions live on two servers: all goes to the one it is meant for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.support.client import PRIMED, Answer, Client, Json, outcome
from tests.support.legs import Epochs, Leg, Request
from tests.support.proxy import Proxy, guarding
from tests.support.server import McpServer, serving

ELICITS: Json = {"elicitation": {}}
ASKS: Json = {"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {"message": "?"}}


@dataclass
class Moved:
    """A client whose call runs on the server where it began, and waits, while the session has moved."""

    client: Client
    running: Answer
    question: Json
    first: McpServer
    second: McpServer
    proxy: Proxy
    release: asyncio.Event


async def _resets(leg: Leg) -> None:
    await leg.open()
    await leg.reset()


@asynccontextmanager
async def moved(ids: tuple[str, str]) -> AsyncIterator[Moved]:
    """The first server still serves what runs there, and takes no new session."""
    release = asyncio.Event()

    async def asks(leg: Leg) -> None:
        await leg.open()
        await leg.write(
            {"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {"message": "?"}}
        )
        await release.wait()
        await leg.answer()
        await leg.end()

    first, second = McpServer(asks, epochs=Epochs.NEVER), McpServer(epochs=Epochs.NEVER)
    for server, session_id in zip((first, second), ids, strict=True):
        server.make_id = iter([session_id]).__next__
    async with serving(first), serving(second):
        urls = f"http://127.0.0.1:{first.port}, http://127.0.0.1:{second.port}"
        async with guarding(urls) as proxy, Client(proxy.port, version=PRIMED) as client:
            await client.open(ELICITS)
            assert (first.counts["initialize"], second.counts["initialize"]) == (1, 0)
            running = await client.call(1)
            question = await running.next_message()
            first.play = _resets
            first.accepts = _no_new_session
            assert str(outcome(await (await client.call()).messages())).endswith("done")
            assert second.executions == 1
            yield Moved(client, running, question, first, second, proxy, release)


def _no_new_session(request: Request) -> int | None:
    return 503 if request.message.get("method") == "initialize" else None


def sent(server: McpServer, method: str) -> list[str | None]:
    """The sessions for which the server got this."""
    return [
        request.header("mcp-session-id")
        for request in server.requests
        if request.message.get("method", request.method) == method
    ]


def answers(server: McpServer) -> list[object]:
    """The questions to which the server got an answer."""
    return [r.message["id"] for r in server.requests if "result" in r.message]


both_ways = pytest.mark.parametrize("ids", [("a1", "b1"), ("1", "1")], ids=["own ids", "equal ids"])


@both_ways
async def test_an_answer_goes_to_the_server_that_asked(ids: tuple[str, str]) -> None:
    """The other may have asked under the same number, or make a session of whatever it is named (R19)."""
    async with moved(ids) as scene:
        result = {"jsonrpc": "2.0", "id": scene.question["id"], "result": {"action": "accept"}}
        assert (await scene.client.post(result)).status == 202

        assert (answers(scene.first), answers(scene.second)) == ([0], [])
        scene.release.set()
        (answer,) = [one for one in await scene.running.messages() if "result" in one]
        assert answer["result"]["content"][0]["text"] == "run 1 done"


@both_ways
async def test_a_cancel_goes_to_the_server_that_runs_the_call(ids: tuple[str, str]) -> None:
    async with moved(ids) as scene:
        before = sent(scene.second, "notifications/cancelled")
        params = {"requestId": 1}
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert (await scene.client.post(cancel)).status == 202

        (told, *_) = [
            one.message["params"]["requestId"]
            for one in reversed(scene.first.requests)
            if one.message.get("method") == "notifications/cancelled"
        ]
        assert told == scene.first.runs[0].id
        assert sent(scene.second, "notifications/cancelled") == before


@both_ways
async def test_a_session_that_ends_is_ended_on_both(ids: tuple[str, str]) -> None:
    async with moved(ids) as scene:
        assert (await scene.client.delete()).status in (200, 204)

        await scene.first.until(lambda: bool(sent(scene.first, "DELETE")))
        assert (sent(scene.first, "DELETE"), sent(scene.second, "DELETE")) == ([ids[0]], [ids[1]])


@both_ways
async def test_the_session_left_behind_is_ended_when_its_last_call_is(ids: tuple[str, str]) -> None:
    async with moved(ids) as scene:
        scene.release.set()
        await scene.running.messages()

        await scene.first.until(lambda: bool(sent(scene.first, "DELETE")))
        assert (sent(scene.first, "DELETE"), sent(scene.second, "DELETE")) == ([ids[0]], [])
        assert str(outcome(await (await scene.client.call()).messages())).endswith("done")
        assert scene.second.executions == 2
