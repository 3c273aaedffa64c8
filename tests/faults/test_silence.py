"""Silence with an answer owed: probed, and never waited out for ever (R22)."""

from __future__ import annotations

import pytest

from tests.support.client import Client, outcome
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, Play, honest, serving, until

SILENCE = {"silence": "0.1s", "ping": "0.2s", "max_silence": "0.5s"}


async def one_call(port: int) -> object:
    async with Client(port) as client:
        await client.open()
        return outcome(await (await client.call()).messages())


async def silent(leg: Leg) -> None:
    await leg.peer.wait_gone()


async def silent_stream(leg: Leg) -> None:
    await leg.open()
    await leg.progress(1)
    await leg.peer.wait_gone()


@pytest.mark.parametrize("play", [silent, silent_stream])
async def test_a_silence_without_end_is_an_error(play: Play) -> None:
    """The server lives and answers pings, but never the call (R22)."""
    server = McpServer(play)
    async with serving(server), guarding(server.port, **SILENCE) as proxy:
        assert await one_call(proxy.port) == -32050
        assert server.counts["ping"] > 0
        assert server.executions == 1
        assert await proxy.resumes() == {"upstream fail upstream_silent": 1}


@pytest.mark.parametrize("play", [silent, silent_stream])
async def test_a_server_that_hangs_altogether_is_an_error(play: Play) -> None:
    """Not even pings are answered, and neither is the heal's `initialize`."""

    async def hang(leg: Leg) -> None:
        leg.server.accepts = lambda request: None
        leg.server.answers_pings = False
        await play(leg)

    server = McpServer(hang, silent)
    deadlines = {"resume_deadline": "0.2s", "resume_headers": "0.1s", "heal_deadline": "1s"}
    async with serving(server), guarding(server.port, **SILENCE, **deadlines) as proxy:
        assert await one_call(proxy.port) in (-32050, -32051)


async def test_a_quiet_tool_is_left_alone_as_long_as_its_session_answers() -> None:
    async def slow(leg: Leg) -> None:
        await leg.open()
        await until(lambda: leg.server.counts["ping"] >= 3)
        await leg.answer()
        await leg.end()

    server = McpServer(slow)
    async with serving(server), guarding(server.port, silence="0.05s", max_silence="20s") as proxy:
        assert await one_call(proxy.port) == "run 1 done"
        assert server.executions == 1
        assert await proxy.resumes() == {}


async def test_a_silence_behind_which_the_session_is_gone_is_healed() -> None:
    async def play(leg: Leg) -> None:
        if leg.run.number > 1:
            await honest(leg)
            return
        leg.server.evict()
        await silent_stream(leg)

    server = McpServer(play)
    async with serving(server), guarding(server.port, silence="0.1s") as proxy:
        assert await one_call(proxy.port) == "run 2 done"
        assert server.found() == {"initialize": 2, "initialized": 2, "executions": 2}
