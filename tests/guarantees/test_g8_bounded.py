"""G8 bounded: memory, sessions, streams, sizes and time have limits, and what is large is still right.

Memory is that of the real process, over what it needs when idle.
"""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import IS_LONG
from tests.shell.running import Proxy as RealProxy
from tests.shell.running import running_proxy
from tests.shell.wire import Peer
from tests.support.client import JSON, Answer, Client
from tests.support.server import Leg, McpServer, head, serving

MIB = 1024 * 1024
FLOOD_BYTES = (500 if IS_LONG else 64) * MIB
STREAMS = 500
# What a transfer may add to the process, and why that much.
EVENT_CAP = 128 * MIB  # an event of 8 MB: read, framed, stamped, journalled and written, each a copy
JSON_CAP = 24 * MIB  # an answer of 20 MB is passed on above 1 MiB, never held whole
FLOOD_CAP = 48 * MIB  # a stream's journal (16 MiB), socket buffers, and what a read brings
REPLAY_CAP = 128 * MIB  # a full journal joined, framed and handed to the socket: each a copy
STREAMS_CAP = 50 * MIB  # 100 KiB for each of 500 open streams


def memory(proxy: RealProxy, name: str = "VmRSS") -> int:
    """Bytes of resident memory now, or at its highest (`VmHWM`)."""
    text = Path(f"/proc/{proxy.process.pid}/status").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith(name)]
    return int(line.split()[1]) * 1024


async def warmed_up(client: Client, server: McpServer) -> None:
    """One exchange of each kind, so that what is loaded lazily does not count."""
    await client.open()
    await (await client.call()).read()
    server.runs.clear()


async def series(port: int, name: str) -> float:
    async with Client(port) as scraper:
        page = (await (await scraper.send("GET", "/metrics", [])).read()).decode()
    return next(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(f"{name} "))


# --- large ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [8_000_000, 8 * MIB])
async def test_an_event_of_8_megabytes_passes(size: int) -> None:
    text = "x" * size

    async def play(leg: Leg) -> None:
        await leg.open()
        if size and leg.run.name == "large":
            content = {"content": [{"type": "text", "text": text}]}
            await leg.write({"jsonrpc": "2.0", "id": leg.run.id, "result": leg.tagged(content)})
        else:
            await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with serving(server), running_proxy(server.port) as proxy, Client(proxy.port) as client:
        await warmed_up(client, server)
        before = memory(proxy)
        (answer,) = await (await client.call(name="large")).messages()
        assert answer["result"]["content"][0]["text"] == text
        assert server.executions == 1
        assert memory(proxy, "VmHWM") - before < EVENT_CAP


