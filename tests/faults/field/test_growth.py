"""Numbers and sizes as they are met in the field: many streams, many sessions, large requests, odd labels."""

from __future__ import annotations

import asyncio
import json
import random
import re
import resource
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.conftest import IS_LONG
from tests.guarantees.test_g8_bounded import memory, series
from tests.shell.running import INITIALIZE, INITIALIZED, request, running_proxy
from tests.shell.wire import Peer, connected
from tests.support.client import JSON, Client, Json, outcome
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, serving, whole

LISTS = 50_000 if IS_LONG else 300
SESSIONS = 10_000 if IS_LONG else 200
IDLE = "60s" if IS_LONG else "1.5s"  # longer than it takes to open them
NAMES = 10_000 if IS_LONG else 300
KIB = 1024
MIB = 1024 * KIB
LABEL = re.compile(r'(\w+)="([^"]*)"')
STATUSES = {"200", "207", "404", "418", "429", "2xx", "4xx", "5xx", "400"}
LIST: Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
LISTS_CAP = 4 * MIB  # what an allocator keeps; nothing of a list that was answered stays
SESSION_CAP = 64 * KIB  # an idle session, with its share of the process


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def exchange(peer: Peer, message: object, *headers: str) -> tuple[bytes, bytes]:
    """One exchange on a connection that is kept."""
    await peer.send(request(message, *headers))
    return await peer.read_message()


async def opened(peer: Peer) -> str:
    """A session that nobody ends; its header line."""
    head, _ = await exchange(peer, INITIALIZE)
    session = head.lower().partition(b"mcp-session-id: ")[2].partition(b"\r\n")[0].decode()
    line = f"Mcp-Session-Id: {session}"
    head, _ = await exchange(peer, INITIALIZED, line)
    assert head.startswith(b"HTTP/1.1 202 ")
    return line


# many


