"""What the answer to a POST may say besides: of its session, or nothing of it at all."""

from __future__ import annotations

import json

import pytest

from tests.support.server import Leg, Play, whole
from tests.verdicts.rows import answer_row
from tests.verdicts.stage import AGAIN, ONCE, scripted, staged
from tests.verdicts.steps import (
    BROKEN,
    JSON,
    TOLD,
    WHOLE,
    answer,
    end,
    in_turn,
    refusing,
    stream,
)

ANOTHER = ("mcp-session-id", "another")
NOT_FOUND = whole(404, [("content-type", "text/html")], b"<html>no such page</html>")


async def no_such_method(leg: Leg) -> None:
    error = {"code": -32601, "message": "no such method"}
    body = {"jsonrpc": "2.0", "id": leg.run.id, "error": error}
    await leg.peer.send(whole(404, JSON, json.dumps(body).encode()))


@answer_row("session_replaced")
@pytest.mark.parametrize(
    "call",
    [stream(answer(), end, mcp_session_id="another"), refusing(200, b"{}", ANOTHER)],
    ids=["stream", "JSON"],
)
async def test_a_call_whose_answer_names_another_session_is_sent_again_in_a_new_one(call: Play) -> None:
    async with staged(scripted(in_turn(call, WHOLE))) as stage:
        assert await stage.call() == ["run 2 done (session_replaced)"]
        assert await stage.counted() == {"upstream request restart session_replaced": 1}
        assert stage.server.found() == AGAIN


async def test_another_session_on_a_refusal_means_nothing_and_is_not_shown() -> None:
    async with staged(scripted(in_turn(refusing(500, b"oops", ANOTHER), WHOLE))) as stage:
        refused = await stage.client.call()
        assert (refused.status, await refused.read()) == (500, b"oops")
        assert refused.header("mcp-session-id") is None
        assert await stage.call() == ["run 2 done"]
        assert await stage.counted() == {}
        assert stage.server.counts["initialize"] == 1


async def test_another_session_on_a_refused_resume_means_nothing() -> None:
    resume = in_turn(refusing(503, b"", ANOTHER), stream(answer(), end))
    async with staged(scripted(BROKEN, resume)) as stage:
        assert await stage.call() == [*TOLD, "run 1 done"]
        assert await stage.counted() == {"upstream request resume epoch_match": 1}
        assert stage.server.found() == ONCE


async def test_a_404_that_means_the_method_is_passed_on_and_loses_nothing() -> None:
    async with staged(scripted(in_turn(no_such_method, WHOLE))) as stage:
        refused = await stage.client.call()
        assert refused.status == 404
        error = await refused.json()
        assert (error["id"], error["error"]["code"]) == (7, -32601)
        assert await stage.call() == ["run 2 done"]
        assert await stage.counted() == {}
        assert stage.server.counts["initialize"] == 1


async def test_a_404_while_the_session_lives_is_another_replicas_and_the_call_sent_once_more() -> None:
    """R26: a ping tells."""
    async with staged(scripted(in_turn(refusing(404), WHOLE))) as stage:
        assert await stage.call() == ["run 2 done"]
        assert await stage.counted() == {"affinity_faults": 1}
        assert stage.server.counts["initialize"] == 1


async def test_a_second_404_of_a_session_that_lives_is_shown() -> None:
    async with staged(scripted(refusing(404, b"not here"))) as stage:
        refused = await stage.client.call()
        assert (refused.status, await refused.read()) == (404, b"not here")
        assert await stage.counted() == {"affinity_faults": 2}
        assert stage.server.executions == 2
        assert stage.server.counts["initialize"] == 1


async def test_a_404_to_everything_parks_the_session_and_the_next_call_heals_it() -> None:
    """R27: an ingress without its server says so too."""
    async with staged(scripted(), heal_deadline="1s") as stage:
        stage.server.override = NOT_FOUND
        assert await stage.call() == ["error -32051 heal_deadline"]
        assert await stage.proxy.moved("heals_total") == {"outcome=parked,trigger=session_gone": 1}
        stage.server.override = None
        assert await stage.call() == ["run 1 done (session_gone)"]
        assert await stage.counted() == {"upstream request restart session_gone": 1}
        assert stage.server.executions == 1
