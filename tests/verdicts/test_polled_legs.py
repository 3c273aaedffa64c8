"""The rows for legs that broke, on one that was rejoined after a poll of a server without epochs (R4).

Nothing proves the session there, so that only what carries a stamp of the call is relayed.
"""

from __future__ import annotations

import pytest

from epochgate.core.axes import Claim, IdStep
from tests.support.server import Epochs, McpServer
from tests.verdicts.rows import message_row
from tests.verdicts.stage import AGAIN, ONCE, scripted, staged
from tests.verdicts.steps import (
    STEPS,
    TOLD,
    WHOLE,
    Step,
    announces_poll,
    answer,
    answer_to,
    asks,
    end,
    in_turn,
    last_event_again,
    log,
    progress,
    stream,
)

POLLING = stream(*(progress(step) for step in range(1, STEPS + 1)), announces_poll(), end)


def polled(first: Step) -> McpServer:
    """`first` is what the poll brings, then the answer."""
    return scripted(in_turn(POLLING, WHOLE), stream(first, answer(), end), epochs=Epochs.NEVER)


async def is_dropped(first: Step, reason: str) -> None:
    async with staged(polled(first)) as stage:
        assert await stage.call() == [*TOLD, "run 1 done (unproven)"]
        assert await stage.counted() == {
            f"dropped {reason}": 1,
            "upstream request resume server_poll": 1,
            "unproven_polls": 1,
        }
        assert stage.server.found() == ONCE


async def is_restarted(first: Step, reason: str) -> None:
    async with staged(polled(first)) as stage:
        assert await stage.call() == [*TOLD, f"notice {reason}", f"run 2 done ({reason})"]
        assert await stage.counted() == {f"upstream request restart {reason}": 1}
        assert stage.server.found() == AGAIN


@message_row("unproven", claim=Claim.PLAIN)
async def test_a_log_is_dropped() -> None:
    await is_dropped(log("whose?"), "unproven")


@message_row("duplicate", step=IdStep.SAME)
async def test_the_last_event_again_is_dropped() -> None:
    await is_dropped(last_event_again, "duplicate")


@message_row("unproven_request")
async def test_a_question_restarts_the_call() -> None:
    await is_restarted(asks(0), "unproven_request")


@message_row("foreign_message")
async def test_a_strangers_message_restarts_the_call() -> None:
    await is_restarted(answer_to(None), "foreign_message")


@message_row("event_id_gap")
async def test_an_event_id_that_leaves_a_gap_restarts_the_call() -> None:
    await is_restarted(progress(STEPS + 1, id="1_9"), "event_id_gap")


@message_row("event_id_reset")
@pytest.mark.parametrize("event_id", [f"1_{STEPS}", "1_0"], ids=["seen with other bytes", "lower"])
async def test_an_event_id_that_goes_back_restarts_the_call(event_id: str) -> None:
    await is_restarted(progress(STEPS + 1, id=event_id), "event_id_reset")
