"""A tool that declares itself destructive is never run twice under the default policy, whatever breaks.

Several calls share a session while both legs break at random bytes, clients leave and return late, sessions
are evicted and the server goes away and comes back. Executions are counted at the server.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import TypeVar

import pytest

from tests.conftest import IS_LONG
from tests.faults.fraying import Fraying, fraying
from tests.support.client import DEADLINE_S, PRIMED, Answer, Client, Json, Truncated, call
from tests.support.proxy import Proxy, guarding
from tests.support.server import Epochs, Ids, Leg, McpServer, Run, serving

FAULTS = 1_000 if IS_LONG else 120  # that happened, in all of the tests here together
CALLS = 3  # at once in one session
STEPS = 6
MOST_TURNS = 100  # of the loop: how long a server is away, and a client before it is back
ACCEPTING = 10  # turns until what was connected to the server was accepted there
BROKEN = (Truncated, asyncio.IncompleteReadError, ConnectionError)

TOOLS: list[Json] = [
    {"name": "order", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}},
    {
        "name": "wipe",
        "inputSchema": {"type": "object"},
        "annotations": {"destructiveHint": True, "idempotentHint": False, "readOnlyHint": False},
    },
    {"name": "report", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]
DESTRUCTIVE = ("order", "wipe")
LIST: Json = {"jsonrpc": "2.0", "id": "list", "method": "tools/list"}

T = TypeVar("T")


class Trouble:
    """What goes wrong beside the legs: cuts in the script, evictions, restarts of the server."""

    def __init__(self, server: McpServer, upstream: Fraying) -> None:
        self.random = Random()
        self.left = 0
        self.count = 0
        self._server, self._upstream = server, upstream
        self._restarts: asyncio.Queue[int] = asyncio.Queue()

    async def restart_when_told(self) -> None:
        """For ever: the server goes, its port is refused for a while, and it is back without sessions."""
        while True:
            turns = await self._restarts.get()
            self._upstream.close()
            await turn(ACCEPTING)
            await self._server.stop()
            await turn(turns)
            await self._server.start()
            self._upstream.open()
            self._restarts.task_done()

    async def wait_over(self) -> None:
        """Return when the server is there for good."""
        await self._restarts.join()

    async def strike(self, leg: Leg) -> None:
        """Perhaps one of them."""
        if not self.left or self.random.random() >= 0.1:
            return
        self.left -= 1
        self.count += 1
        match self.random.choice(("evict", "restart", "cut", "reset")):
            case "evict":
                self._server.evict()
            case "restart":
                self._restarts.put_nowait(self.random.randint(0, MOST_TURNS))
            case "cut":
                await leg.cut()
            case "reset":
                await leg.reset()

    async def play(self, leg: Leg) -> None:
        await leg.open()
        await self._go_on(leg, 1)

    async def replay(self, leg: Leg) -> None:
        await leg.open()
        await leg.again(leg.last_id)
        done = sum(b"notifications/progress" in raw for _, raw in leg.run.events)
        if any(b'"result"' in raw for _, raw in leg.run.events):
            await leg.end()
        else:
            await self._go_on(leg, done + 1)

    async def _go_on(self, leg: Leg, first: int) -> None:
        for step in range(first, STEPS + 1):
            await leg.progress(step)
            await turn(self.random.randint(0, 5))
            await self.strike(leg)
        await leg.answer()
        await leg.end()


class Caller:
    """A client that makes one call, leaves it now and then, and comes back."""

    def __init__(self, client: Client, number: int, tool: str, random: Random) -> None:
        self.client, self.number, self.tool, self.random = client, number, tool, random
        self.answer: Json | None = None  # unless it broke before it had a cursor, or its session is gone
        self._may_leave = random.randint(0, 2)
        self._cursor: str | None = None

    async def listen(self) -> None:
        """Call, and come back until there is an answer."""
        message = call(self.number, self.tool)
        message["params"]["arguments"] = {"call": self.number}
        answer = await self._try(self.client.post(message))
        while answer is None or answer.status == 200:
            if answer is not None:
                self.answer = await self._try(self._read(answer))
            if self.answer is not None or self._cursor is None:
                return
            await turn(self.random.randint(0, MOST_TURNS))
            answer = await self._try(self.client.get(self._cursor))
        assert answer.status == 404

    async def _try(self, doing: Awaitable[T]) -> T | None:
        with suppress(*BROKEN):
            return await doing
        return None

    async def _read(self, answer: Answer) -> Json | None:
        """The answer to the call, or None if the client left."""
        if not answer.is_stream:
            return await answer.json()
        while (event := await answer.next_event()) is not None:
            self._cursor = event.id or self._cursor
            if event.is_message and "method" not in event.message:
                return event.message
            if self._may_leave and self._cursor and self.random.random() < 0.2:
                self._may_leave -= 1
                answer.reset()
                return None
        raise AssertionError("a stream ended without its answer")


async def turn(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


class Field:
    """The server, the proxy and the two legs between the callers and the tools."""

    def __init__(self, server: McpServer, up: Fraying, down: Fraying) -> None:
        self._server, self._up, self._down = server, up, down
        self.trouble = Trouble(server, up)
        server.play, server.replay = self.trouble.play, self.trouble.replay

    @property
    def faults(self) -> int:
        """What has gone wrong so far, besides clients that left by themselves."""
        return self._up.breaks + self._down.breaks + self.trouble.count

    async def play(self, seed: int) -> list[Caller]:
        """A few calls at once in a new session, under the faults of this seed."""
        random = Random(seed)
        self._up.random = self._down.random = self.trouble.random = random
        self._server.ids = random.choice(list(Ids))
        async with asyncio.timeout(DEADLINE_S), Client(self._down.port, version=PRIMED) as client:
            await client.open()
            if random.random() < 0.5:  # else the proxy has to ask for the annotations itself
                await (await client.post(LIST)).json()
            numbers = range(seed * CALLS, seed * CALLS + CALLS)
            callers = [Caller(client, one, random.choice(TOOLS)["name"], random) for one in numbers]
            self._up.left, self._down.left, self.trouble.left = (random.randint(0, 2) for _ in range(3))
            await asyncio.gather(*(caller.listen() for caller in callers))
            self._up.left = self._down.left = self.trouble.left = 0
            await self.trouble.wait_over()
        return callers


@asynccontextmanager
async def a_field(server: McpServer) -> AsyncIterator[tuple[Field, Proxy]]:
    settings = {"resume_deadline": "1s", "resume_headers": "0.5s", "heal_deadline": "5s"}
    async with (
        serving(server),
        fraying(server.port) as up,
        guarding(up.port, max_sessions="100000", **settings) as proxy,
        fraying(proxy.port) as down,
    ):
        field = Field(server, up, down)
        restarting = asyncio.create_task(field.trouble.restart_when_told())
        yield field, proxy
        restarting.cancel()


def call_of(run: Run) -> int:
    number: int = run.request["params"]["arguments"]["call"]
    return number


def check(caller: Caller, runs: list[Run]) -> None:
    """The answer, if there is one, is the call's own or says that the outcome is unknown."""
    match caller.answer:
        case {"error": {"code": code}}:
            assert code in (-32050, -32051)
        case {"result": {"content": [{"text": text}]}}:
            assert call_of(runs[int(text.split()[1]) - 1]) == caller.number
        case other:
            assert other is None


@pytest.mark.parametrize("epochs", list(Epochs))
async def test_a_destructive_tool_never_runs_twice(epochs: Epochs) -> None:
    server = McpServer(epochs=epochs, tools=TOOLS)
    seed = 0
    async with a_field(server) as (field, proxy):
        while field.faults < FAULTS / len(Epochs):
            for caller in await field.play(seed):
                check(caller, server.runs)
            seed += 1
        sent_again = await proxy.moved("reissues_total")
    executions = Counter((run.name, call_of(run)) for run in server.runs)
    assert [call for call, count in executions.items() if count > 1 and call[0] in DESTRUCTIVE] == []
    assert sent_again["method=tools/call,outcome=withheld"] > 0, "no fault met a call that might have run"
