"""Who is told that a client left, or stopped reading, and when."""

from __future__ import annotations

import asyncio
import socket

from epochgate.shell.answer import Phase
from epochgate.shell.downstream import ServerLimits
from tests.shell.wire import Owner, Peer, connected, listening, on_each_loop, until

SSE = ((b"Content-Type", b"text/event-stream"),)
GET = b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


@on_each_loop
async def test_a_client_that_leaves_an_idle_stream_is_told_at_once() -> None:
    for leave in (Peer.reset, lambda client: client.writer.close()):
        owner = Owner()
        async with listening(owner.handle) as (_, port), connected(port) as client:
            await client.send(GET)
            exchange = await owner.take()
            exchange.open(200, SSE)
            exchange.write(b": a\n\n")
            await client.read_head()
            leave(client)
            await exchange.wait_done()
            exchange.write(b"late")
            exchange.end(b"late")
            assert (owner.told, exchange.phase) == (["left"], Phase.LEFT)


@on_each_loop
async def test_a_client_that_leaves_before_its_answer_is_told() -> None:
    owner = Owner()
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(POST)
        exchange = await owner.take()
        await client.close()
        await exchange.wait_done()
        exchange.respond(200, (), b"late")
        assert owner.told == ["left"]


@on_each_loop
async def test_a_request_of_a_client_that_is_gone_already_is_still_served_and_told() -> None:
    owner = Owner()
    async with listening(owner.handle) as (_, port), connected(port) as client:
        client.writer.write(POST)
        client.half_close()
        exchange = await owner.take()
        assert exchange.body == b"{}"
        await exchange.wait_done()
        assert owner.told == ["left"]


@on_each_loop
async def test_a_request_and_a_reset_in_one_breath_leave_no_trace() -> None:
    owner = Owner()
    async with listening(owner.handle) as (server, port):
        for _ in range(20):
            async with connected(port) as client:
                client.writer.write(POST)
                client.reset()
        async with connected(port) as client:
            await client.send(GET)
            await until(lambda: bool(owner.exchanges) and owner.exchanges[-1].method == b"GET")
            owner.exchanges[-1].respond(200, (), b"ok")
            assert (await client.read_message())[1] == b"ok"
        await until(lambda: "0 connections" in repr(server))


@on_each_loop
async def test_a_probe_that_connects_and_closes_leaves_no_connection() -> None:
    """So balancers and kubelets look whether a port is open; some send the beginning of something."""
    owner = Owner()
    async with listening(owner.handle) as (server, port):
        for sent in (b"", b"GET", b"") * 5:
            with socket.create_connection(("127.0.0.1", port)) as probe:
                probe.sendall(sent)
        async with connected(port) as client:  # accepted behind them
            await client.send(GET)
            (await owner.take()).respond(200, (), b"ok")
            await client.read_message()
        await until(lambda: not server.live)


@on_each_loop
async def test_a_client_that_ended_its_direction_only_gets_the_rest_of_a_stream_that_can_be_probed() -> None:
    owner = Owner()
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(GET)
        exchange = await owner.take()
        exchange.probe = b": probe\n\n"
        exchange.open(200, SSE)
        exchange.write(b": a\n\n")
        client.half_close()
        await client.read_head()
        assert [await client.read_chunk() for _ in range(2)] == [b": a\n\n", b": probe\n\n"]
        exchange.end(b": b\n\n")
        assert await client.read_rest() == b"5\r\n: b\n\n\r\n0\r\n\r\n"
        assert owner.told == []


@on_each_loop
async def test_a_probe_finds_out_a_client_that_is_gone() -> None:
    owner = Owner()
    async with listening(owner.handle) as (_, port), connected(port) as client:
        await client.send(GET)
        exchange = await owner.take()
        exchange.probe = b": probe\n\n"
        exchange.open(200, SSE)
        exchange.write(b"")
        await client.read_head()
        await client.close()
        await exchange.wait_done()
        assert owner.told == ["left"]


@on_each_loop
async def test_a_client_that_stops_reading_is_told_once_and_once_more_when_it_goes_on() -> None:
    owner = Owner()
    limits = ServerLimits(write_bytes=64 * 1024)
    async with listening(owner.handle, limits) as (_, port), connected(port, small_window=True) as client:
        await client.send(GET)
        exchange = await owner.take()
        exchange.open(200, SSE)
        exchange.write(b"")
        await client.read_head()
        for turn in range(2):
            written = 0
            while len(owner.told) == 2 * turn:
                exchange.write(bytes(10_000))
                written += 10_000
                await asyncio.sleep(0)
            exchange.write(bytes(10_000))
            assert owner.told[2 * turn :] == ["stalled"]
            read = 0
            while read < written + 10_000:
                read += len(await client.read_chunk())
            assert owner.told[2 * turn :] == ["stalled", "drained"]


@on_each_loop
async def test_a_large_answer_in_one_write_is_no_stall() -> None:
    owner = Owner(lambda exchange: exchange.respond(200, (), bytes(5_000_000)))
    async with listening(owner.handle) as (_, port), connected(port, small_window=True) as client:
        await client.send(GET)
        assert len((await client.read_message())[1]) == 5_000_000
        assert owner.told == []