@pytest.mark.parametrize("is_id_first", [True, False], ids=["id first", "id last"])
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_a_json_answer_of_20_megabytes_passes(is_id_first: bool, framing: str) -> None:
    """As it comes (R34)."""
    text = 'y"' * (20 * MIB // 3)

    async def play(leg: Leg) -> None:
        result = {"content": [{"type": "text", "text": text if leg.run.name == "large" else "small"}]}
        first, last = {"id": leg.run.id}, {"result": result}
        message = {"jsonrpc": "2.0", **first, **last} if is_id_first else {"jsonrpc": "2.0", **last, **first}
        body = json.dumps(message).encode()
        if framing == "length":
            await leg.refuse(200, body, ("content-type", JSON))
            return
        await leg.peer.send(head(200, [("content-type", JSON), ("transfer-encoding", "chunked")]))
        for at in range(0, len(body), MIB):
            await leg.raw(body[at : at + MIB])
        await leg.end()

    server = McpServer(play)
    async with serving(server), running_proxy(server.port) as proxy, Client(proxy.port) as client:
        await warmed_up(client, server)
        before = memory(proxy)
        answer = await client.call(name="large")
        body = await answer.read()
        assert len(body) > 20 * MIB
        message = json.loads(body)
        assert message["id"] == 7
        assert message["result"]["content"][0]["text"] == text
        assert list(message)[-1] == ("result" if is_id_first else "id")
        assert server.executions == 1
        assert memory(proxy, "VmHWM") - before < JSON_CAP


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
async def test_500_open_streams_are_served_at_once() -> None:
    release = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await release.wait()
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with serving(server), running_proxy(server.port) as proxy, Client(proxy.port) as warm:
        release.set()
        await warmed_up(warm, server)
        release.clear()
        before = memory(proxy)
        clients = [Client(proxy.port) for _ in range(STREAMS // 100)]
        for client in clients:
            await client.open()
        answers: list[Answer] = []
        for number in range(STREAMS):
            answers.append(await clients[number % len(clients)].call(number))
        for answer in answers:
            await answer.next_message()
        assert len(server.runs) == STREAMS
        assert memory(proxy) - before < STREAMS_CAP
        # The pool has no cap that streams and calls would share.
        assert (await clients[0].post({"jsonrpc": "2.0", "id": 1, "method": "ping"})).status == 200
        release.set()
        for number, answer in enumerate(answers):
            (last,) = await answer.messages()
            assert last["id"] == number
        for client in clients:
            await client.__aexit__()


# --- slow -------------------------------------------------------------------------------------------


class Flood:
    """A server's stream of FLOOD_BYTES, and how much of it was taken from it so far."""

    BLOCK = "z" * 16_000

    def __init__(self) -> None:
        self.sent = 0
        self.count = 0

    async def play(self, leg: Leg) -> None:
        await leg.open()
        await leg.progress(0)
        if leg.run.name == "flood":
            while self.sent < FLOOD_BYTES:
                self.count += 1
                message = {"jsonrpc": "2.0", "method": "notifications/message"}
                data = leg.tagged({"level": "info", "data": {"n": self.count, "block": self.BLOCK}})
                raw = leg.frame({**message, "params": data}, f"1_{self.count + 1}")
                await leg.raw(raw)
                self.sent += len(raw)
        await leg.write({"jsonrpc": "2.0", "id": leg.run.id, "result": {"content": []}}, None)
        await leg.end()

    async def until_stuck(self, admin: int) -> None:
        """Until nothing more is taken from the server, for as long as several scrapes take."""
        last, quiet = -1, 0
        while quiet < 5:
            quiet = quiet + 1 if self.sent == last else 0
            last = self.sent
            await series(admin, "epochgate_journal_bytes")
        assert 0 < self.sent < FLOOD_BYTES


async def check_flood(answer: Answer, flood: Flood) -> None:
    """All of it came, once and in order, and then the answer."""
    seen = 0
    async for event in answer.events():
        if b'"n": ' in event.raw:
            seen += 1
            assert event.message["params"]["data"]["n"] == seen
    assert seen == flood.count
    assert flood.sent >= FLOOD_BYTES


async def test_a_client_that_stops_reading_stops_the_server_and_loses_nothing() -> None:
    flood = Flood()
    server = McpServer(flood.play)
    async with serving(server), running_proxy(server.port) as proxy, Client(proxy.port) as client:
        await warmed_up(client, server)
        client.has_small_window = True
        before = memory(proxy)
        answer = await client.call(name="flood")
        await answer.next_message()
        await flood.until_stuck(proxy.admin)
        await check_flood(answer, flood)
        assert memory(proxy, "VmHWM") - before < FLOOD_CAP
        assert server.executions == 1


async def test_a_client_that_is_away_stops_the_server_at_the_journals_cap() -> None:
    """Undelivered events of a request stream are never evicted (R13)."""
    flood = Flood()
    server = McpServer(flood.play)
    async with serving(server), running_proxy(server.port) as proxy, Client(proxy.port) as client:
        await warmed_up(client, server)
        before = memory(proxy)
        answer = await client.call(name="flood")
        event = await answer.next_event()
        assert event is not None
        answer.reset()
        await flood.until_stuck(proxy.admin)
        assert await series(proxy.admin, "epochgate_journal_bytes") < 17 * MIB
        await check_flood(await client.get(event.id), flood)
        assert memory(proxy, "VmHWM") - before < REPLAY_CAP
        assert server.executions == 1


async def test_a_client_that_stops_reading_outside_the_guard_stops_the_server_too() -> None:
    sent = 0
    block = b"w" * 65_536

    async def flood(peer: Peer) -> None:
        nonlocal sent
        await peer.send(head(200, [("content-type", "text/plain"), ("content-length", str(FLOOD_BYTES))]))
        while sent < FLOOD_BYTES:
            await peer.send(block)
            sent += len(block)

    server = McpServer()
    server.on_request = flood
    async with serving(server), running_proxy(server.port) as proxy, Client(proxy.port) as client:
        client.has_small_window = True
        before = memory(proxy)
        answer = await client.send("GET", "/large", [])
        last, quiet = -1, 0
        while quiet < 5:
            quiet = quiet + 1 if sent == last else 0
            last = sent
            await series(proxy.admin, "epochgate_journal_bytes")
        assert 0 < sent < FLOOD_BYTES
        received = 0
        while data := await answer.read_some():
            received += len(data)
        assert received == FLOOD_BYTES
        assert memory(proxy, "VmHWM") - before < FLOOD_CAP
