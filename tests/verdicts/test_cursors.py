"""Each row about a cursor that a client presents (`CURSOR_TABLE`), over sockets."""

from __future__ import annotations

import asyncio

import pytest

from epochgate.core.axes import Half, Names, Position
from tests.support.server import Epochs
from tests.verdicts.rows import cursor_row
from tests.verdicts.stage import ONCE, listen, scripted, staged, told
from tests.verdicts.steps import (
    WHOLE,
    answer,
    cut,
    end,
    evict,
    hanging,
    in_turn,
    log,
    progress,
    stream,
    wait_for,
)


@cursor_row("cursor_unknown")
@pytest.mark.parametrize("cursor", ["x", "-1", "07", "1.5", str(2**53), str(2**52 - 1), "1_1"])
async def test_a_cursor_that_names_nothing_of_the_session_is_refused(cursor: str) -> None:
    async with staged(scripted(stream(progress(1), answer(), end))) as stage:
        await stage.call()
        refused = await stage.client.get(cursor)
        assert refused.status == 400
        assert (await refused.read()) == b"this Last-Event-ID names no stream of this session"
        assert await stage.counted() == {"client request refuse cursor_unknown": 1, "unknown_cursors": 1}
        assert stage.server.counts["GET"] == 0


async def test_an_empty_cursor_is_no_cursor() -> None:
    """It asks for the standalone stream, which this server does not have."""
    async with staged(scripted()) as stage:
        assert (await stage.client.get("")).status == 405
        assert await stage.counted() == {}
        assert stage.server.requests[-1].header("last-event-id") is None


@cursor_row("expired", position=None)
async def test_an_answer_that_is_no_longer_kept_is_an_error_on_return() -> None:
    async with staged(scripted(stream(progress(1), answer(), end)), retain="0.05s") as stage:
        answered, cursor = await stage.begin(1)
        await listen(answered)
        await stage.until_forgotten()
        returned = await stage.client.get(cursor)
        assert returned.status == 200
        assert await listen(returned) == ["error -32050 expired"]
        assert await stage.counted() == {"client request fail expired": 1}
        assert stage.server.found() == ONCE


@cursor_row("expired", position=None)
async def test_a_stream_that_was_not_held_so_long_is_an_error_on_return() -> None:
    async with staged(scripted(stream(progress(1), hanging)), hold="0.05s") as stage:
        answered, cursor = await stage.begin(1)
        answered.reset()
        await stage.until_forgotten()
        returned = await stage.client.get(cursor)
        assert returned.status == 200
        assert await listen(returned) == ["error -32050 expired"]
        assert await stage.counted() == {"client request fail expired": 1}
        assert stage.server.found() == ONCE


@cursor_row("superseded", half=Half.SUPERSEDED)
async def test_a_cursor_of_a_restarted_stream_leads_to_the_start_of_the_one_that_took_its_place() -> None:
    go_on = asyncio.Event()
    again = stream(progress(2), wait_for(go_on), answer(), end)
    server = scripted(in_turn(stream(progress(1), cut), again), epochs=Epochs.NEVER)
    async with staged(server) as stage:
        answered, old = await stage.begin(1)
        assert told([await answered.next_message() for _ in range(2)]) == [
            "notice no_epoch_captured",
            "run 2 step 2",
        ]
        answered.reset()
        returned = await stage.client.get(old)
        go_on.set()
        assert await listen(returned) == [
            "notice no_epoch_captured",
            "run 2 step 2",
            "run 2 done (no_epoch_captured)",
        ]
        assert await stage.counted() == {
            "upstream request restart no_epoch_captured": 1,
            "client request resume superseded": 1,
        }
        assert stage.server.executions == 2


