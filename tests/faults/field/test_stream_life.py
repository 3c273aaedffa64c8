"""Streams as they live in the field: quiet ones, heartbeats between bytes, ends without an answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.shell.wire import Peer, Upstreams
from tests.shell.wire import serving as serving_raw
from tests.support.client import DEADLINE_S, PRIMED, UNPRIMED, Client, Truncated, outcome
from tests.support.proxy import guarding
from tests.support.server import Epochs, Leg, McpServer, Play, head, honest, serving, whole

KEEPALIVE = b": keepalive\n\n"


async def silent_stream(leg: Leg) -> None:
    await leg.open()
    await leg.progress(1)
    await leg.peer.wait_gone()


# quiet


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("version", [PRIMED, UNPRIMED])
async def test_the_head_of_a_quiet_stream_comes_at_once(method: str, version: str) -> None:
    """Headers and nothing else: with the head comes a first byte for those who can parse it."""

    async def quiet(leg: Leg) -> None:
        await leg.open()
        await leg.peer.wait_gone()

    server = McpServer(quiet)
    server.stand = quiet
    async with (
        serving(server),
        guarding(server.port) as proxy,
        Client(proxy.port, version=version) as client,
    ):
        await client.open()
        answer = await (client.get() if method == "GET" else client.call())
        assert (answer.status, answer.is_stream) == (200, True)
        if version == PRIMED:
            first = await answer.next_event()
            assert first is not None
            assert (first.id is not None, first.data) == (True, b"")


async def test_streams_of_the_proxys_own_ask_not_to_be_kept_or_gathered() -> None:
    """W11."""
    server = McpServer(silent_stream)
    async with serving(server), guarding(server.port, hold="0.05s") as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        event = await answer.next_event()
        assert event is not None
        answer.reset()
        while await proxy.moved("streams"):
            pass
        late = await client.get(event.id)
        assert outcome(await late.messages()) == -32050
        told = (late.header("cache-control"), late.header("x-accel-buffering"))
        assert told == ("no-cache, no-transform", "no")


@pytest.mark.parametrize("given", [(), (("cache-control", "no-store"), ("x-accel-buffering", "yes"))])
async def test_streams_of_the_servers_ask_it_where_the_server_does_not(
    given: tuple[tuple[str, str], ...],
) -> None:
    """What the server says of it stands (W11)."""

    async def play(leg: Leg) -> None:
        await leg.open(*given)
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        told = (answer.header("cache-control"), answer.header("x-accel-buffering"))
        assert told == (("no-store", "yes") if given else ("no-cache, no-transform", "no"))


class Impatient:
    """A hop on the client's side that cuts a connection on which no byte came for `limit_s`."""

    def __init__(self, port: int, limit_s: float) -> None:
        self.port, self.limit_s = port, limit_s
        self.cuts = 0

    async def __call__(self, upstreams: Upstreams, peer: Peer) -> None:
        request, body = await peer.read_message()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request + body)
        try:
            async with asyncio.timeout(DEADLINE_S) as limit:
                while data := await reader.read(65_536):
                    limit.reschedule(asyncio.get_running_loop().time() + self.limit_s)
                    await peer.send(data)
        except TimeoutError:
            self.cuts += 1
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@pytest.mark.parametrize(("keepalive", "cuts"), [("0.05s", 0), ("20s", 1)])
async def test_a_quiet_stream_outlives_a_hop_that_cuts_what_is_quiet(keepalive: str, cuts: int) -> None:
    """With the second setting the test shows that it can fail."""
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await go_on.wait()
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with serving(server), guarding(server.port, keepalive=keepalive) as proxy:
        hop = Impatient(proxy.port, 0.4)
        async with (
            serving_raw(hop) as behind,
            Client(proxy.port) as direct,
            Client(behind.port) as client,
        ):
            await direct.open()
            client.session = direct.session
            answer = await client.call()
            began = asyncio.get_running_loop().time()
            with suppress(Truncated):
                while asyncio.get_running_loop().time() - began < 3 * hop.limit_s:
                    await answer.next_event()
            assert hop.cuts == cuts
            go_on.set()
            if not cuts:
                assert outcome(await answer.messages()) == "run 1 done"


async def test_heartbeats_to_the_client_are_no_life_of_the_server() -> None:
    limits = {"keepalive": "0.02s", "silence": "0.1s", "ping": "0.2s", "max_silence": "0.5s"}
    server = McpServer(silent_stream)
    async with serving(server), guarding(server.port, **limits) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        body = await answer.read()
        assert body.count(KEEPALIVE) >= 5
        assert b'"code":-32050' in body
        assert server.executions == 1


async def test_a_silence_that_was_too_long_is_told_as_silence() -> None:
    """Not as a client that left, nor as a server that broke."""
    limits = {"silence": "0.1s", "ping": "0.2s", "max_silence": "0.3s"}
    server = McpServer(silent_stream)
    async with serving(server), guarding(server.port, **limits) as proxy, Client(proxy.port) as client:
        await client.open()
        (error,) = [one["error"] for one in await (await client.call()).messages() if "error" in one]
        assert error["data"]["reason"] == "upstream_silent"
        assert await proxy.resumes() == {"upstream fail upstream_silent": 1}
        assert await proxy.moved("upstream_errors_total") == {}


