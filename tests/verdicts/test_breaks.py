"""Each row about a leg that broke (`BREAK_TABLE`), over sockets."""

from __future__ import annotations

import pytest

from epochgate.core.axes import Break, Provable, Strikes
from tests.support.client import Truncated
from tests.support.server import Epochs, Ids, McpServer
from tests.verdicts.rows import break_row
from tests.verdicts.stage import AGAIN, ONCE, listen, scripted, staged
from tests.verdicts.steps import (
    BROKEN,
    TOLD,
    WHOLE,
    Step,
    announces_poll,
    answer,
    begins_a_large_answer,
    cut,
    end,
    in_turn,
    last_event_again,
    no_message,
    progress,
    reset,
    stream,
    wait_until,
)

REJOINED = stream(progress(2), answer(), end)
POLLING = stream(progress(1), announces_poll(), end)


def is_cancelled(server: McpServer) -> bool:
    return server.counts["notifications/cancelled"] > 0


async def test_a_leg_that_ends_behind_a_delete_is_no_break() -> None:
    """R25: the call gets its error, and nothing is resumed, healed or sent again.

    The row `session_ended` says so too; by the time a leg could break its stream is over.
    """
    async with staged(
        scripted(stream(progress(1), wait_until(lambda server: not server.sessions), end))
    ) as stage:
        answered, _ = await stage.begin(1)
        assert (await stage.client.delete()).status == 204
        assert await listen(answered) == ["error -32051 session_ended"]
        assert await stage.counted() == {}
        assert stage.server.found() == ONCE
        assert stage.server.counts["GET"] == 0


@break_row("event_too_large", how=Break.INSIDE_EVENT)
async def test_a_leg_that_breaks_inside_a_large_event_is_broken_off_towards_the_client() -> None:
    """Half an event must not look whole; the client's return gets the error (R9)."""
    server = scripted(stream(progress(1), begins_a_large_answer, cut))
    async with staged(server, max_event_bytes="2KiB") as stage:
        answered, cursor = await stage.begin(1)
        with pytest.raises((Truncated, ConnectionError)):
            await answered.messages()
        assert await listen(await stage.client.get(cursor)) == ["error -32050 event_too_large"]
        assert await stage.counted() == {
            "upstream request fail event_too_large": 1,
            "client request resume journal": 1,
        }
        assert stage.server.found() == ONCE


@break_row("nothing_owed")
async def test_a_leg_that_breaks_behind_a_cancel_is_the_end_of_its_stream() -> None:
    """R29: at most one answer, and nothing is run again."""
    async with staged(scripted(stream(progress(1), wait_until(is_cancelled), cut))) as stage:
        answered, _ = await stage.begin(1)
        params = {"requestId": 7, "reason": "enough"}
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert (await stage.client.post(cancel)).status == 202
        assert await listen(answered) == []
        assert await stage.counted() == {}
        assert stage.server.found() == ONCE
        assert stage.server.counts["GET"] == 0


@pytest.mark.parametrize("how", [cut, reset])
async def test_a_leg_that_breaks_behind_its_answer_is_no_break(how: Step) -> None:
    """W7: a server that wrote its answer may go."""
    async with staged(scripted(stream(progress(1), answer(), how))) as stage:
        assert await stage.call() == ["run 1 step 1", "run 1 done"]
        assert await stage.counted() == {}
        assert stage.server.found() == ONCE
        assert stage.server.counts["GET"] == 0


@break_row("empty_resume")
async def test_three_resumes_without_any_event_restart_the_call() -> None:
    async with staged(scripted(in_turn(BROKEN, WHOLE), stream(end))) as stage:
        assert await stage.call() == [*TOLD, "notice empty_resume", "run 2 done (empty_resume)"]
        assert await stage.counted() == {"upstream request restart empty_resume": 1}
        assert stage.server.found() == AGAIN
        assert stage.server.counts["GET"] == 3


