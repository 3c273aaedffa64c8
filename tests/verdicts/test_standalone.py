"""The same rows on a standalone stream, which owes no answer: it is reopened, or its session healed."""

from __future__ import annotations

from tests.support.server import Epochs, McpServer, Play
from tests.verdicts.rows import answer_row, break_row, message_row
from tests.verdicts.stage import Stage, scripted, staged, told
from tests.verdicts.steps import (
    OTHER_EPOCH,
    answer_to,
    cut,
    hanging,
    in_turn,
    log,
    refusing,
    stream,
)

ONCE = {"initialize": 1, "initialized": 1, "executions": 0}
HEALED = {"initialize": 2, "initialized": 2, "executions": 0}
BROKEN = stream(log("a"), cut)
AGAIN = stream(log("z"), hanging)


def standing(resume: Play, epochs: Epochs = Epochs.META) -> McpServer:
    """A standalone stream that breaks once; `resume` answers its resume, `z` comes on a fresh one."""
    server = scripted(resume=resume, epochs=epochs)
    server.stand = in_turn(BROKEN, AGAIN)
    return server


async def heard(stage: Stage, count: int) -> list[str]:
    answered = await stage.client.get()
    assert answered.status == 200
    return told([await answered.next_message() for _ in range(count)])


@message_row("epoch_match")
@break_row("resume")
async def test_it_is_resumed_where_epoch_and_id_are_known() -> None:
    async with staged(standing(stream(log("b", id="0_2"), hanging))) as stage:
        assert await heard(stage, 2) == ["run 0 a", "run 0 b"]
        assert await stage.counted() == {"upstream standalone resume epoch_match": 1}
        assert stage.server.found() == ONCE


@message_row("epoch_mismatch")
async def test_another_epoch_on_it_heals_the_session_it_belongs_to() -> None:
    async with staged(standing(stream(log("b", epoch=OTHER_EPOCH), hanging))) as stage:
        assert await heard(stage, 2) == ["run 0 a", "run 0 z"]
        assert await stage.counted() == {"upstream standalone restart epoch_mismatch": 1}
        assert stage.server.found() == HEALED


@answer_row("session_gone")
async def test_a_session_that_is_gone_is_healed_while_somebody_listens() -> None:
    async with staged(standing(refusing(404))) as stage:
        assert await heard(stage, 2) == ["run 0 a", "run 0 z"]
        assert await stage.counted() == {"upstream standalone restart session_gone": 1}
        assert stage.server.found() == HEALED


@answer_row("unauthorized")
async def test_a_resume_refused_for_its_credentials_has_it_reopened() -> None:
    async with staged(standing(refusing(401))) as stage:
        assert await heard(stage, 2) == ["run 0 a", "run 0 z"]
        assert await stage.counted() == {"upstream standalone pass unauthorized": 1, "standalone_gaps": 1}
        assert stage.server.found() == ONCE


@message_row("foreign_message")
async def test_a_strangers_message_on_it_has_it_reopened() -> None:
    """R21: a verdict about the stream alone heals nothing."""
    async with staged(standing(stream(answer_to(None), hanging))) as stage:
        assert await heard(stage, 2) == ["run 0 a", "run 0 z"]
        assert await stage.counted() == {
            "upstream standalone restart foreign_message": 1,
            "standalone_gaps": 1,
        }
        assert stage.server.found() == ONCE


@break_row("no_epoch_captured")
async def test_it_is_reopened_where_no_epoch_is_stated() -> None:
    async with staged(standing(hanging, epochs=Epochs.NEVER)) as stage:
        assert await heard(stage, 2) == ["run 0 a", "run 0 z"]
        assert await stage.counted() == {
            "upstream standalone restart no_epoch_captured": 1,
            "standalone_gaps": 1,
        }
        assert stage.server.found() == ONCE
