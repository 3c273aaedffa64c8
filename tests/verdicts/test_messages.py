"""Each row about a message that came (`MESSAGE_TABLE`), over sockets."""

from __future__ import annotations

import asyncio

import pytest

from epochgate.core.axes import Asked, Claim, IdStep, Size
from tests.support.server import Epochs, Play
from tests.verdicts.rows import message_row
from tests.verdicts.stage import AGAIN, ONCE, listen, scripted, staged, told
from tests.verdicts.steps import (
    BROKEN,
    OTHER_EPOCH,
    STEPS,
    TOLD,
    WHOLE,
    Step,
    announces_poll,
    answer,
    answer_to,
    answering_json,
    asks,
    begins_a_large_event,
    cut,
    end,
    error_without_id,
    hanging,
    in_turn,
    large_answer,
    last_event_again,
    log,
    no_message,
    progress,
    progress_of,
    stream,
    wait_for,
)

NEXT = STEPS + 1


# --- size -------------------------------------------------------------------------------------------


@message_row("unbroken", size=Size.TOO_LARGE)
async def test_a_large_event_on_a_leg_that_never_broke_passes_as_it_comes() -> None:
    """Its id is the client's (R9)."""
    async with staged(scripted(stream(progress(1), large_answer, end)), max_event_bytes="2KiB") as stage:
        assert await stage.call() == ["run 1 step 1", "run 1 done"]
        assert await stage.counted() == {}
        assert stage.server.found() == ONCE


@message_row("event_too_large")
async def test_an_event_too_large_on_a_resumed_leg_restarts_the_call() -> None:
    """R9: no byte of it passes unverified."""
    server = scripted(in_turn(BROKEN, WHOLE), stream(begins_a_large_event, hanging))
    async with staged(server, max_event_bytes="2KiB") as stage:
        assert await stage.call() == [*TOLD, "notice event_too_large", "run 2 done (event_too_large)"]
        assert await stage.counted() == {"upstream request restart event_too_large": 1}
        assert stage.server.found() == AGAIN


# --- stamp ------------------------------------------------------------------------------------------


@message_row("late")
@pytest.mark.parametrize("late", [answer_to(1), progress_of(1)], ids=["a second answer", "progress"])
async def test_what_belongs_to_an_answered_request_is_dropped(late: Step) -> None:
    server = scripted(in_turn(WHOLE, stream(late, answer(), end)))
    async with staged(server) as stage:
        assert await stage.call(1) == ["run 1 done"]
        assert await stage.call(2) == ["run 2 done"]
        assert await stage.counted() == {"dropped late": 1}
        assert stage.server.executions == 2


async def test_nothing_is_relayed_behind_the_answer_of_its_own_stream() -> None:
    async with staged(scripted(stream(answer(), progress(1), answer(), end))) as stage:
        assert await stage.call() == ["run 1 done"]
        assert stage.server.found() == ONCE


STRANGERS = pytest.mark.parametrize(
    "stranger",
    [answer_to(None), progress_of(None), answer_to(1)],
    ids=["a response nobody asked for", "progress of nothing", "a response to another call"],
)


@message_row("foreign")
@STRANGERS
async def test_a_strangers_message_on_a_leg_that_never_broke_is_dropped(stranger: Step) -> None:
    """R30: the call is healthy, and goes on."""
    go_on = asyncio.Event()
    first = stream(progress(1), wait_for(go_on), answer(), end)
    async with staged(scripted(in_turn(first, stream(stranger, answer(), end)))) as stage:
        other, _ = await stage.begin(1, number=1)
        assert await stage.call(2) == ["run 2 done"]
        go_on.set()
        assert await listen(other, 1) == ["run 1 done"]
        assert await stage.counted() == {"dropped foreign": 1}
        assert stage.server.executions == 2


@message_row("foreign_message")
@pytest.mark.parametrize(
    "stranger",
    [answer_to(None), progress_of(None), answer_to(1), progress_of(1)],
    ids=["an unknown response", "unknown progress", "another call's response", "another call's progress"],
)
async def test_a_strangers_message_on_a_resumed_leg_restarts_the_call(stranger: Step) -> None:
    go_on = asyncio.Event()
    first = stream(progress(1), wait_for(go_on), answer(), end)
    server = scripted(in_turn(first, stream(progress(1), cut), WHOLE), stream(stranger, answer(), end))
    async with staged(server) as stage:
        other, _ = await stage.begin(1, number=1)
        assert await stage.call(2) == [
            "run 2 step 1",
            "notice foreign_message",
            "run 3 done (foreign_message)",
        ]
        go_on.set()
        assert await listen(other, 1) == ["run 1 done"]
        assert await stage.counted() == {"upstream request restart foreign_message": 1}
        assert stage.server.executions == 3


