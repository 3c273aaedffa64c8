"""A session that this process has not seen is looked for at each of several servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.shell.wire import Peer
from tests.support.client import Client, Truncated, call, outcome
from tests.support.legs import LAST_CHUNK, Leg, chunk, head, whole
from tests.support.proxy import Proxy, guarding
from tests.support.server import McpServer, serving

NO_METHOD = {"jsonrpc": "2.0", "id": 7, "error": {"code": -32601, "message": "Method not found"}}
NO_SESSION = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"},
}
JSON = [("content-type", "application/json")]


@dataclass
class Scene:
    """`client` has a session that it opened at `home`; `wrong` is asked for it first."""

    client: Client
    wrong: McpServer
    home: McpServer
    proxy: Proxy


@asynccontextmanager
async def searching() -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(McpServer())) for _ in range(2)]
        urls = ", ".join(f"http://127.0.0.1:{server.port}" for server in servers)
        proxy = await stack.enter_async_context(guarding(urls, unknown_sessions="pass"))
        upstreams = proxy.process._upstreams  # only here is known who is asked first
        home = servers[1]
        while True:
            client = await stack.enter_async_context(Client(home.port))
            await client.open()
            assert client.session is not None
            if upstreams.for_owner(("session", client.session.encode()))[0] is upstreams.listed[0]:
                break
        client.port = proxy.port
        yield Scene(client, servers[0], home, proxy)


def answers(server: McpServer, *parts: bytes) -> None:
    """The server says this to whatever comes, in so many parts."""

    async def say(peer: Peer) -> None:
        for part in parts:
            await peer.send(part)
            await asyncio.sleep(0)

    server.on_request = say


async def done(scene: Scene) -> None:
    assert str(outcome(await (await scene.client.call()).messages())).endswith("done")


async def test_one_that_says_in_its_own_words_that_it_does_not_know_the_session_is_passed_by() -> None:
    """Most servers in TypeScript answer 400 (W5)."""
    async with searching() as scene:
        answers(scene.wrong, whole(400, JSON, json.dumps(NO_SESSION).encode()))

        await done(scene)

        assert (scene.wrong.counts["tools/call"], scene.home.executions) == (1, 1)


async def test_a_404_that_comes_in_pieces_is_passed_by_all_the_same() -> None:
    async with searching() as scene:
        answers(
            scene.wrong,
            head(404, [("transfer-encoding", "chunked")]),
            chunk(b"no "),
            chunk(b"one"),
            LAST_CHUNK,
        )

        await done(scene)


async def test_a_404_that_speaks_of_the_method_is_the_answer_of_who_knows_the_session() -> None:
    """The other would say that there is no such session, and its client would give it up (R27)."""
    async with searching() as scene:
        body = json.dumps(NO_METHOD).encode()
        answers(scene.wrong, head(404, [*JSON, ("content-length", str(len(body)))]), body[:9], body[9:])

        answer = await scene.client.call()

        assert (answer.status, await answer.json()) == (404, NO_METHOD)
        assert scene.home.counts["tools/call"] == 0


@pytest.mark.parametrize("status", [400, 410])
async def test_a_refusal_of_another_kind_is_the_answer(status: int) -> None:
    async with searching() as scene:
        answers(scene.wrong, whole(status, JSON, b'{"error":"what?"}'))

        answer = await scene.client.call()

        assert (answer.status, await answer.read()) == (status, b'{"error":"what?"}')
        assert scene.home.counts["tools/call"] == 0


async def test_a_refusal_larger_than_any_that_speaks_of_a_session_is_judged_by_its_status() -> None:
    async with searching() as scene:
        long = b"x" * 300_000
        answers(scene.wrong, whole(400, [], long))
        answer = await scene.client.call()
        assert (answer.status, await answer.read()) == (400, long)

        answers(scene.wrong, whole(404, [], long))
        await done(scene)


async def test_a_refusal_that_breaks_off_is_no_answer_and_nobody_else_is_asked() -> None:
    async with searching() as scene:

        async def breaks(peer: Peer) -> None:
            await peer.send(head(404, [("content-length", "9")]) + b"no")
            await peer.close()

        scene.wrong.on_request = breaks
        with pytest.raises(Truncated):
            await (await scene.client.call()).read()
        assert scene.home.counts["tools/call"] == 0


async def test_streams_deletes_and_large_bodies_find_their_server_too() -> None:
    async with searching() as scene:

        async def play(leg: Leg) -> None:
            await leg.open()
            await leg.log("hello")
            await leg.end()

        scene.home.stand = play
        answer = await scene.client.get()
        assert [one["params"]["data"] for one in await answer.messages()] == ["run 0 hello"]
        request = call()
        request["params"]["arguments"] = {"text": "y" * 2_000_000}
        assert str(outcome(await (await scene.client.post(request)).messages())).endswith("done")
        assert scene.home.runs[0].request["params"]["arguments"] == request["params"]["arguments"]
        assert (await scene.client.delete()).status == 204
        assert scene.client.session not in scene.home.sessions


async def test_a_client_that_leaves_ends_the_search() -> None:
    async with searching() as scene:
        is_asked, is_left = asyncio.Event(), asyncio.Event()

        async def waits(peer: Peer) -> None:
            is_asked.set()
            await peer.wait_gone()
            is_left.set()

        scene.wrong.on_request = waits
        asking = asyncio.create_task(scene.client.call())
        await is_asked.wait()
        asking.cancel()
        for writer in scene.client.writers:
            writer.transport.abort()

        async with asyncio.timeout(5):
            await is_left.wait()
        assert scene.home.counts["tools/call"] == 0


async def test_requests_go_where_a_stream_of_the_same_client_is_open() -> None:
    """HTTP+SSE: also when another server would be asked now, since that one could not be reached once."""
    async with searching() as scene, Client(scene.proxy.port) as client:
        for server in (scene.wrong, scene.home):
            answers(server, whole(202))
        await client.send("GET", "/sse", [("Accept", "text/event-stream")])
        upstreams = scene.proxy.process._upstreams
        first, other = upstreams.by_name(b"127.0.0.1")
        first.is_reached = False
        assert upstreams.by_name(b"127.0.0.1") == [other, first]

        assert (await client.post(call(), target="/messages?x=1")).status == 202

        asked = {server.port: server.counts["tools/call"] for server in (scene.wrong, scene.home)}
        assert asked == {first.origin.port: 1, other.origin.port: 0}


async def test_who_could_not_be_asked_is_not_taken_for_the_one_who_knows() -> None:
    """Or each request would first wait for a server that is not there."""
    async with searching() as scene:
        await scene.home.stop()
        upstreams = scene.proxy.process._upstreams
        session = (scene.client.session or "").encode()
        with pytest.raises(Truncated):
            await scene.client.call()

        assert upstreams.for_owner(("session", session))[0] is upstreams.listed[0]
