"""Several servers that count their sessions, many clients, and everything that goes wrong, at random.

Whatever moves where: what a client is told is of its own call, an answer reaches the session that asked,
each call is answered once, and in the end nobody counts anywhere.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import pytest

from tests.conftest import IS_LONG
from tests.support.client import PRIMED, Answer, Client, Json, initialize
from tests.support.legs import Cut, Leg, Request, until
from tests.support.proxy import Proxy, guarding
from tests.support.server import Epochs, McpServer, serving

ROUNDS = 6 if IS_LONG else 1
CLIENTS = 8
CALLS = 4
SOON = {"resume_deadline": "300ms", "resume_headers": "200ms", "heal_deadline": "5s", "ready_grace": "6s"}


@dataclass
class World:
    """`asked` are the sessions that asked under a call's key; `astray` are answers that came to others."""

    random: Random
    servers: list[McpServer] = field(default_factory=list)
    refusing: set[int] = field(default_factory=set)
    away: set[int] = field(default_factory=set)  # they break off whatever reaches them
    asked: dict[str, tuple[int, str]] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    astray: list[Json] = field(default_factory=list)
    keys: itertools.count[int] = field(default_factory=lambda: itertools.count(100))

    def add(self, epochs: Epochs) -> McpServer:
        server = McpServer(self.play, epochs=epochs)
        numbers = itertools.count(1)
        server.make_id = lambda: str(next(numbers))
        server.accepts = lambda request: self.accept(server, request)
        self.servers.append(server)
        return server

    def accept(self, server: McpServer, request: Request) -> int | None:
        if server.port in self.away:
            raise Cut
        if "result" in request.message:
            key = request.message["result"]["key"]
            if self.asked.get(key) != (server.port, request.header("mcp-session-id")):
                self.astray.append(request.message)
            self.answered.add(key)
        is_new = request.message.get("method") == "initialize"
        return 503 if is_new and server.port in self.refusing else None

    async def play(self, leg: Leg) -> None:
        key = leg.run.request["params"]["arguments"]["key"]
        await leg.open()
        await leg.send("notifications/progress", {"progressToken": leg.run.token, "message": key})
        match self.random.randrange(6):
            case 0:
                await leg.cut()
            case 1:
                await leg.reset()
            case 2:
                self.asked[key] = leg.server.port, leg.session.id
                await leg.write(_question(key))
                for _ in range(2_000):
                    await asyncio.sleep(0)
                    if key in self.answered:
                        break
            case _:
                pass
        await leg.write({"jsonrpc": "2.0", "id": leg.run.id, "result": leg.tagged(_text(key))})
        await leg.end()

    def disturb(self) -> None:
        server = self.random.choice(self.servers)
        match self.random.randrange(6):
            case 0 if server is not self.servers[0]:
                self.away ^= {server.port}
            case 1:
                server.evict()
            case 2 | 3:
                self.refusing ^= {server.port}
                if len(self.refusing) == len(self.servers):
                    self.refusing.clear()
            case _:
                pass

    def mend(self) -> None:
        """Every server is there and takes sessions: a round in which nobody gets one would be the last."""
        self.refusing.clear()
        self.away.clear()


def _question(key: str) -> Json:
    return {"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {"message": key}}


def _text(key: str) -> Json:
    return {"content": [{"type": "text", "text": key}]}


async def work(world: World, proxy: Proxy) -> None:
    """A client's life: calls, two at a time, with something that goes wrong between them."""
    async with Client(proxy.port, version=PRIMED) as client:
        opened = await client.post(_INITIALIZE)
        if opened.status != 200:
            return  # a server that refuses
        client.session = opened.header("mcp-session-id")
        message = (await opened.messages())[-1]
        if "result" not in message:
            return  # none was there
        await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for _ in range(CALLS):
            await asyncio.gather(*[call(world, client, next(world.keys)) for _ in range(2)])
            world.disturb()
        await client.delete()


async def call(world: World, client: Client, number: int) -> None:
    key = f"k{number}"
    params = {"name": "work", "arguments": {"key": key}, "_meta": {"progressToken": key}}
    answer = await client.post({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    if answer.status == 404:
        return  # lost: healed too often within a minute
    assert answer.status == 200
    answers = []
    for message in await _listen(client, answer, key):
        match message.get("method"):
            case None:
                answers.append(message)
            case "notifications/progress":
                told = message["params"]
                assert (told["progressToken"], told["message"]) == (key, key)
            case method:
                assert method in ("notifications/message", "elicitation/create")
    (last,) = answers
    assert last["id"] == number
    if "result" in last:
        assert last["result"]["content"] == _text(key)["content"]
    else:
        assert last["error"]["code"] in (-32050, -32051)


async def _listen(client: Client, answer: Answer, key: str) -> list[Json]:
    """Every message; questions are answered as they come."""
    if not answer.is_stream:
        return [await answer.json()]
    messages = []
    async for event in answer.events():
        if not event.is_message:
            continue
        messages.append(event.message)
        if messages[-1].get("method") == "elicitation/create":
            assert messages[-1]["params"]["message"] == key
            reply = {"jsonrpc": "2.0", "id": messages[-1]["id"], "result": {"action": "accept", "key": key}}
            assert (await client.post(reply)).status in (202, 404)
    return messages


_INITIALIZE: Json = initialize(PRIMED, {"elicitation": {}})


@asynccontextmanager
async def several(world: World, epochs: Epochs) -> AsyncIterator[Proxy]:
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(serving(world.add(epochs)))
        urls = ", ".join(f"http://127.0.0.1:{server.port}" for server in world.servers)
        yield await stack.enter_async_context(guarding(urls, **SOON))


@pytest.mark.parametrize("epochs", list(Epochs))
async def test_nobody_is_told_what_is_another_s_wherever_sessions_move(epochs: Epochs) -> None:
    world = World(Random(str(epochs)))
    async with several(world, epochs) as proxy:
        for _ in range(ROUNDS):
            world.mend()
            await asyncio.gather(*[work(world, proxy) for _ in range(CLIENTS)])

        assert world.astray == []
        assert sum(server.executions for server in world.servers) > ROUNDS * CLIENTS
        upstreams = proxy.process._upstreams
        await until(lambda: [upstream.load for upstream in upstreams] == [0, 0, 0])