@message_row("unproven", claim=Claim.UNREADABLE)
@pytest.mark.parametrize("what", [error_without_id, no_message])
async def test_what_nobody_can_attribute_is_dropped_on_a_resumed_leg(what: Step) -> None:
    async with staged(scripted(BROKEN, stream(what, answer(), end))) as stage:
        assert await stage.call() == [*TOLD, "run 1 done"]
        assert await stage.counted() == {"dropped unproven": 1, "upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE


# --- epoch ------------------------------------------------------------------------------------------


@message_row("drift")
@pytest.mark.parametrize(
    "call", [stream(answer(epoch=2), end), answering_json(epoch=2)], ids=["stream", "JSON"]
)
async def test_another_epoch_on_an_answer_that_nothing_went_before_is_relayed_as_drift(call: Play) -> None:
    """R2: it is one execution, of a session that was made anew between two calls."""
    async with staged(scripted(call)) as stage:
        assert await stage.call() == ["run 1 done (drift)"]
        assert await stage.counted() == {"epoch_drift": 1}
        assert stage.server.found() == ONCE


@message_row("epoch_mismatch")
@pytest.mark.parametrize(
    ("call", "resume"),
    [
        (stream(progress(1), answer(epoch=OTHER_EPOCH), end), hanging),
        (stream(progress(1), cut), stream(progress(2, epoch=OTHER_EPOCH), answer(), end)),
        (stream(progress(1), cut), stream(answer(epoch=OTHER_EPOCH), end)),
    ],
    ids=["unbroken", "resumed", "resumed, the answer"],
)
async def test_another_epoch_restarts_the_call_in_a_new_session(call: Play, resume: Play) -> None:
    async with staged(scripted(in_turn(call, WHOLE), resume)) as stage:
        assert await stage.call() == ["run 1 step 1", "notice epoch_mismatch", "run 2 done (epoch_mismatch)"]
        assert await stage.counted() == {"upstream request restart epoch_mismatch": 1}
        assert stage.server.found() == AGAIN


@message_row("unproven", claim=Claim.PLAIN)
async def test_a_log_that_states_no_epoch_is_dropped_on_a_resumed_leg() -> None:
    """R6: one that states it is relayed."""
    resume = stream(log("whose?", epoch=None), log("mine"), answer(), end)
    async with staged(scripted(BROKEN, resume)) as stage:
        assert await stage.call() == [*TOLD, "run 1 mine", "run 1 done"]
        assert await stage.counted() == {"dropped unproven": 1, "upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE


@message_row("unproven", claim=Claim.PLAIN)
async def test_a_log_is_not_proven_by_the_epoch_in_the_header_of_its_leg() -> None:
    """R7: that proves one moment. What carries a stamp of this call is relayed."""
    server = scripted(BROKEN, stream(log("whose?"), answer(), end), epochs=Epochs.HEADER)
    async with staged(server) as stage:
        assert await stage.call() == [*TOLD, "run 1 done"]
        assert await stage.counted() == {"dropped unproven": 1, "upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE


@message_row("unproven_request")
async def test_a_question_that_states_no_epoch_on_a_resumed_leg_restarts_the_call() -> None:
    server = scripted(in_turn(BROKEN, WHOLE), stream(asks(0, epoch=None), answer(), end))
    async with staged(server) as stage:
        assert await stage.call() == [*TOLD, "notice unproven_request", "run 2 done (unproven_request)"]
        assert await stage.counted() == {"upstream request restart unproven_request": 1}
        assert stage.server.found() == AGAIN


@message_row("no_epoch_on_event")
@pytest.mark.parametrize("message", [progress(NEXT, epoch=None), answer(epoch=None)])
async def test_a_stamped_message_without_the_epoch_on_a_resumed_leg_restarts_the_call(message: Step) -> None:
    server = scripted(in_turn(BROKEN, WHOLE), stream(message, end))
    async with staged(server) as stage:
        assert await stage.call() == [*TOLD, "notice no_epoch_on_event", "run 2 done (no_epoch_on_event)"]
        assert await stage.counted() == {"upstream request restart no_epoch_on_event": 1}
        assert stage.server.found() == AGAIN


# --- the server's own requests ----------------------------------------------------------------------


@message_row("duplicate", asked=Asked.OPEN)
async def test_a_question_that_is_asked_again_on_a_resumed_leg_is_dropped() -> None:
    server = scripted(stream(asks(0), cut), stream(asks(0), answer(), end))
    async with staged(server) as stage:
        assert await stage.call() == ["roots/list 0", "run 1 done"]
        assert await stage.counted() == {"dropped duplicate": 1, "upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE


@message_row("request_id_reset")
async def test_an_id_under_which_a_question_is_open_proves_that_the_session_was_made_anew() -> None:
    """R19: the call that asks it a second time is restarted."""
    server = scripted(in_turn(stream(asks(0), hanging), stream(asks(0), hanging), WHOLE))
    async with staged(server) as stage:
        await stage.begin(1, number=1)
        assert (await stage.call(2))[-1] in (
            "run 3 done (request_id_reset)",
            "run 4 done (request_id_reset)",
        )
        assert await stage.counted() == {"upstream request restart request_id_reset": 2}
        assert stage.server.counts["initialize"] == 2


# --- event ids --------------------------------------------------------------------------------------


@message_row("duplicate", step=IdStep.SAME)
async def test_the_last_event_again_on_a_resumed_leg_is_dropped() -> None:
    async with staged(scripted(BROKEN, stream(last_event_again, answer(), end))) as stage:
        assert await stage.call() == [*TOLD, "run 1 done"]
        assert await stage.counted() == {"dropped duplicate": 1, "upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE


@message_row("event_id_reset")
@pytest.mark.parametrize("event_id", [f"1_{STEPS}", "1_0"], ids=["seen with other bytes", "lower"])
async def test_an_event_id_that_goes_back_restarts_the_call_in_a_new_session(event_id: str) -> None:
    server = scripted(in_turn(BROKEN, WHOLE), stream(progress(NEXT, id=event_id), answer(), end))
    async with staged(server) as stage:
        assert await stage.call() == [*TOLD, "notice event_id_reset", "run 2 done (event_id_reset)"]
        assert await stage.counted() == {"upstream request restart event_id_reset": 1}
        assert stage.server.found() == AGAIN


@message_row("event_id_gap")
async def test_a_first_event_id_that_leaves_a_gap_restarts_the_call() -> None:
    server = scripted(in_turn(BROKEN, WHOLE), stream(progress(NEXT, id="1_6"), answer(), end))
    async with staged(server) as stage:
        assert await stage.call() == [*TOLD, "notice event_id_gap", "run 2 done (event_id_gap)"]
        assert await stage.counted() == {"upstream request restart event_id_gap": 1}
        assert stage.server.found() == AGAIN


@message_row("event_id_gap")
async def test_a_later_event_id_that_leaves_a_gap_restarts_the_call() -> None:
    server = scripted(in_turn(BROKEN, WHOLE), stream(progress(NEXT), answer(id="1_7"), end))
    async with staged(server) as stage:
        assert await stage.call() == [
            *TOLD,
            f"run 1 step {NEXT}",
            "notice event_id_gap",
            "run 2 done (event_id_gap)",
        ]
        assert await stage.counted() == {
            "upstream request resume epoch_match": 1,
            "upstream request restart event_id_gap": 1,
        }
        assert stage.server.found() == AGAIN


# --- accepted ---------------------------------------------------------------------------------------


@message_row("unbroken", size=None)
@pytest.mark.parametrize("epochs", list(Epochs))
async def test_a_call_whose_leg_never_broke_is_relayed_and_counts_nothing(epochs: Epochs) -> None:
    call = stream(progress(1), log("a line", epoch=None), answer(epoch=None), end)
    async with staged(scripted(call, epochs=epochs)) as stage:
        assert await stage.call() == ["run 1 step 1", "run 1 a line", "run 1 done"]
        assert await stage.counted() == {}
        assert stage.server.found() == ONCE


@message_row("unbroken", size=None)
async def test_progress_of_another_call_is_relayed_where_the_server_put_it() -> None:
    """R30: some servers have one channel for all notifications of a session."""
    go_on = asyncio.Event()
    first = stream(progress(1), wait_for(go_on), answer(), end)
    async with staged(scripted(in_turn(first, stream(progress_of(1), answer(), end)))) as stage:
        other, _ = await stage.begin(1, number=1)
        assert await stage.call(2) == ["run 2 elsewhere", "run 2 done"]
        go_on.set()
        assert await listen(other, 1) == ["run 1 done"]
        assert await stage.counted() == {}


@message_row("unbroken", size=None)
async def test_an_error_without_an_id_is_relayed_and_answers_nothing() -> None:
    async with staged(scripted(stream(error_without_id, answer(), end))) as stage:
        messages = await (await stage.client.call()).messages()
        assert told(messages) == ["error -32700 what?", "run 1 done"]
        assert await stage.counted() == {}


@message_row("server_poll")
async def test_what_an_announced_poll_brings_without_epochs_is_relayed_and_marked() -> None:
    call = stream(progress(1), announces_poll(), end)
    server = scripted(call, stream(progress(2), answer(), end), epochs=Epochs.NEVER)
    async with staged(server) as stage:
        assert await stage.call() == ["run 1 step 1", "run 1 step 2", "run 1 done (unproven)"]
        assert await stage.counted() == {"upstream request resume server_poll": 1, "unproven_polls": 1}
        assert stage.server.found() == ONCE


@message_row("epoch_match")
async def test_a_ping_on_a_resumed_leg_passes_without_the_epoch() -> None:
    """R6: it asks nothing, and proves nothing either."""
    server = scripted(BROKEN, stream(asks(0, "ping", epoch=None), answer(), end))
    async with staged(server) as stage:
        assert await stage.call() == [*TOLD, "ping 0", "run 1 done"]
        assert await stage.counted() == {"upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE


@message_row("epoch_match")
@pytest.mark.parametrize("epochs", [Epochs.META, Epochs.HEADER])
async def test_the_epoch_of_before_resumes_the_call(epochs: Epochs) -> None:
    server = scripted(BROKEN, stream(progress(NEXT), answer(), end), epochs=epochs)
    async with staged(server) as stage:
        assert await stage.call() == [*TOLD, f"run 1 step {NEXT}", "run 1 done"]
        assert await stage.counted() == {"upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE
