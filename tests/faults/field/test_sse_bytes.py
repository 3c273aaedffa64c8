"""Bytes of event streams as they are met in the field: long lines, odd line ends, odd events, codings."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator

import pytest

from tests.conftest import IS_LONG
from tests.support.client import PRIMED, Client, outcome
from tests.support.proxy import guarding
from tests.support.server import Epochs, Ids, Leg, McpServer, Play, honest, rejoin, serving

OWN_ID = re.compile(rb"(\A|(?<=[\r\n]))id: \d+(\r\n|\n|\r)")
ANSWER = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"run 1 done"}]}}'
LOG = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}'
ENDS = {"lf": [b"\n"], "crlf": [b"\r\n"], "cr": [b"\r"], "mixed": [b"\r\n", b"\n", b"\r"]}

# Three events: data in three lines with and without a space, a field's name alone, and the answer.
EVENTS = [
    [
        b"event: message",
        b'data:{"jsonrpc":"2.0","method":"notifications/message",',
        b'data: "params":{"level":"info",',
        'data:  "data":"北🌍"}}'.encode(),
    ],
    [b"data", b"x-odd: 1", b"data: " + LOG % b"second"],
    [b"event: message", b"data: " + ANSWER],
]


def stream(ends: list[bytes], number: object) -> bytes:
    """The three events, their lines ended by `ends` in turn."""
    lines = [line for event in EVENTS for line in (*event, b"")]
    text = b"".join(line + ends[at % len(ends)] for at, line in enumerate(lines))
    return text % str(number).encode()


def own_ids_removed(body: bytes) -> bytes:
    return OWN_ID.sub(b"", body)


def raw(*parts: bytes, cut: bool = False) -> Play:
    """A stream of these chunks, in which `%s` stands for the request's id."""

    async def play(leg: Leg) -> None:
        await leg.open()
        for part in parts:
            await leg.raw(part.replace(b"%s", str(leg.run.id).encode()))
        await (leg.cut() if cut else leg.end())

    return play


async def body_of_a_call(port: int, version: str = PRIMED) -> bytes:
    async with Client(port, version=version) as client:
        await client.open()
        return await (await client.call()).read()


# long lines