@cursor_row("superseded", position=Position.BEYOND)
async def test_a_cursor_beyond_what_was_given_out_is_followed_by_what_comes_next() -> None:
    """With the memory store only a client that makes one up has it: what it skips is its own choice."""
    go_on = asyncio.Event()
    server = scripted(stream(progress(1), progress(2), wait_for(go_on), progress(3), answer(), end))
    async with staged(server) as stage:
        answered, cursor = await stage.begin(2)
        answered.reset()
        returned = await stage.client.get(str(int(cursor) + 10))
        assert returned.status == 200
        go_on.set()
        assert await listen(returned) == ["run 1 step 3", "run 1 done"]
        assert await stage.counted() == {"client request resume superseded": 1}
        assert stage.server.found() == ONCE


@cursor_row("journal", names=None)
async def test_a_client_that_comes_back_to_a_running_stream_is_given_what_it_missed() -> None:
    go_on = asyncio.Event()
    server = scripted(stream(progress(1), progress(2), wait_for(go_on), progress(3), answer(), end))
    async with staged(server) as stage:
        answered, cursor = await stage.begin(1)
        answered.reset()
        returned = await stage.client.get(cursor)
        assert told([await returned.next_message()]) == ["run 1 step 2"]
        go_on.set()
        assert await listen(returned) == ["run 1 step 3", "run 1 done"]
        assert await stage.counted() == {"client request resume journal": 1}
        assert stage.server.found() == ONCE
        assert stage.server.counts["GET"] == 0


@cursor_row("journal", names=None)
async def test_a_finished_stream_of_an_old_generation_is_served_from_its_own_journal() -> None:
    """R11: a cursor names its stream, whatever the session is now."""
    first = stream(progress(1), answer(), evict, end)
    async with staged(scripted(in_turn(first, WHOLE))) as stage:
        answered, cursor = await stage.begin(1)
        assert await listen(answered) == ["run 1 done"]
        assert await stage.call(8) == ["run 2 done (session_gone)"]
        returned = await stage.client.get(cursor)
        assert await listen(returned) == ["run 1 done"]
        assert await stage.counted() == {
            "upstream request restart session_gone": 1,
            "client request resume journal": 1,
        }
        assert stage.server.executions == 2


@cursor_row("journal", names=Names.STANDALONE)
async def test_a_cursor_of_the_standalone_stream_is_followed_by_what_came_since() -> None:
    server = scripted()
    server.stand = stream(log("a"), log("b"), hanging)
    async with staged(server) as stage:
        standing = await stage.client.get()
        event = await standing.next_event()
        assert event is not None
        standing.reset()
        returned = await stage.client.get(event.id)
        assert told([event.message, await returned.next_message()]) == ["run 0 a", "run 0 b"]
        assert await stage.counted() == {"client standalone resume journal": 1}
        assert stage.server.counts["GET"] == 1


@cursor_row("expired", position=Position.EVICTED)
async def test_a_cursor_behind_which_events_were_evicted_is_answered_with_an_error() -> None:
    """R13: what was delivered may go when the journal is full; its client is not told half of it."""
    steps = 40
    server = scripted(stream(*(progress(step) for step in range(steps)), answer(), end))
    async with staged(server, max_event_bytes="1KiB", journal_stream="1KiB") as stage:
        answered, cursor = await stage.begin(1)
        assert len(await listen(answered)) == steps
        returned = await stage.client.get(cursor)
        assert returned.status == 200
        assert await listen(returned) == ["error -32050 expired"]
        counted = await stage.counted()
        assert counted.pop("journal_evictions") > 0
        assert counted == {"client request fail expired": 1}
        assert stage.server.found() == ONCE


@cursor_row("finished")
async def test_the_cursor_of_the_last_event_of_a_finished_stream_gets_405() -> None:
    async with staged(scripted(stream(progress(1), answer(), end))) as stage:
        answered, cursor = await stage.begin(2)
        assert await listen(answered) == []
        refused = await stage.client.get(cursor)
        assert (refused.status, refused.header("allow")) == (405, "POST, DELETE")
        assert await stage.counted() == {"client request end finished": 1}
        assert stage.server.found() == ONCE
