"""Servers that compress what nobody asked to have compressed (W16)."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from tests.support.client import Client, outcome
from tests.support.proxy import guarding
from tests.support.server import Epochs, Leg, McpServer, Play, serving, whole

GZIP = ("content-encoding", "gzip")


def answer_event(leg: Leg) -> bytes:
    return leg.frame({"jsonrpc": "2.0", "id": leg.run.id, "result": leg.result()}, None)


def progress_event(leg: Leg, step: int) -> bytes:
    params = {"progressToken": leg.run.token, "progress": step}
    method = "notifications/progress"
    return leg.frame({"jsonrpc": "2.0", "method": method, "params": leg.tagged(params)}, None)


@pytest.mark.parametrize("epochs", [Epochs.META, Epochs.NEVER])
async def test_a_stream_that_is_compressed_and_flushed_comes_event_by_event(epochs: Epochs) -> None:
    has_read = asyncio.Event()

    async def play(leg: Leg) -> None:
        packer = zlib.compressobj(wbits=31)
        await leg.open(GZIP)
        for step in range(1, 4):
            packed = packer.compress(progress_event(leg, step)) + packer.flush(zlib.Z_SYNC_FLUSH)
            await leg.raw(packed)
            await has_read.wait()
            has_read.clear()
        await leg.raw(packer.compress(answer_event(leg)) + packer.flush())
        await leg.end()

    server = McpServer(play, epochs=epochs)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        assert answer.header("content-encoding") is None
        for step in range(1, 4):
            assert (await answer.next_message())["params"] | {"_meta": 0} == {
                "progressToken": "t",
                "progress": step,
                "_meta": 0,
            }
            has_read.set()
        assert outcome(await answer.messages()) == "run 1 done"
        assert server.executions == 1


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_a_stream_that_is_compressed_at_the_end_comes_whole(size: int) -> None:
    """Whatever the chunks are that it comes in."""

    async def play(leg: Leg) -> None:
        packed = gzip.compress(progress_event(leg, 1) + answer_event(leg))
        await leg.open(GZIP)
        for at in range(0, len(packed), size):
            await leg.raw(packed[at : at + size])
        await leg.end()

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        messages = await (await client.call()).messages()
        assert messages[0]["params"]["progressToken"] == "t"
        assert outcome(messages) == "run 1 done"


async def test_a_compressed_stream_that_breaks_is_a_broken_stream() -> None:
    async def play(leg: Leg) -> None:
        packer = zlib.compressobj(wbits=31)
        await leg.open(GZIP)
        await leg.raw(packer.compress(progress_event(leg, 1)) + packer.flush(zlib.Z_SYNC_FLUSH))
        if leg.run.number == 1:
            await leg.cut()
        await leg.raw(packer.compress(answer_event(leg)) + packer.flush())
        await leg.end()

    server = McpServer(play, epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        assert outcome(await (await client.call()).messages()) == "run 2 done"


async def test_a_compressed_json_answer_is_the_answer() -> None:
    async def play(leg: Leg) -> None:
        body = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}' % str(leg.run.id).encode()
        kind = ("content-type", "application/json")
        await leg.peer.send(whole(200, [kind, GZIP], gzip.compress(body)))

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        assert answer.header("content-encoding") is None
        assert await answer.json() == {"jsonrpc": "2.0", "id": 7, "result": {"content": []}}


def opaque(coding: str, body: bytes) -> Play:
    async def play(leg: Leg) -> None:
        await leg.open(("content-encoding", coding))
        await leg.raw(body)
        await leg.end()

    return play


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip,gzip", "gzip, br"])
async def test_a_stream_in_another_coding_is_an_error_that_says_so(coding: str) -> None:
    """Nobody here can read what it answers; it may have run, and is not run again for that."""
    server = McpServer(opaque(coding, b"\x0b\x02\x80whatever it is\x03\n\n\r\n\x00\xff"))
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        assert answer.header("content-encoding") is None
        (message,) = await answer.messages()
        assert (message["id"], message["error"]["code"]) == (7, -32050)
        assert message["error"]["data"]["reason"] == "content_coding"
        assert server.executions == 1
