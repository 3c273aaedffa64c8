"""G1 no splice: after a broken leg one answer from one execution, and what came before is disowned.

Every message tells which run it is of, so that a splice is two runs behind the last notice.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import IS_LONG
from tests.support.client import Client, Json
from tests.support.proxy import Proxy, guarding
from tests.support.server import Epochs, Ids, Leg, McpServer, Play, serving
from tests.support.splices import (
    BREAKS,
    CUT_AFTER,
    STEPS,
    Break,
    answers,
    broken_once,
    closed,
    is_spliced,
    listen_to_a_call,
    mark,
    rest_of_run,
    runs_told,
)

OTHER = 999
TWICE = {"initialize": 2, "initialized": 2, "executions": 2}


# restarted


async def other_epoch(leg: Leg) -> None:
    await leg.open()
    await rest_of_run(leg, epoch=OTHER)


async def no_epoch(leg: Leg) -> None:
    await leg.open()
    await rest_of_run(leg, epoch=None)


async def gap(leg: Leg) -> None:
    await leg.open()
    await leg.progress(CUT_AFTER + 1, id=f"1_{CUT_AFTER + 2}")
    await rest_of_run(leg)


async def later_gap(leg: Leg) -> None:
    await leg.open()
    await leg.progress(CUT_AFTER + 1)
    await leg.progress(CUT_AFTER + 2, id=f"1_{CUT_AFTER + 3}")
    await rest_of_run(leg)


async def lower_id(leg: Leg) -> None:
    await leg.open()
    await leg.progress(CUT_AFTER + 1, id="1_0")
    await rest_of_run(leg)


async def same_id_other_bytes(leg: Leg) -> None:
    await leg.open()
    await leg.progress(CUT_AFTER + 1, id=f"1_{CUT_AFTER}")
    await rest_of_run(leg)


async def empty(leg: Leg) -> None:
    await leg.open()
    await leg.end()


async def only_priming(leg: Leg) -> None:
    await leg.open()
    await leg.raw(b"id: 1_%d\ndata:\n\n" % (CUT_AFTER + 10))
    await leg.end()


async def foreign_answer(leg: Leg) -> None:
    await leg.open()
    await leg.answer(request_id=12345)


async def foreign_progress(leg: Leg) -> None:
    await leg.open()
    await leg.send("notifications/progress", {"progressToken": "nobody's", "progress": 1})


async def another_session(leg: Leg) -> None:
    await leg.open(("mcp-session-id", "another"))
    await rest_of_run(leg)


async def question_without_epoch(leg: Leg) -> None:
    await leg.open()
    question = {"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {"message": "?"}}
    await leg.write(question)


def status(number: int, body: bytes = b"", kind: str = "text/plain") -> Play:
    async def refuse(leg: Leg) -> None:
        await leg.refuse(number, body, ("content-type", kind))

    return refuse


GONE = b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID provided"},"id":null}'

DIVERGENT = [
    pytest.param(other_epoch, "epoch_mismatch", id="another epoch"),
    pytest.param(no_epoch, "no_epoch_on_event", id="no epoch on the event"),
    pytest.param(gap, "event_id_gap", id="gap"),
    pytest.param(later_gap, "event_id_gap", id="gap later"),
    pytest.param(lower_id, "event_id_reset", id="a lower id"),
    pytest.param(same_id_other_bytes, "event_id_reset", id="an id again with other bytes"),
    pytest.param(status(404), "session_gone", id="404"),
    pytest.param(status(400, GONE, "application/json"), "session_gone", id="400 no valid session"),
    pytest.param(status(400), "cursor_unknown", id="400"),
    pytest.param(status(405), "not_resumable", id="405"),
    pytest.param(status(204), "not_resumable", id="204"),
    pytest.param(status(302), "not_resumable", id="302"),
    pytest.param(status(200, b"{}", "application/json"), "not_resumable", id="JSON"),
    pytest.param(empty, "empty_resume", id="three empty resumes"),
    pytest.param(only_priming, "empty_resume", id="three resumes with priming alone"),
    pytest.param(foreign_answer, "foreign_message", id="an answer of nobody's"),
    pytest.param(foreign_progress, "foreign_message", id="progress of nobody's"),
    pytest.param(another_session, "session_replaced", id="another session id"),
    pytest.param(question_without_epoch, "unproven_request", id="a question without an epoch"),
]


async def check_restarted(proxy: Proxy, server: McpServer, reason: str) -> list[Json]:
    """One call, restarted for this reason: one answer, from the second execution, and all of it told."""
    messages = await listen_to_a_call(proxy)
    assert not is_spliced(messages)
    assert len(answers(messages)) == 1
    assert answers(messages)[0]["id"] == 7
    assert runs_told(messages)[-1] == 2
    told = mark(answers(messages)[0])
    assert (told["reason"], told["generation"], told["reissued"]) == (reason, 2, True)
    assert server.found() == TWICE
    resumes = await proxy.resumes()
    assert resumes[f"upstream restart {reason}"] == 1
    assert sum(resumes.values()) == 1 or resumes == {
        f"upstream restart {reason}": 1,
        "upstream resume epoch_match": 1,
    }
    assert await proxy.moved("reissues_total") == {"method=tools/call,outcome=sent": 1}
    return messages


@pytest.mark.parametrize("how", BREAKS if IS_LONG else [closed])
@pytest.mark.parametrize(("replay", "reason"), DIVERGENT)
async def test_a_divergent_resume_is_restarted(replay: Play, reason: str, how: Break) -> None:
    server = McpServer(broken_once(how), replay)
    async with serving(server), guarding(server.port) as proxy:
        messages = await check_restarted(proxy, server, reason)
        # The notice stands before everything of the second run.
        assert runs_told(messages).index(0) < runs_told(messages).index(2)


@pytest.mark.parametrize("how", BREAKS)
async def test_a_break_without_a_captured_epoch_is_restarted(how: Break) -> None:
    server = McpServer(broken_once(how), epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy:
        await check_restarted(proxy, server, "no_epoch_captured")
        assert server.counts["GET"] == 0  # the verdict is known: no resume is tried


@pytest.mark.parametrize("how", BREAKS)
async def test_a_break_of_a_stream_without_ids_is_restarted(how: Break) -> None:
    server = McpServer(broken_once(how), ids=Ids.NONE)
    async with serving(server), guarding(server.port) as proxy:
        await check_restarted(proxy, server, "no_upstream_id")
        assert server.counts["GET"] == 0


async def test_a_server_that_stays_busy_is_given_up_at_the_deadline() -> None:
    server = McpServer(broken_once(), status(503))
    async with serving(server), guarding(server.port, resume_deadline="0.3s", resume_headers="0.2s") as proxy:
        await check_restarted(proxy, server, "not_resumable")
        assert server.counts["GET"] > 1


async def test_a_resume_that_is_never_answered_is_given_up_at_the_deadline() -> None:
    async def never(leg: Leg) -> None:
        await leg.peer.wait_gone()

    server = McpServer(broken_once(), never)
    async with serving(server), guarding(server.port, resume_deadline="0.3s", resume_headers="0.2s") as proxy:
        await check_restarted(proxy, server, "upstream_lost")


async def test_another_epoch_in_the_header_of_a_resume_is_restarted() -> None:
    async def replay(leg: Leg) -> None:
        await leg.open(("mcp-session-epoch", str(OTHER)))
        await rest_of_run(leg)

    server = McpServer(broken_once(), replay, epochs=Epochs.HEADER)
    async with serving(server), guarding(server.port) as proxy:
        await check_restarted(proxy, server, "epoch_mismatch")


async def test_an_epoch_that_changes_on_a_leg_that_never_broke_is_restarted() -> None:
    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await leg.progress(2, epoch=OTHER if leg.run.number == 1 else leg.session.epoch)
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy:
        await check_restarted(proxy, server, "epoch_mismatch")


async def test_a_restarted_server_is_a_lost_session() -> None:
    """The process goes away inside a call and comes back empty, on the same port."""
    is_cut = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        for step in range(1, STEPS + 1):
            await leg.progress(step)
            if leg.run.number == 1 and step == CUT_AFTER:
                is_cut.set()
                await leg.peer.wait_gone()
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy:
        call = asyncio.ensure_future(check_restarted(proxy, server, "session_gone"))
        await is_cut.wait()
        await server.restart()
        await call


async def test_without_logging_nothing_of_the_second_run_is_told_but_its_marked_answer() -> None:
    """R5: no notice can be given, so that no boundary could be seen."""
    server = McpServer(broken_once(), status(404), capabilities={"tools": {}})
    async with serving(server), guarding(server.port) as proxy:
        messages = await check_restarted(proxy, server, "session_gone")
        assert runs_told(messages) == [1] * CUT_AFTER + [2]


# the timeline of the fault


async def test_a_surviving_buffer_that_tells_the_right_epoch_first_is_found_out() -> None:
    """900 read; 901-950 from the buffer with the right epoch; from 951 on a re-created handler."""

    async def play(leg: Leg) -> None:
        await leg.open()
        is_first = leg.run.number == 1
        for step in range(1, 901 if is_first else 1001):
            await leg.progress(step)
        if is_first:
            leg.server.evict()
            await leg.cut()
        await leg.answer()
        await leg.end()

    async def replay(leg: Leg) -> None:
        epoch = leg.session.epoch
        await leg.open()
        for step in range(901, 1001):
            await leg.progress(step, epoch=epoch if step <= 950 else epoch + 1)
        await leg.answer(epoch=epoch + 1)
        await leg.end()

    server = McpServer(play, replay)
    server.evict = lambda: None  # type: ignore[method-assign]  # the lazy server makes the session again
    async with serving(server), guarding(server.port) as proxy:
        messages = await check_restarted(proxy, server, "epoch_mismatch")
        told = runs_told(messages)
        assert told[:950] == [1] * 950  # what the right epoch vouched for was relayed
        assert told[950] == 0
        assert set(told[951:]) == {2}
        steps = [one["params"]["progress"] for one in messages if one.get("method", "").endswith("progress")]
        assert steps == list(range(1, 1001))  # progress of the second run only behind what was seen (R38)
        assert messages[950]["params"]["data"]["discarded_events"] == 950
        assert mark(answers(messages)[0])["discarded_events"] == 950
        assert await proxy.moved("discarded_events_total") == {"": 950}


async def test_without_the_proxy_the_same_timeline_is_a_splice() -> None:
    """The test can fail: a client that resumes by itself is given both runs as one."""

    async def replay(leg: Leg) -> None:
        leg.run.number = 2  # what the re-created handler would say
        await leg.open()
        await rest_of_run(leg, epoch=OTHER)

    async with serving(McpServer(broken_once(), replay)) as server, Client(server.port) as client:
        await client.open()
        answer = await client.call()
        messages = [await answer.next_message() for _ in range(CUT_AFTER)]
        messages += await (await client.get(f"1_{CUT_AFTER}")).messages()
        assert is_spliced(messages)