# heartbeats


ANSWER = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"yyy\xf0\x9f\x8c\x8d"}]}}'
PAUSES = {
    "inside the data": (b'data: {"jsonrpc":"2.0","id":%s,"result":{"cont', b'ent":[{"type":"text","text":"'),
    "behind the event line": (b"event: message\n", b"data: "),
    "behind the id line": (b"id: 7\n", b"data: "),
    "behind two lines": (b"id: 7\nevent: message\n", b"data: "),
    "between CR and LF": (b"event: message\r", b"\ndata: "),
    "before the last line end": (b"WHOLE\n", b"\n"),
    "between the last CR and LF": (b"WHOLE\r\n\r", b"\n"),
    "inside a character": (b"SPLIT", b""),
}


def halves(name: str, number: object) -> tuple[bytes, bytes]:
    """The answer as an event, in two parts between which the server pauses."""
    answer = ANSWER % str(number).encode()
    first, second = PAUSES[name]
    if name == "inside a character":
        at = answer.index(b"\x9f")
        return b"data: " + answer[:at], answer[at:] + b"\n\n"
    if b"WHOLE" in first:
        return first.replace(b"WHOLE", b"data: " + answer), second
    if name == "inside the data":
        at = len(first % str(number).encode()) - len(b"data: ")
        return b"data: " + answer[:at], answer[at:] + b"\n\n"
    return first, second + answer + b"\n\n"


@pytest.mark.parametrize("name", PAUSES)
async def test_a_heartbeat_never_lands_inside_an_event(name: str) -> None:
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        first, second = halves(name, leg.run.id)
        await leg.open()
        await leg.progress(1)
        await leg.raw(first)
        await go_on.wait()
        await leg.raw(second)
        await leg.end()

    server = McpServer(play, epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port, keepalive="0.02s") as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            answer = await client.call()
            await answer.next_message()
            for _ in range(3):
                event = await answer.next_event()
                assert event is not None
                assert event.raw == KEEPALIVE  # nothing of the event came before it
            go_on.set()
            while (event := await answer.next_event()) is not None and not event.is_message:
                assert event.raw == KEEPALIVE
            assert event is not None
            assert event.message["result"]["content"][0]["text"] == "yyy🌍"
            assert b"keepalive" not in event.raw
            assert await answer.read() == b""
        assert server.executions == 1


async def test_no_heartbeat_is_written_outside_the_guard() -> None:
    """There the bytes are the server's alone, so that no boundary need be known."""
    go_on = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.send(head(200, [("content-type", "text/event-stream")]))
        await peer.send(b'data: {"a":"xxx')
        await go_on.wait()
        await peer.send(b'yyy"}\n\n')
        await peer.close()

    server = McpServer()
    server.on_request = play
    async with (
        serving(server),
        guarding(server.port, keepalive="0.01s") as proxy,
        Client(proxy.port) as client,
    ):
        answer = await client.send("GET", "/sse", [])
        assert await answer.read_some() == b'data: {"a":"xxx'
        for _ in range(5):  # time for several heartbeats
            await proxy.page()
        go_on.set()
        assert await answer.read() == b'yyy"}\n\n'


# ends without an answer


async def clean_end_at_once(leg: Leg) -> None:
    await leg.open()
    await leg.end()


async def progress_without_id(leg: Leg) -> None:
    await leg.open()
    await leg.progress(1, id=None)
    await leg.end()


async def priming_alone(leg: Leg) -> None:
    await leg.open()
    await leg.raw(b"id: q1\ndata:\n\n")
    await leg.end()


async def reset_inside_a_chunk(leg: Leg) -> None:
    await leg.open()
    await leg.peer.send(b'100\r\ndata: {"jsonrpc":"2.0","id":')
    await leg.reset()


async def no_body_at_all(leg: Leg) -> None:
    await leg.peer.send(whole(200, [("content-type", "text/event-stream")]))


async def gone(leg: Leg) -> None:
    await leg.refuse(404)


ENDS = [clean_end_at_once, progress_without_id, priming_alone, reset_inside_a_chunk, no_body_at_all]


@pytest.mark.parametrize("epochs", [Epochs.META, Epochs.NEVER])
@pytest.mark.parametrize("play", ENDS)
async def test_an_end_without_an_answer_is_told_where_nothing_may_run_twice(
    play: Play, epochs: Epochs
) -> None:
    server = McpServer(play, gone, epochs=epochs)
    async with serving(server), guarding(server.port, reissue="never") as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        assert answer.status == 200
        (error,) = [one["error"] for one in await answer.messages() if "error" in one]
        assert error["code"] == -32050
        assert "outcome unknown" in error["message"]
        assert server.executions == 1


@pytest.mark.parametrize("epochs", [Epochs.META, Epochs.NEVER])
@pytest.mark.parametrize("play", ENDS)
async def test_an_end_without_an_answer_is_made_good_where_it_may(play: Play, epochs: Epochs) -> None:
    async def once(leg: Leg) -> None:
        await (play if leg.run.number == 1 else honest)(leg)

    server = McpServer(once, gone, epochs=epochs)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        assert outcome(await (await client.call()).messages()) == "run 2 done"
        assert server.executions == 2
