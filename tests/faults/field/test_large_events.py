"""Events above `max_event_bytes` on legs that never broke: passed on as they come, and memory stays flat."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.conftest import IS_LONG
from tests.guarantees.test_g8_bounded import FLOOD_CAP, memory
from tests.shell.running import running_proxy
from tests.support.client import PRIMED, Client, Truncated, outcome
from tests.support.proxy import guarding
from tests.support.server import Ids, Leg, McpServer, serving

KIB = 1024
MIB = 1024 * KIB
LIMIT = "64KiB"
TEXT = "x" * 300 * KIB


def parts_of_a_large_log(at: int) -> tuple[bytes, bytes]:
    params = {"level": "info", "data": TEXT}
    message = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    raw = b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"
    return raw[:at], raw[at:]


@pytest.mark.parametrize("at", [100, 100 * KIB, 250 * KIB])
async def test_no_heartbeat_lands_inside_an_event_that_is_passed_on(at: int) -> None:
    """The client has the beginning long before the end is made; nothing stands between them."""
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        first, second = parts_of_a_large_log(at)
        await leg.raw(first)
        await go_on.wait()
        await leg.raw(second)
        await leg.answer()
        await leg.end()

    server = McpServer(play, ids=Ids.NONE)
    async with (
        serving(server),
        guarding(server.port, max_event_bytes=LIMIT, keepalive="0.02s") as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        answer = await client.call()
        await answer.next_message()
        for _ in range(10):  # time for several heartbeats
            await proxy.page()
        go_on.set()
        messages = await answer.messages()
        assert messages[0]["params"]["data"] == TEXT
        assert outcome(messages) == "run 1 done"
        assert server.executions == 1


@pytest.mark.parametrize("is_id_last", [False, True])
async def test_a_large_answer_comes_under_the_clients_own_id(is_id_last: bool) -> None:
    async def play(leg: Leg) -> None:
        await leg.open()
        first, last = {"id": leg.run.id}, {"result": {"content": [{"type": "text", "text": TEXT}]}}
        message = {"jsonrpc": "2.0", **last, **first} if is_id_last else {"jsonrpc": "2.0", **first, **last}
        raw = b"data: " + json.dumps(message).encode() + b"\n\n"
        for at in range(0, len(raw), 10 * KIB):
            await leg.raw(raw[at : at + 10 * KIB])
        await leg.end()

    server = McpServer(play)
    async with (
        serving(server),
        guarding(server.port, max_event_bytes=LIMIT) as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        assert outcome(await (await client.call()).messages()) == TEXT
        assert server.executions == 1


async def test_a_large_event_that_breaks_inside_never_looks_whole_and_its_call_is_told() -> None:
    has_begun = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await leg.raw(parts_of_a_large_log(200 * KIB)[0])
        await has_begun.wait()
        await leg.cut()

    server = McpServer(play)
    async with (
        serving(server),
        guarding(server.port, max_event_bytes=LIMIT) as proxy,
        Client(proxy.port, version=PRIMED) as client,
    ):
        await client.open()
        answer = await client.call()
        events = [await answer.next_event() for _ in range(2)]
        assert events[1] is not None
        await answer.read_exactly(100 * KIB)
        has_begun.set()
        with pytest.raises(Truncated):
            await answer.read()
        assert outcome(await (await client.get(events[1].id)).messages()) == -32050
        assert server.executions == 1


async def test_a_line_without_end_keeps_memory_flat() -> None:
    size = (256 if IS_LONG else 96) * MIB
    block = b"z" * 256 * KIB

    async def play(leg: Leg) -> None:
        await leg.open()
        if leg.run.name == "work":
            await leg.answer()
            await leg.end()
            return
        await leg.raw(b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"')
        for _ in range(size // len(block)):
            await leg.raw(block)
        await leg.cut()

    server = McpServer(play)
    async with serving(server), running_proxy(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        await (await client.call()).read()
        before = memory(proxy)
        answer = await client.call(name="endless")
        await answer.read_exactly(size // 2)
        with pytest.raises(Truncated):
            await answer.read()
        assert memory(proxy, "VmHWM") - before < FLOOD_CAP
        assert await proxy.stop() == 0
