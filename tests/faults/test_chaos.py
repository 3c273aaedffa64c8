"""Everything at once, at random: both legs cut, sessions evicted, the server restarted, over real sockets.

Each run is one call of one client, reproducible by its seed as far as the kernel's timing allows: one
answer, from one execution, nothing repeated, nothing lost, no wait without end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest

from tests.conftest import IS_LONG
from tests.support.client import DEADLINE_S, PRIMED, UNPRIMED, Answer, Client, Json, Truncated
from tests.support.proxy import guarding
from tests.support.server import Epochs, Ids, Leg, McpServer, serving

RUNS = 1_000 if IS_LONG else 100
STEPS = 12


class Mischief:
    """What a server does at each of its turns; it calms down, so that every call can end."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._left = random.randint(0, 3)

    async def turn(self, leg: Leg) -> None:
        """Perhaps break the leg, and perhaps more."""
        if self._left and self._random.random() < 0.15:
            self._left -= 1
            if self._random.random() < 0.4:
                leg.server.evict()
            await self._random.choice((leg.cut, leg.reset, leg.end))()

    async def play(self, leg: Leg) -> None:
        await leg.open()
        await self._go_on(leg, 1)

    async def replay(self, leg: Leg) -> None:
        """Resume honestly; sometimes as a lazy server that made the session again would."""
        if self._left and self._random.random() < 0.3:
            self._left -= 1
            await leg.refuse(self._random.choice((404, 400, 405, 503, 409)))
            return
        await leg.open()
        await leg.again(leg.last_id)
        done = sum(b"notifications/progress" in raw for _, raw in leg.run.events)
        if any(b'"result"' in raw for _, raw in leg.run.events):
            await leg.end()
            return
        await self._go_on(leg, done + 1)

    async def _go_on(self, leg: Leg, first: int) -> None:
        ended = len(leg.run.events)
        for step in range(first, STEPS + 1):
            await leg.progress(step)
            await asyncio.sleep(0)
            before = self._left
            await self.turn(leg)
            if self._left != before:
                return  # ended cleanly
        assert len(leg.run.events) >= ended
        await leg.answer()
        await leg.end()


async def listen(client: Client, random: Random) -> list[Json]:
    """A call whose client leaves now and then and returns with its cursor."""
    cursor: str | None = None
    messages: list[Json] = []
    answer: Answer = await client.call()
    leaves = random.randint(0, 3)
    while True:
        assert answer.status == 200
        with suppress(Truncated):
            while (event := await answer.next_event()) is not None:
                cursor = event.id or cursor
                if event.is_message:
                    messages.append(event.message)
                if messages and "method" not in messages[-1]:
                    return messages
                if leaves and cursor and random.random() < 0.2:
                    leaves -= 1
                    answer.reset()
                    break
        assert cursor is not None, "cut without an answer and without a cursor"
        answer = await client.get(cursor)


def check(messages: list[Json], server: McpServer) -> None:
    answers = [one for one in messages if "method" not in one]
    assert len(answers) == 1
    assert answers[0]["id"] == 7
    runs: list[tuple[int, int]] = []
    notices: list[int] = []  # how many of the runs' messages stood before each
    for one in messages:
        if one.get("method") == "notifications/progress":
            _, run, _, step = one["params"]["message"].split()
            runs.append((int(run), int(step)))
        elif one.get("method") == "notifications/message":
            notices.append(len(runs))
    behind = {run for run, _ in runs[notices[-1] if notices else 0 :]}
    if "result" in answers[0]:
        behind.add(int(answers[0]["result"]["content"][0]["text"].split()[1]))
    else:
        assert answers[0]["error"]["code"] in (-32050, -32051)
    assert len(behind) <= 1, "a splice"
    steps = [step for _, step in runs]
    assert steps == sorted(set(steps)), "progress went back, or came twice"
    if "result" in answers[0] and not notices:
        assert steps == list(range(1, STEPS + 1)), "something was lost"
    assert server.executions <= 2 + 2  # once after an unknown outcome, twice where it did not run


@pytest.mark.parametrize("epochs", list(Epochs))
@pytest.mark.parametrize("version", [PRIMED, UNPRIMED])
async def test_a_call_survives_whatever_happens(epochs: Epochs, version: str) -> None:
    async with serving(McpServer(epochs=epochs)) as server:
        settings = {
            "resume_deadline": "1s",
            "resume_headers": "0.5s",
            "heal_deadline": "5s",
            "max_sessions": "100000",
        }
        async with guarding(server.port, **settings) as proxy:
            for seed in range(RUNS // 5):
                random = Random(f"{seed} {epochs} {version}")
                server.ids = random.choice(list(Ids))
                mischief = Mischief(random)
                server.play, server.replay = mischief.play, mischief.replay
                server.runs.clear()
                async with asyncio.timeout(DEADLINE_S), Client(proxy.port, version=version) as client:
                    await client.open()
                    messages = await listen(client, random)
                try:
                    check(messages, server)
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}: {messages}") from error