async def test_open_streams_of_many_clients_keep_no_call_waiting() -> None:
    """120 clients that listen, one that calls, and the answer to a question inside that call."""

    async def stand(leg: Leg) -> None:
        await leg.open()
        await leg.log("here")
        await leg.peer.wait_gone()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.write({"jsonrpc": "2.0", "id": 0, "method": "roots/list", "params": {}})
        await leg.server.until(lambda: "result" in leg.server.requests[-1].message)
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    server.stand = stand
    async with serving(server), guarding(server.port) as proxy, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(proxy.port)) for _ in range(120)]
        client = clients[-1]
        for one in clients:
            await one.open({"roots": {}})
            listening = await one.get()
            assert (await listening.next_message())["method"] == "notifications/message"
        answer = await client.call()
        asked = await answer.next_message()
        reply = {"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}
        assert (await client.post(reply)).status == 202
        assert outcome(await answer.messages()) == "run 1 done"
        streams = await proxy.moved("streams")
        assert streams["kind=standalone,state=open"] == 120


async def test_a_session_that_lists_for_ever_does_not_grow() -> None:
    server = McpServer()
    async with serving(server), running_proxy(server.port) as proxy, connected(proxy.port) as peer:
        session = await opened(peer)
        for _ in range(200):  # what is loaded lazily does not count
            await exchange(peer, LIST, session)
        before = memory(proxy)
        for _ in range(LISTS):
            _, body = await exchange(peer, LIST, session)
            assert json.loads(body)["id"] == 1
        assert memory(proxy) - before < LISTS_CAP
        assert await series(proxy.admin, "epochgate_journal_bytes") == 0
        assert await proxy.stop() == 0


async def test_sessions_that_nobody_ends_are_small_and_forgotten() -> None:
    server = McpServer()
    async with (
        serving(server),
        running_proxy(server.port, "--session-idle", IDLE, "--max-sessions", "20000") as proxy,
        connected(proxy.port) as peer,
    ):
        await opened(peer)
        before = memory(proxy)
        for _ in range(SESSIONS):
            await opened(peer)
        assert memory(proxy) - before < SESSIONS * SESSION_CAP + LISTS_CAP
        assert server.counts["DELETE"] == 0
        while await series(proxy.admin, 'epochgate_sessions{state="live"}'):
            pass
        assert await proxy.stop() == 0


async def test_a_call_keeps_its_session_however_quiet_it_is() -> None:
    """Idle is who owes nothing and listens to nothing."""
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        if leg.run.name == "long":
            await leg.open()
            await leg.progress(1)
            await go_on.wait()
        else:
            await leg.open()
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with (
        serving(server),
        guarding(server.port, session_idle="0.1s", retain="0.05s") as proxy,
        Client(proxy.port) as busy,
        Client(proxy.port) as idle,
    ):
        await busy.open()
        answer = await busy.call(name="long")
        await answer.next_message()
        for _ in range(3):
            await idle.open()
            idle.session = None
            while (await proxy.moved("sessions"))["state=live"] > 1:
                pass
        assert busy.session in server.sessions
        go_on.set()
        assert outcome(await answer.messages()) == "run 1 done"


async def test_of_too_many_sessions_the_idle_give_way_and_nobody_is_refused() -> None:
    """The oldest that owes nothing and listens to nothing; never one at work."""
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await go_on.wait()
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with (
        serving(server),
        guarding(server.port, max_sessions="50") as proxy,
        Client(proxy.port) as busy,
        connected(proxy.port) as peer,
    ):
        await busy.open()
        answer = await busy.call()
        await answer.next_message()
        for _ in range(SESSIONS):
            await opened(peer)
        assert (await proxy.moved("sessions"))["state=live"] <= 50
        go_on.set()
        assert outcome(await answer.messages()) == "run 1 done"
        assert (await busy.post(LIST)).status == 200


# labels


async def test_what_clients_make_up_is_no_series() -> None:
    """Paths, session ids, methods of both kinds, tool names, statuses of the server's."""
    chance = random.Random(1)
    server = McpServer()

    async def answer(peer: Peer) -> None:
        body = server.requests[-1].body
        number = json.loads(body).get("id") if body.startswith(b"{") else None
        status = chance.choice((200, 207, 299, 404, 418, 429, 499, 599))
        text = json.dumps({"jsonrpc": "2.0", "id": number, "result": {}}).encode()
        await peer.send(whole(status, [("content-type", JSON)], text))

    async with serving(server), guarding(server.port) as proxy, connected(proxy.port) as peer:
        session = await opened(peer)
        for message in (LIST, {**LIST, "method": "x"}):
            await exchange(peer, message, session)
        before = set(await proxy.page())
        server.on_request = answer
        for number in range(NAMES):
            word = f"w{chance.getrandbits(60):x}"
            call = {**LIST, "method": "tools/call", "params": {"name": word, "arguments": {}}}
            made_up = (
                request(None, method="GET", path=f"/{word}"),
                request({**LIST, "method": word}, f"Mcp-Session-Id: {word}"),
                request(None, method=f"X{number}"),
                request(call, f"MCP-Protocol-Version: {word}"),
                request({**LIST, "method": word}),
            )
            async with connected(proxy.port) as other:
                await other.send(made_up[number % len(made_up)])
                await other.read_message()
        new = set(await proxy.page()) - before
        assert {name.partition("{")[0] for name in new} <= {"requests_total"}
        by_label = [dict(LABEL.findall(name)) for name in new]
        assert {labels["class"] for labels in by_label} <= {"plain", "unknown"}
        assert {labels["method"] for labels in by_label} <= {"GET", "other", "tools/call"}
        assert {labels["status"] for labels in by_label} <= STATUSES


# large


LARGE = {
    "a body of 1.2 MB": ([], "/mcp", 1_200_000),
    "a token of 9 KB": ([("Authorization", "Bearer " + "t" * 9_000)], "/mcp", 10),
    "140 headers": ([(f"X-{number}", "1") for number in range(140)], "/mcp", 10),
    "a cookie of 20 KB": ([("Cookie", "c=" + "d" * 20_000)], "/mcp", 10),
    "a target of 9 KB": ([], "/mcp?q=" + "u" * 9_000, 10),
}


@pytest.mark.parametrize("name", LARGE)
async def test_a_large_request_of_a_session_reaches_the_server_whole(name: str) -> None:
    headers, target, size = LARGE[name]
    arguments = {"name": "work", "arguments": {"text": "x" * size}}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": arguments}
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.post(message, *headers, target=target)
        assert outcome(await answer.messages()) == "run 1 done"
        seen = server.requests[-1]
        assert seen.target == target
        assert set(headers) <= set(seen.headers)
        assert seen.message["params"] == arguments


@pytest.mark.parametrize("status", [401, 200])
async def test_a_header_of_9_kilobytes_of_the_servers_reaches_the_client(status: int) -> None:
    long = "Bearer " + "c" * 9_000

    async def play(leg: Leg) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": leg.run.id, "result": {}}).encode()
        await leg.peer.send(whole(status, [("content-type", JSON), ("www-authenticate", long)], body))

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        assert (answer.status, answer.header("www-authenticate")) == (status, long)


async def test_what_is_above_a_limit_is_refused_in_plain_http_and_counted() -> None:
    server = McpServer()
    async with serving(server), guarding(server.port, max_body="4KiB", max_headers="50") as proxy:
        async with Client(proxy.port) as client:
            for headers, size, status in (
                ([], 5_000, 413),
                ([("X-Long", "y" * 70_000)], 0, 431),
                ([(f"X-{number}", "1") for number in range(60)], 0, 431),
            ):
                answer = await client.send("POST", "/mcp", headers, b"x" * size)
                assert answer.status == status
                assert b"jsonrpc" not in await answer.read()
        assert server.requests == []
