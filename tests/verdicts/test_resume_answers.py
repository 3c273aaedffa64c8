"""Each row about the answer to a resume (`ANSWER_TABLE`), over sockets."""

from __future__ import annotations

import pytest

from epochgate.core.axes import Shape, Time
from tests.support.server import Epochs, Play
from tests.verdicts.rows import answer_row
from tests.verdicts.stage import AGAIN, ONCE, scripted, staged
from tests.verdicts.steps import (
    BROKEN,
    TOLD,
    WHOLE,
    answer,
    cut,
    end,
    in_turn,
    refusing,
    stream,
    wait_until,
)

SOON = {"resume_deadline": "0.6s", "resume_headers": "0.3s"}
REJOINED = stream(answer(), end)
NO_METHOD = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"session? no such method"}}'
NO_SESSION = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session ID provided"}}'


@answer_row("unauthorized")
@pytest.mark.parametrize("status", [401, 403])
async def test_a_resume_refused_for_its_credentials_is_never_healed(status: int) -> None:
    async with staged(scripted(BROKEN, refusing(status, b"who?"))) as stage:
        assert await stage.call() == [*TOLD, "error -32050 unauthorized"]
        assert await stage.counted() == {"upstream request pass unauthorized": 1}
        assert stage.server.found() == ONCE


@answer_row("session_gone")
@pytest.mark.parametrize(
    "resume",
    [refusing(404, b"no such session"), refusing(400, NO_SESSION), refusing(410, NO_SESSION)],
    ids=["404", "400 that names the session", "410 that names the session"],
)
async def test_a_resume_that_finds_the_session_gone_restarts_the_call_in_a_new_one(resume: Play) -> None:
    async with staged(scripted(in_turn(BROKEN, WHOLE), resume)) as stage:
        assert await stage.call() == [*TOLD, "notice session_gone", "run 2 done (session_gone)"]
        assert await stage.counted() == {"upstream request restart session_gone": 1}
        assert stage.server.found() == AGAIN


@answer_row("busy")
@pytest.mark.parametrize("status", [409, 429, 502, 503, 504])
async def test_a_busy_server_is_asked_again(status: int) -> None:
    """R23: it has not noticed the break yet, or it is just coming up."""
    async with staged(scripted(BROKEN, in_turn(refusing(status), REJOINED))) as stage:
        assert await stage.call() == [*TOLD, "run 1 done"]
        assert await stage.counted() == {"upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE
        assert stage.server.counts["GET"] == 2


@answer_row("not_resumable", shape=Shape.BUSY)
async def test_a_server_that_is_busy_until_the_deadline_restarts_the_call() -> None:
    async with staged(scripted(in_turn(BROKEN, WHOLE), refusing(503)), **SOON) as stage:
        assert await stage.call() == [*TOLD, "notice not_resumable", "run 2 done (not_resumable)"]
        assert await stage.counted() == {"upstream request restart not_resumable": 1}
        assert stage.server.found() == AGAIN
        assert stage.server.counts["GET"] > 1


@answer_row("unreachable", time=Time.LEFT)
async def test_a_resume_that_is_cut_before_its_head_is_tried_again() -> None:
    async with staged(scripted(BROKEN, in_turn(cut, REJOINED))) as stage:
        assert await stage.call() == [*TOLD, "run 1 done"]
        assert await stage.counted() == {"upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE
        assert stage.server.counts["GET"] == 2


@answer_row("upstream_lost")
async def test_a_server_out_of_reach_until_the_deadline_restarts_the_call() -> None:
    async with staged(scripted(in_turn(BROKEN, WHOLE), cut), **SOON) as stage:
        assert await stage.call() == [*TOLD, "notice upstream_lost", "run 2 done (upstream_lost)"]
        assert await stage.counted() == {"upstream request restart upstream_lost": 1}
        assert stage.server.found() == AGAIN
        assert stage.server.counts["GET"] > 1


@answer_row("cursor_unknown")
async def test_a_refused_cursor_restarts_the_call() -> None:
    async with staged(scripted(in_turn(BROKEN, WHOLE), refusing(400, b"what id?"))) as stage:
        assert await stage.call() == [*TOLD, "notice cursor_unknown", "run 2 done (cursor_unknown)"]
        assert await stage.counted() == {"upstream request restart cursor_unknown": 1}
        assert stage.server.found() == AGAIN


@answer_row("not_resumable", shape=Shape.UNSUITABLE)
@pytest.mark.parametrize(
    "resume",
    [
        refusing(405),
        refusing(200, b"<html>"),
        refusing(202),
        refusing(204),
        refusing(307, b"", ("location", "/elsewhere")),
        refusing(500),
        refusing(404, NO_METHOD),
    ],
    ids=["405", "200 that is no stream", "202", "204", "307", "500", "404: no such method"],
)
async def test_an_answer_that_can_be_no_resume_restarts_the_call(resume: Play) -> None:
    async with staged(scripted(in_turn(BROKEN, WHOLE), resume)) as stage:
        assert await stage.call() == [*TOLD, "notice not_resumable", "run 2 done (not_resumable)"]
        assert await stage.counted() == {"upstream request restart not_resumable": 1}
        assert stage.server.found() == AGAIN
        assert stage.server.counts["GET"] == 1


@answer_row("session_replaced")
async def test_an_answer_that_names_another_session_restarts_the_call_in_a_new_one() -> None:
    """Whatever epochs and ids it states behind that."""
    resume = stream(answer(), end, mcp_session_id="another")
    async with staged(scripted(in_turn(BROKEN, WHOLE), resume)) as stage:
        assert await stage.call() == [*TOLD, "notice session_replaced", "run 2 done (session_replaced)"]
        assert await stage.counted() == {"upstream request restart session_replaced": 1}
        assert stage.server.found() == AGAIN


@answer_row("epoch_mismatch")
async def test_another_epoch_in_the_header_restarts_the_call_in_a_new_session() -> None:
    resume = stream(answer(), end, mcp_session_epoch="99")
    async with staged(scripted(in_turn(BROKEN, WHOLE), resume, epochs=Epochs.HEADER)) as stage:
        assert await stage.call() == [*TOLD, "notice epoch_mismatch", "run 2 done (epoch_mismatch)"]
        assert await stage.counted() == {"upstream request restart epoch_mismatch": 1}
        assert stage.server.found() == AGAIN


@answer_row("no_message_yet")
async def test_a_resume_that_brings_no_message_yet_is_waited_for_and_its_session_asked() -> None:
    """R22: right headers prove nothing, and a tool may be quiet for long."""
    resume = stream(wait_until(lambda server: server.counts["ping"] >= 2), answer(), end)
    async with staged(scripted(BROKEN, resume), silence="0.05s") as stage:
        assert await stage.call() == [*TOLD, "run 1 done"]
        assert await stage.counted() == {"upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE
        assert stage.server.counts["GET"] == 1
