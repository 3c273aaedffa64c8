"""The rulings that are made outside the tables (`OUTSIDE`), over sockets."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.server import Epochs, Play
from tests.verdicts.rows import outside_row
from tests.verdicts.stage import AGAIN, ONCE, listen, scripted, staged, told
from tests.verdicts.steps import (
    WHOLE,
    announces_poll,
    answer_behind_a_log,
    asks,
    begins_a_large_question,
    end,
    evict,
    hanging,
    in_turn,
    log,
    progress,
    refusing,
    stream,
)

ASKING = stream(asks(0), hanging)


# --- a question that can have no answer -------------------------------------------------------------


@outside_row("question_void")
async def test_a_question_whose_answer_finds_the_session_gone_restarts_the_call() -> None:
    """R18: the waiting call can never end."""
    async with staged(scripted(in_turn(stream(asks(0), evict, hanging), WHOLE))) as stage:
        answered, _ = await stage.begin(1)
        assert await stage.reply(0) == 202
        assert await listen(answered) == ["notice question_void", "run 2 done (question_void)"]
        assert await stage.counted() == {"upstream request restart question_void": 1}
        assert stage.server.found() == AGAIN


@outside_row("question_void")
async def test_a_question_of_a_session_that_was_replaced_meanwhile_restarts_the_call() -> None:
    """Its answer is acknowledged, and goes to nobody."""
    async with staged(scripted(in_turn(stream(asks(0), evict, hanging), WHOLE))) as stage:
        answered, _ = await stage.begin(1, number=1)
        assert await stage.call(2) == ["run 2 done (session_gone)"]
        assert await stage.reply(0) == 202
        assert await listen(answered, 1) == ["notice question_void", "run 3 done (question_void)"]
        assert await stage.counted() == {
            "upstream request restart session_gone": 1,
            "upstream request restart question_void": 1,
            "dropped stale_answer": 1,
        }
        assert stage.server.counts["initialize"] == 2
        assert [
            one.message for one in stage.server.requests if "roots" in one.message.get("result", {})
        ] == []


@outside_row("request_id_reset")
async def test_the_call_whose_open_question_is_asked_by_another_is_restarted_too() -> None:
    """R19: the session was made anew; who answers which of the two cannot be known."""
    async with staged(scripted(in_turn(ASKING, ASKING, WHOLE))) as stage:
        first, _ = await stage.begin(1, number=1)
        second = await stage.client.call(2)
        for number, answered in ((1, first), (2, second)):
            notice, last = await listen(answered, number)
            assert notice == "notice request_id_reset"
            assert last in ("run 3 done (request_id_reset)", "run 4 done (request_id_reset)")
        assert await stage.counted() == {"upstream request restart request_id_reset": 2}
        assert stage.server.counts["initialize"] == 2
        assert stage.server.executions == 4


# --- the session of a POST, of a GET, or behind a ping ----------------------------------------------


@outside_row("session_gone")
async def test_a_call_that_finds_its_session_gone_is_run_once_in_a_new_one() -> None:
    async with staged(scripted()) as stage:
        stage.server.evict()
        assert await stage.call() == ["run 1 done (session_gone)"]
        assert await stage.counted() == {"upstream request restart session_gone": 1}
        assert stage.server.found() == {"initialize": 2, "initialized": 2, "executions": 1}


@outside_row("session_gone")
async def test_a_lost_session_that_is_to_be_surfaced_is_counted_and_shown() -> None:
    async with staged(scripted(), session_loss="surface") as stage:
        stage.server.evict()
        refused = await stage.client.call()
        assert (refused.status, await refused.read()) == (404, b"no such session")
        assert await stage.counted() == {"upstream request restart session_gone": 1}
        assert stage.server.found() == {"initialize": 1, "initialized": 1, "executions": 0}


@outside_row("session_gone")
async def test_a_ping_that_finds_the_session_of_a_silent_call_gone_restarts_it() -> None:
    server = scripted(in_turn(stream(progress(1), evict, hanging), WHOLE))
    async with staged(server, silence="0.05s") as stage:
        assert await stage.call() == ["run 1 step 1", "notice session_gone", "run 2 done (session_gone)"]
        assert await stage.counted() == {"upstream request restart session_gone": 1}
        assert stage.server.found() == AGAIN


@outside_row("session_gone")
async def test_a_get_that_finds_the_session_gone_is_given_the_stream_of_a_new_one() -> None:
    server = scripted()
    server.stand = stream(log("welcome"), hanging)
    async with staged(server) as stage:
        stage.server.evict()
        standing = await stage.client.get()
        assert standing.status == 200
        assert told([await standing.next_message()]) == ["run 0 welcome"]
        assert await stage.counted() == {"upstream standalone restart session_gone": 1}
        assert stage.server.found() == {"initialize": 2, "initialized": 2, "executions": 0}


# --- a server out of reach, or silent ---------------------------------------------------------------


@outside_row("upstream_lost")
async def test_a_call_that_could_not_be_sent_by_the_deadline_is_sent_in_a_new_session() -> None:
    """Not a byte of it was written: it did not run."""
    async with staged(scripted(), resume_deadline="0.2s", resume_headers="0.1s") as stage:
        await stage.server.stop()
        asked = asyncio.ensure_future(stage.client.call())
        await stage.until_counted("upstream request restart upstream_lost")
        await stage.server.start()
        assert await listen(await asked) == ["run 1 done (stream_restart)"]  # what began the heal
        assert await stage.counted() == {"upstream request restart upstream_lost": 1}
        assert stage.server.found() == {"initialize": 2, "initialized": 2, "executions": 1}


@outside_row("not_resumable")
async def test_an_answer_in_one_batch_with_a_log_restarts_the_call_after_a_poll() -> None:
    """Nothing tells whose the log is; without it the batch would not be relayed whole (R41)."""
    polling = stream(progress(1), announces_poll(), end)
    server = scripted(in_turn(polling, WHOLE), stream(answer_behind_a_log, end), epochs=Epochs.NEVER)
    async with staged(server) as stage:
        assert await stage.call() == ["run 1 step 1", "notice not_resumable", "run 2 done (not_resumable)"]
        assert await stage.counted() == {"upstream request restart not_resumable": 1}
        assert stage.server.found() == AGAIN


@outside_row("event_too_large")
async def test_a_large_event_that_would_have_to_be_whole_ends_its_call() -> None:
    """A question's id is mapped, which needs the whole of it (R9, R19)."""
    server = scripted(stream(progress(1), begins_a_large_question, hanging))
    async with staged(server, max_event_bytes="2KiB") as stage:
        assert await stage.call() == ["run 1 step 1", "error -32050 event_too_large"]
        assert await stage.counted() == {"upstream request fail event_too_large": 1}
        assert stage.server.found() == ONCE


@outside_row("content_coding")
async def test_an_answer_in_a_coding_that_cannot_be_read_is_an_error() -> None:
    """Though `identity` was asked for (W16)."""
    coded = refusing(200, b"\x0b\x02\x80", ("content-type", "application/json"), ("content-encoding", "br"))
    async with staged(scripted(coded)) as stage:
        assert await stage.call() == ["error -32050 content_coding"]
        assert await stage.counted() == {"upstream request fail content_coding": 1}
        assert stage.server.found() == ONCE


@outside_row("upstream_silent")
@pytest.mark.parametrize(
    ("call", "heard"),
    [(hanging, []), (stream(progress(1), hanging), ["run 1 step 1"])],
    ids=["no head", "stream"],
)
async def test_a_silence_without_end_is_an_error_though_the_session_answers(
    call: Play, heard: list[str]
) -> None:
    async with staged(scripted(call), silence="0.1s", max_silence="0.6s") as stage:
        assert await stage.call() == [*heard, "error -32050 upstream_silent"]
        assert await stage.counted() == {"upstream request fail upstream_silent": 1}
        assert stage.server.found() == ONCE
        assert stage.server.counts["ping"] > 0
