"""Two sessions of the official Python SDK's server that share one event store, as in its own example.

The SDK keeps the events of a request under `str(id)`, whatever session it belongs to, and clients count
their ids from 0: the answer of session B lands in the stream that session A resumes, under A's session id.
Stamps part them: no two requests that come through the proxy have the same id on the server.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass

import pytest

from tests.conftest import IS_LONG
from tests.interop.cutter import Cutter
from tests.interop.stage import PYTHON_KINDS, Stage
from tests.interop.steered import Steered

of_both = pytest.mark.parametrize("kind", PYTHON_KINDS)

KIND = "python-1.30"
RUNS = {KIND: 100, "python-2.3": 25} if IS_LONG else {KIND: 10, "python-2.3": 4}
SHARED = ("--events", "--retry", "20")  # clients come back at once
HELD_AT = 2
OUTCOME_UNKNOWN = -32050


@dataclass
class Pair:
    """The clients A, whose leg breaks, and B, of one server."""

    server: Steered
    a: Steered
    b: Steered
    cutter: Cutter
    runs: int
    awaits_resume: bool = True  # of the leg that is cut, before A's call may end

    async def play(self) -> list[str]:
        """The outcomes for A of all runs."""
        return [await self._run(number) for number in range(self.runs)]

    async def _run(self, number: int) -> str:
        """Both make the call with the same id, each in a new session, and A's leg breaks under it.

        In every other run B is answered only after the break, and before A's resume arrives.
        """
        a, b = f"a{number}", f"b{number}"
        resumed = self.cutter.resumed
        await self._begin(number)
        await self._call(self.a, a, hold_at=HELD_AT)
        await self.a.wait_told("progress", call=a, progress=float(HELD_AT))
        is_b_first = number % 2 == 0
        if is_b_first:
            await self._answer(b)
        with nullcontext() if is_b_first else self.cutter.holding_resumes():
            assert self.cutter.cut(b'"%s"' % a.encode()) == 1
            if not is_b_first:
                await self._answer(b)
        if self.awaits_resume:
            await self.cutter.wait_resumed(resumed + 1)
        await self.server.order("release", label=a)
        return await self._outcome(self.a, a)

    async def _begin(self, number: int) -> None:
        for client in (self.a, self.b):
            await client.order("renew")
            await client.order("initialize", session=str(number))
        for client in (self.a, self.b):
            await client.wait_told("initialized", session=str(number))

    async def _call(self, client: Steered, label: str, *, hold_at: int) -> None:
        arguments = {"steps": 3, "hold_at": hold_at, "label": label}
        await client.order("call", call=label, tool="count", arguments=arguments)

    async def _answer(self, label: str) -> None:
        await self._call(self.b, label, hold_at=0)
        assert await self._outcome(self.b, label) == "own"

    async def _outcome(self, client: Steered, label: str) -> str:
        """Whose result the client was given for its call, or the code of the error."""
        answer = await client.wait_answer(label)
        if answer["event"] == "error":
            return str(answer["code"])
        run = json.loads(answer["text"])["run"]
        executed = await self.server.wait_told("execution", run=run)
        return "own" if executed["label"] == label else "foreign"

    def executions(self) -> Counter[int]:
        """How many calls of A were executed so often."""
        labels = [f"a{number}" for number in range(self.runs)]
        return Counter(len(self.server.told("execution", label=label)) for label in labels)


async def _pair(stage: Stage, kind: str, server: Steered, cutter: Cutter, a: int, b: int) -> Pair:
    return Pair(server, await stage.client(kind, a), await stage.client(kind, b), cutter, RUNS[kind])


@of_both
async def test_directly_a_is_given_the_answer_of_b(stage: Stage, kind: str) -> None:
    """The fault. It also shows that the tests below can fail."""
    server, port = await stage.server(kind, *SHARED)
    cutter = await stage.cutter(port)
    pair = await _pair(stage, kind, server, cutter, cutter.port, port)

    assert await pair.play() == ["foreign"] * pair.runs
    assert pair.executions() == {1: pair.runs}


@of_both
async def test_a_cut_of_the_client_leg(stage: Stage, kind: str) -> None:
    server, port = await stage.server(kind, *SHARED)
    proxy = await stage.proxy(port)
    cutter = await stage.cutter(proxy.port)
    pair = await _pair(stage, kind, server, cutter, cutter.port, proxy.port)

    assert await pair.play() == ["own"] * pair.runs
    assert pair.executions() == {1: pair.runs}


@of_both
async def test_a_cut_of_the_upstream_leg_that_the_proxy_resumes(stage: Stage, kind: str) -> None:
    """The epoch does not help here: B's events in A's resumed stream would state A's epoch."""
    server, port = await stage.server(kind, *SHARED, "--epoch")
    cutter = await stage.cutter(port)
    proxy = await stage.proxy(cutter.port)
    pair = await _pair(stage, kind, server, cutter, proxy.port, proxy.port)

    assert await pair.play() == ["own"] * pair.runs
    assert pair.executions() == {1: pair.runs}
    labels = 'leg="upstream",reason="epoch_match",stream="request",verdict="resume"'
    assert proxy.moved("epochgate_resumes_total")[labels] >= pair.runs


@of_both
async def test_a_cut_of_the_upstream_leg_that_the_proxy_restarts(stage: Stage, kind: str) -> None:
    """Nothing proves a resume, so A's call is run again, once: its tool says nothing against it."""
    server, port = await stage.server(kind, *SHARED)
    cutter = await stage.cutter(port)
    proxy = await stage.proxy(cutter.port)
    pair = await _pair(stage, kind, server, cutter, proxy.port, proxy.port)
    pair.awaits_resume = False

    assert await pair.play() == ["own"] * pair.runs
    assert pair.executions() == {2: pair.runs}


async def test_a_cut_of_the_upstream_leg_under_a_call_that_may_not_run_twice(stage: Stage) -> None:
    server, port = await stage.server(KIND, *SHARED)
    cutter = await stage.cutter(port)
    proxy = await stage.proxy(cutter.port, "--reissue", "never")
    pair = await _pair(stage, KIND, server, cutter, proxy.port, proxy.port)
    pair.awaits_resume = False

    assert await pair.play() == [str(OUTCOME_UNKNOWN)] * pair.runs
    assert pair.executions() == {1: pair.runs}


async def test_without_stamps_a_cut_of_the_client_leg(stage: Stage) -> None:
    """The server's leg never broke, so nothing is resumed there."""
    server, port = await stage.server(KIND, *SHARED, "--epoch")
    proxy = await stage.proxy(port, "--stamp", "off")
    cutter = await stage.cutter(proxy.port)
    pair = await _pair(stage, KIND, server, cutter, cutter.port, proxy.port)

    assert await pair.play() == ["own"] * pair.runs
    assert pair.executions() == {1: pair.runs}


async def test_without_stamps_a_cut_of_the_upstream_leg_is_a_loss(stage: Stage) -> None:
    """Without stamps a stream is neither resumed nor sent again, since the ids would meet."""
    server, port = await stage.server(KIND, *SHARED, "--epoch")
    cutter = await stage.cutter(port)
    proxy = await stage.proxy(cutter.port, "--stamp", "off")
    pair = await _pair(stage, KIND, server, cutter, proxy.port, proxy.port)
    pair.awaits_resume = False

    assert await pair.play() == [str(OUTCOME_UNKNOWN)] * pair.runs
    assert pair.executions() == {1: pair.runs}