@pytest.mark.parametrize("size", [131_073, 524_289, 600_000, 8_000_000])
async def test_an_event_of_one_long_line_passes(size: int) -> None:
    text = b"x" * size
    play = raw(b"data: " + LOG.replace(b"%s", text) + b"\n\n", b"data: " + ANSWER + b"\n\n")
    async with serving(McpServer(play)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            messages = await (await client.call()).messages()
        assert messages[0]["params"]["data"] == "x" * size
        assert outcome(messages) == "run 1 done"


async def test_an_id_of_a_megabyte_is_no_harm_and_is_not_shown() -> None:
    long_id = b"i" * 1_000_000
    play = raw(b"id: " + long_id + b"\ndata: " + LOG % b"one" + b"\n\n", b"data: " + ANSWER + b"\n\n")
    async with serving(McpServer(play)) as server, guarding(server.port) as proxy:
        body = await body_of_a_call(proxy.port)
        assert len(body) < 2_000
        assert b'"run 1 done"' in body


# line ends and cuts


def cuts(size: int) -> Iterator[int]:
    yield from range(1, size, 1 if IS_LONG else 7)


@pytest.mark.parametrize("name", ENDS)
async def test_the_bytes_are_those_of_the_server_wherever_they_are_cut(name: str) -> None:
    cut_at = 0

    async def play(leg: Leg) -> None:
        text = stream(ENDS[name], leg.run.id)
        await leg.open()
        await leg.raw(text[:cut_at]) if cut_at else None
        await leg.raw(text[cut_at:])
        await leg.end()

    expected = stream(ENDS[name], 7)
    async with serving(McpServer(play, epochs=Epochs.NEVER)) as server:
        async with guarding(server.port, max_sessions="100000") as proxy:
            for cut_at in (0, *cuts(len(expected))):
                async with Client(proxy.port) as client:
                    await client.open()
                    body = await (await client.call()).read()
                assert own_ids_removed(body) == expected, cut_at
        assert server.executions == 1 + len(list(cuts(len(expected))))


@pytest.mark.parametrize("name", ENDS)
async def test_events_are_numbered_the_same_whatever_ends_their_lines(name: str) -> None:
    async def play(leg: Leg) -> None:
        text = stream(ENDS[name], leg.run.id)
        await leg.open()
        for at in range(len(text)):
            await leg.raw(text[at : at + 1])
        await leg.end()

    async with serving(McpServer(play, epochs=Epochs.NEVER)) as server, guarding(server.port) as proxy:
        body = await body_of_a_call(proxy.port)
    ids = [int(found) for found in re.findall(rb"(?:\A|(?<=[\r\n]))id: (\d+)", body)]
    assert ids == list(range(ids[0], ids[0] + 4))  # priming, and three events
    assert "北🌍".encode() in body


async def test_a_mark_of_byte_order_is_no_part_of_the_first_field() -> None:
    play = raw(b"\xef\xbb\xbfdata: " + LOG % b"first" + b"\n\n", b"data: " + ANSWER + b"\n\n")
    async with (
        serving(McpServer(play)) as server,
        guarding(server.port) as proxy,
        Client(proxy.port, version=PRIMED) as client,
    ):
        await client.open()
        messages = await (await client.call()).messages()
    assert [one.get("params", {}).get("data") for one in messages] == ["first", None]
    assert outcome(messages) == "run 1 done"


@pytest.mark.parametrize("cut_at", range(1, 7))
async def test_a_character_that_is_cut_is_whole(cut_at: int) -> None:
    text = "北🌍".encode()
    first, second = LOG.split(b"%s")
    parts = b"data: " + first + text[:cut_at], text[cut_at:] + second + b"\n\n"
    play = raw(*parts, b"data: " + ANSWER + b"\n\n")
    async with serving(McpServer(play)) as server, guarding(server.port) as proxy:
        assert b'"\xe5\x8c\x97\xf0\x9f\x8c\x8d"' in await body_of_a_call(proxy.port)


async def test_bytes_that_are_no_text_pass_as_they_are() -> None:
    play = raw(b"data: " + LOG % b"\xff\xfe" + b"\n\n", b"data: " + ANSWER + b"\n\n")
    async with serving(McpServer(play)) as server, guarding(server.port) as proxy:
        body = await body_of_a_call(proxy.port)
        assert b'"data":"\xff\xfe"' in body
        assert b'"run 1 done"' in body
        assert server.executions == 1


async def test_an_answer_with_bytes_that_are_no_text_is_the_answer() -> None:
    answer = ANSWER.replace(b"run 1 done", b"run \xff done")
    async with serving(McpServer(raw(b"data: " + answer + b"\n\n"))) as server:
        async with guarding(server.port) as proxy:
            assert b'"id":7,"result":{"content":[{"type":"text","text":"run \xff done"}]}' in (
                await body_of_a_call(proxy.port)
            )
        assert server.executions == 1


@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_a_last_event_without_its_blank_line_is_not_delivered(end: bytes) -> None:
    """The answer did not come: it comes from a second run, or is told to be unknown."""
    broken = raw(b"data: " + LOG % b"one" + b"\n\n", b"data: " + ANSWER + end)

    async def play(leg: Leg) -> None:
        await (broken if leg.run.number == 1 else honest)(leg)

    async with serving(McpServer(play, epochs=Epochs.NEVER)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            messages = await (await client.call()).messages()
        assert outcome(messages) == "run 2 done"
        assert b"run 1 done" not in json.dumps(messages).encode()


# events that are no messages


ODD = {
    "a named ping": b"event: ping\ndata:\n\n",
    "a named keepalive": b"event: keepalive\ndata: {}\n\n",
    "a heartbeat as data": b'data: {"type":"heartbeat"}\n\n',
    "no JSON": b"data: hello\n\n",
    "a number": b"data: 17\n\n",
}
# Blocks that dispatch nothing: heartbeats of the server's, which the proxy's own stand for.
EMPTY = {
    "a comment": b": c\n\n",
    "a long comment": b": " + b"c" * 100_000 + b"\n\n",
    "a comment that is no text": b": \xff\n\n",
    "an unknown field": b"x-y: z\n\n",
    "an id": b"id: 9\n\n",
    "blank lines": b"\n\n\n",
}


@pytest.mark.parametrize("name", ODD)
async def test_what_is_no_message_passes_unchanged_and_ends_nothing(name: str) -> None:
    parts = (b"data: " + LOG % b"one" + b"\n\n", ODD[name], b"data: " + ANSWER + b"\n\n")
    async with serving(McpServer(raw(*parts))) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            body = await (await client.call()).read()
        assert own_ids_removed(body) == b"".join(parts).replace(b"%s", b"7")
        assert server.executions == 1


@pytest.mark.parametrize("name", EMPTY)
async def test_what_dispatches_nothing_disturbs_no_event(name: str) -> None:
    parts = (b"data: " + LOG % b"one" + b"\n\n", EMPTY[name], b"data: " + ANSWER + b"\n\n")
    async with serving(McpServer(raw(*parts))) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            messages = await (await client.call()).messages()
        assert [one.get("params", {}).get("data") for one in messages] == ["one", None]
        assert server.executions == 1


@pytest.mark.parametrize(("version", "primings"), [(PRIMED, 1), ("2025-06-18", 0)])
async def test_the_servers_priming_becomes_one_of_the_proxys_for_those_who_know_it(
    version: str, primings: int
) -> None:
    play = raw(b"id: s/0\nretry: 3000\ndata:\n\n", b"data: " + ANSWER + b"\n\n")
    async with (
        serving(McpServer(play)) as server,
        guarding(server.port) as proxy,
        Client(proxy.port, version=version) as client,
    ):
        await client.open()
        events = [event async for event in (await client.call()).events()]
    assert sum(event.data == b"" and event.id is not None for event in events) == primings
    assert sum(b"retry: 3000" in event.raw for event in events) == 1
    assert events[-1].message["result"]
    assert all(b"s/0" not in event.raw for event in events)


# what the server's ids do to the cursor that a resume is asked with
CURSORS = {
    "an id without data": ([b"id: 9\n\n"], "9"),
    "an empty id": ([b"id: 8\ndata: %l\n\n", b"id:\n\n"], None),
    "an id with a NUL": ([b"id: 8\ndata: %l\n\n", b"id: a\0b\ndata: %l\n\n"], "8"),
    "an id again": ([b"id: 8\ndata: %l\n\n", b"id: 9\ndata: %l\n\n"], "9"),
    "an id without a space": ([b"id:8\ndata: %l\n\n"], "8"),
    "an id with two spaces": ([b"id:  8\ndata: %l\n\n"], " 8"),
    "an event that is not whole": ([b"id: 8\ndata: %l\n\n", b"id: 9\ndata: %l\n"], "8"),
}


@pytest.mark.parametrize("name", CURSORS)
async def test_the_cursor_follows_the_rules_of_event_streams(name: str) -> None:
    parts, expected = CURSORS[name]
    first = raw(*(part.replace(b"%l", LOG % b"one") for part in parts), cut=True)

    async def play(leg: Leg) -> None:
        await (first if leg.run.number == 1 else honest)(leg)

    async def gone(leg: Leg) -> None:
        await leg.refuse(405)

    server = McpServer(play, gone)
    async with serving(server), guarding(server.port) as proxy:
        await body_of_a_call(proxy.port)
        asked = [one.head for one in server.requests if one.method == "GET"]
        if expected is None:
            assert asked == []
        else:
            assert len(asked) == 1
            assert b"\r\nlast-event-id: " + expected.encode() + b"\r\n" in asked[0].replace(
                b"Last-Event-ID", b"last-event-id"
            )
        assert server.executions == 2


# encodings


async def test_a_guarded_request_asks_for_no_coding_whatever_the_client_asked_for() -> None:
    server = McpServer(honest)
    async with serving(server), guarding(server.port) as proxy:
        for asked in ((), (("Accept-Encoding", "gzip"),), (("accept-encoding", "br, zstd"),)):
            async with Client(proxy.port, headers=asked) as client:
                await client.open()
                answer = await client.call()
                assert answer.header("content-encoding") is None
                await answer.read()
        codings = [
            [value for name, value in one.headers if name.lower() == "accept-encoding"]
            for one in server.requests
        ]
        assert codings == [["identity"]] * len(codings)


async def test_the_first_event_is_there_before_the_second_is_made() -> None:
    """Nothing is gathered: the server makes each event only when the client has the one before it."""
    has_read = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        for step in range(1, 6):
            await leg.progress(step)
            await has_read.wait()
            has_read.clear()
        await leg.answer()
        await leg.end()

    server = McpServer(play, rejoin, ids=Ids.NONE)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        for step in range(1, 6):
            assert (await answer.next_message())["params"]["progress"] == step
            has_read.set()
        assert outcome(await answer.messages()) == "run 1 done"
