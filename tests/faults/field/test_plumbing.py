"""HTTP plumbing as it breaks in the field: death inside an answer, reused connections, who left, cookies."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.shell.wire import Peer, connected
from tests.support.client import DEADLINE_S, PRIMED, Client, Json, Truncated, outcome
from tests.support.proxy import Proxy, guarding
from tests.support.server import Epochs, Ids, Leg, McpServer, head, honest, serving, until

DESTRUCTIVE: Json = {"name": "work", "inputSchema": {}, "annotations": {"destructiveHint": True}}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
MIB = 1024 * 1024


# the server dies inside an answer


async def resets(peer: Peer) -> None:
    peer.reset()


async def closes(peer: Peer) -> None:
    await peer.close()


async def bad_chunk(peer: Peer) -> None:
    await peer.send(b"zz\r\nnonsense\r\n")
    await peer.wait_gone()


DEATHS = {"a reset": resets, "a close": closes, "a bad chunk": bad_chunk}
SSE = head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])


async def raw_call(
    port: int,
    session: str | None,
    path: str = "/mcp",
    arrived: asyncio.Event | None = None,
    least: int = 1,
) -> bytes:
    """All bytes of an answer, to the end of its connection. `arrived` is set at the first `least`."""
    body = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"work","arguments":{}}}'
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Accept: application/json, text/event-stream"]
    lines += [f"Content-Length: {len(body)}", "Connection: close"]
    lines += [] if session is None else [f"Mcp-Session-Id: {session}"]
    read = b""
    async with connected(port) as peer, asyncio.timeout(DEADLINE_S):
        await peer.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        with suppress(ConnectionError):
            while data := await peer.reader.read(MIB):
                read += data
                if arrived is not None and len(read) >= least:
                    arrived.set()
    return read


@pytest.mark.parametrize("name", DEATHS)
@pytest.mark.parametrize("reissue", ["always", "never"])
async def test_a_stream_whose_server_dies_has_one_head_and_one_clean_end(name: str, reissue: str) -> None:
    arrived = asyncio.Event()

    async def play(leg: Leg) -> None:
        if leg.run.number > 1:
            await honest(leg)
            return
        await leg.open()
        await leg.progress(1)
        await arrived.wait()
        await DEATHS[name](leg.peer)

    server = McpServer(play, epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port, reissue=reissue) as proxy, Client(proxy.port) as client:
        await client.open()
        read = await raw_call(proxy.port, client.session, arrived=arrived)
        assert read.count(b"HTTP/1.1") == 1
        assert read.endswith(b"0\r\n\r\n")
        assert read.count(b'"id":7') + read.count(b'"id": 7') == 1
        assert (b"-32050" in read) == (reissue == "never")


@pytest.mark.parametrize("name", DEATHS)
async def test_a_large_answer_whose_server_dies_never_looks_whole(name: str) -> None:
    """Above what is kept of a JSON answer: broken off, and its connection carries nothing more."""
    arrived = asyncio.Event()

    async def play(leg: Leg) -> None:
        kind = ("content-type", "application/json")
        await leg.peer.send(head(200, [kind, ("transfer-encoding", "chunked")]))
        start = b'{"jsonrpc":"2.0","id":%s,"result":{"text":"' % str(leg.run.id).encode()
        await leg.raw(start + b"x" * 2 * MIB)
        await arrived.wait()
        await DEATHS[name](leg.peer)

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        read = await raw_call(proxy.port, client.session, arrived=arrived, least=MIB)
        assert read.count(b"HTTP/1.1") == 1
        assert not read.endswith(b"0\r\n\r\n")
        assert len(read) > MIB
        assert server.executions == 1


@pytest.mark.parametrize("size", [100, 3 * MIB])
async def test_an_answer_shorter_than_its_length_is_no_answer(size: int) -> None:
    """40 bytes of 100: from a second run; 2 MiB of 3: broken off, for they are passed on already."""
    sent = b'{"jsonrpc":"2.0","id":7,"result":{"a":1' if size == 100 else b"[" * 2 * MIB

    async def play(leg: Leg) -> None:
        if leg.run.number > 1:
            await honest(leg)
            return
        kind = ("content-type", "application/json")
        await leg.peer.send(head(200, [kind, ("content-length", str(size))]) + sent)
        await leg.peer.close()

    server = McpServer(play, epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        read = await raw_call(proxy.port, client.session)
        assert read.count(b"HTTP/1.1") == 1
        if size == 100:
            assert b"run 2 done" in read
        else:
            assert len(read) < size
            assert server.executions == 1


@pytest.mark.parametrize("name", DEATHS)
async def test_outside_the_guard_a_cut_answer_stays_a_cut_answer(name: str) -> None:
    server = McpServer()

    async def play(peer: Peer) -> None:
        await peer.send(SSE + b"9\r\ndata: x\n\n\r\n")
        await DEATHS[name](peer)

    server.on_request = play
    async with serving(server), guarding(server.port) as proxy:
        read = await raw_call(proxy.port, None, "/other")
        assert read.count(b"HTTP/1.1") <= 1
        assert not read.endswith(b"0\r\n\r\n")
        assert len(server.requests) == 1


# connections that are used again


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST", "ping"])
async def test_a_request_that_a_warm_connection_swallowed_is_not_sent_by_stealth(method: str) -> None:
    """Read whole and closed without a byte: whatever is sent again is a decision, and counted."""
    server = McpServer(tools=(DESTRUCTIVE,))
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        await (await client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).json()
        before = len(server.requests)

        async def swallow(peer: Peer) -> None:
            await peer.close()

        async def swallow_one(peer: Peer) -> None:
            server.on_request = None
            await peer.close()

        server.on_request = swallow
        match method:
            case "GET":
                assert (await client.get()).status == 405  # nothing is owed
                assert len(server.requests) == before + 1
            case "DELETE":
                assert (await client.delete()).status in (200, 204)  # ended, as far as the client goes
                assert len(server.requests) == before + 1
            case "POST":
                assert outcome(await (await client.call()).messages()) == -32050
                calls = [one for one in server.requests if one.message.get("method") == "tools/call"]
                assert len(calls) == 1
            case _:
                server.on_request = swallow_one
                assert (await (await client.post(PING)).json())["result"] is not None
                counted = sum((await proxy.moved("reissues_total")).values())
                assert server.counts["ping"] == 1 + counted


# who left


@pytest.mark.parametrize("talks", [False, True])
async def test_a_listening_client_that_left_is_held_for_so_long_and_then_let_go(talks: bool) -> None:
    """Not closed at once: it may return to its stream (design, 5)."""
    is_gone = asyncio.Event()

    async def stand(leg: Leg) -> None:
        await leg.open()
        await leg.log("here")
        gone = asyncio.ensure_future(leg.peer.wait_gone())
        while talks and not gone.done():
            await leg.log("still here")
            await asyncio.wait([gone], timeout=0.01)
        await gone
        is_gone.set()

    server = McpServer()
    server.stand = stand
    async with serving(server), guarding(server.port, hold="0.2s") as proxy, Client(proxy.port) as client:
        await client.open()
        listening = await client.get()
        await listening.next_message()
        await listening.close()
        async with asyncio.timeout(DEADLINE_S):
            await is_gone.wait()
        while "kind=standalone,state=open" in await proxy.moved("streams"):
            pass
        assert server.counts["initialize"] == 1


async def test_a_client_that_only_ended_its_own_direction_gets_its_answer() -> None:
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await go_on.wait()
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        body = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"work"}}'
        request = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {client.session}\r\n"
        async with connected(proxy.port) as peer:
            await peer.send(request.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await peer.read_head()
            peer.half_close()
            await until(lambda: bool(server.runs))
            go_on.set()
            async with asyncio.timeout(DEADLINE_S):
                assert b"run 1 done" in await peer.read_rest()
        assert server.executions == 1


async def _no_trouble(proxy: Proxy, server: McpServer) -> None:
    """A client that left is neither a failure of the server nor a reason to run anything again."""
    assert await proxy.moved("upstream_errors_total") == {}
    assert await proxy.moved("reissues_total") == {}
    assert await proxy.moved("heals_total") == {}
    assert server.found() == {"initialize": 1, "initialized": 1, "executions": 1}


async def test_a_client_that_leaves_between_the_head_and_the_first_event_ends_nothing() -> None:
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await go_on.wait()
        await leg.progress(1)
        await leg.answer()
        await leg.end()

    server = McpServer(play, ids=Ids.NONE)
    async with serving(server), guarding(server.port) as proxy:
        async with Client(proxy.port, version=PRIMED) as client:
            await client.open()
            answer = await client.call()
            priming = await answer.next_event()
            assert priming is not None
            answer.reset()
            await (await client.post(PING)).json()
            go_on.set()
            await until(lambda: len(server.runs[0].events) == 2)
            assert outcome(await (await client.get(priming.id)).messages()) == "run 1 done"
        await _no_trouble(proxy, server)


@pytest.mark.parametrize("version", [PRIMED, "2025-06-18"])
async def test_a_client_that_is_gone_at_the_last_chunk_is_no_failure_of_the_server(version: str) -> None:
    """The write fails as the answer is written; with an id given it can still be fetched."""

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await leg.log("x" * 200_000)
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port, version=version) as client:
        await client.open()
        answer = await client.call()
        event = await answer.next_event()
        assert event is not None
        answer.reset()
        back = await client.get(event.id)
        assert outcome(await back.messages()) == "run 1 done"
        await _no_trouble(proxy, server)


async def test_a_waiter_that_leaves_during_a_heal_takes_nobody_with_it() -> None:
    gate = asyncio.Event()
    server = McpServer()
    async with (
        serving(server),
        guarding(server.port) as proxy,
        Client(proxy.port) as leaving,
        Client(proxy.port) as staying,
    ):
        await leaving.open()
        staying.session = leaving.session
        server.evict()
        server.delay_initialize = gate
        first = asyncio.ensure_future(leaving.call(1))
        await until(lambda: server.counts["initialize"] == 2)
        second = asyncio.ensure_future(staying.call(7))
        await leaving.__aexit__()
        with pytest.raises(Truncated):
            await first
        gate.set()
        assert outcome(await (await second).messages()) == "run 1 done"
        assert server.executions == 1  # nobody waits for the other