@break_row("not_resumable", strikes=Strikes.SPENT)
@pytest.mark.parametrize(
    ("what", "dropped"),
    [(last_event_again, "duplicate"), (no_message, "unproven")],
    ids=["old", "unreadable"],
)
async def test_three_resumes_without_a_new_message_restart_the_call(what: Step, dropped: str) -> None:
    async with staged(scripted(in_turn(BROKEN, WHOLE), stream(what, end))) as stage:
        assert await stage.call() == [*TOLD, "notice not_resumable", "run 2 done (not_resumable)"]
        assert await stage.counted() == {
            f"dropped {dropped}": 3,
            "upstream request restart not_resumable": 1,
        }
        assert stage.server.found() == AGAIN
        assert stage.server.counts["GET"] == 3


@break_row("server_poll", provable=Provable.EPOCH_AND_ID)
@pytest.mark.parametrize("setting", ["accept", "restart"])
async def test_an_announced_end_of_a_server_with_epochs_is_a_poll_that_is_proven(setting: str) -> None:
    async with staged(scripted(POLLING, REJOINED), poll_without_epoch=setting) as stage:
        assert await stage.call() == ["run 1 step 1", "run 1 step 2", "run 1 done"]
        assert await stage.counted() == {"upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE


@break_row("no_upstream_id")
async def test_a_stream_that_gave_no_event_id_is_restarted() -> None:
    async with staged(scripted(in_turn(BROKEN, WHOLE), ids=Ids.NONE)) as stage:
        assert await stage.call() == [*TOLD, "notice no_upstream_id", "run 2 done (no_upstream_id)"]
        assert await stage.counted() == {"upstream request restart no_upstream_id": 1}
        assert stage.server.found() == AGAIN
        assert stage.server.counts["GET"] == 0


@break_row("server_poll", provable=Provable.ID_ONLY)
async def test_an_announced_end_of_a_server_without_epochs_is_a_poll() -> None:
    async with staged(scripted(POLLING, REJOINED, epochs=Epochs.NEVER)) as stage:
        assert await stage.call() == ["run 1 step 1", "run 1 step 2", "run 1 done (unproven)"]
        assert await stage.counted() == {"upstream request resume server_poll": 1, "unproven_polls": 1}
        assert stage.server.found() == ONCE


@break_row("poll_unproven")
@pytest.mark.parametrize(
    ("ids", "setting"), [(Ids.COUNTED, "restart"), (Ids.NONE, "accept")], ids=["by setting", "without ids"]
)
async def test_a_poll_that_cannot_be_accepted_restarts_the_call(ids: Ids, setting: str) -> None:
    server = scripted(in_turn(POLLING, WHOLE), REJOINED, epochs=Epochs.NEVER, ids=ids)
    async with staged(server, poll_without_epoch=setting) as stage:
        assert await stage.call() == ["run 1 step 1", "notice poll_unproven", "run 2 done (poll_unproven)"]
        assert await stage.counted() == {"upstream request restart poll_unproven": 1}
        assert stage.server.found() == AGAIN
        assert stage.server.counts["GET"] == 0


@break_row("resume")
@pytest.mark.parametrize("how", [cut, reset, end], ids=["cut", "reset", "an end that nothing announced"])
async def test_a_leg_that_breaks_with_epoch_and_id_known_is_resumed(how: Step) -> None:
    async with staged(scripted(stream(progress(1), how), REJOINED)) as stage:
        assert await stage.call() == ["run 1 step 1", "run 1 step 2", "run 1 done"]
        assert await stage.counted() == {"upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE
        assert stage.server.requests[-1].header("last-event-id") == "1_1"


@break_row("no_epoch_captured")
@pytest.mark.parametrize("ids", [Ids.COUNTED, Ids.NONE])
async def test_a_leg_that_breaks_where_no_epoch_is_stated_restarts_the_call(ids: Ids) -> None:
    server = scripted(in_turn(BROKEN, WHOLE), REJOINED, epochs=Epochs.NEVER, ids=ids)
    async with staged(server) as stage:
        assert await stage.call() == [*TOLD, "notice no_epoch_captured", "run 2 done (no_epoch_captured)"]
        assert await stage.counted() == {"upstream request restart no_epoch_captured": 1}
        assert stage.server.found() == AGAIN
        assert stage.server.counts["GET"] == 0
