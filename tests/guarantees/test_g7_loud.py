"""G7 loud: each divergence is visible in a metric, in a log line, and to the client."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from tests.support.client import Client, Json
from tests.support.proxy import Proxy, guarding
from tests.support.server import Epochs, Ids, Leg, McpServer, Play, honest, serving

DESTRUCTIVE: Json = {"name": "work", "inputSchema": {}, "annotations": {"destructiveHint": True}}


async def breaks_once(leg: Leg) -> None:
    if leg.run.number > 1:
        await honest(leg)
        return
    await leg.open()
    for step in range(1, 4):
        await leg.progress(step)
    await leg.cut()


async def other_epoch(leg: Leg) -> None:
    await leg.open()
    await leg.answer(epoch=999)
    await leg.end()


async def gone(leg: Leg) -> None:
    await leg.refuse(404)


@dataclass(frozen=True)
class Divergence:
    """What happens, and the reason and trigger that it must be told under."""

    replay: Play
    reason: str
    trigger: str
    epochs: Epochs = Epochs.META
    events: int = 3
    tools: tuple[Json, ...] = field(default=({"name": "work"},))


DIVERGENCES = {
    "another epoch": Divergence(other_epoch, "epoch_mismatch", "epoch_mismatch"),
    "gone": Divergence(gone, "session_gone", "session_gone"),
    "no epoch": Divergence(gone, "no_epoch_captured", "stream_restart", Epochs.NEVER),
}


async def messages_of_a_call(proxy: Proxy) -> list[Json]:
    async with Client(proxy.port) as client:
        await client.open()
        return await (await client.call()).messages()


@pytest.mark.parametrize("name", DIVERGENCES)
async def test_a_restart_is_told_in_metrics_log_and_to_the_client(name: str) -> None:
    case = DIVERGENCES[name]
    server = McpServer(breaks_once, case.replay, epochs=case.epochs)
    async with serving(server), guarding(server.port) as proxy:
        messages = await messages_of_a_call(proxy)
        page = await proxy.page()

        # to the client: a notice before the second run, and a mark on its answer
        told = {"reason": case.reason, "generation": 2, "discarded_events": case.events, "reissued": True}
        notice = next(one for one in messages if one.get("method") == "notifications/message")
        assert notice["params"] == {"level": "warning", "logger": "epochgate", "data": told}
        assert messages[-1]["result"]["_meta"]["dev.epochgate/restart"] == told

        # in metrics
        resumes = f'resumes_total{{leg="upstream",reason="{case.reason}",stream="request",verdict="restart"}}'
        assert page[resumes] == 1
        assert page[f'heals_total{{outcome="healed",trigger="{case.trigger}"}}'] == 1
        assert page["heal_duration_seconds_count"] == 1
        assert page['reissues_total{method="tools/call",outcome="sent"}'] == 1
        assert page["discarded_events_total"] == case.events
        assert page["discarded_work_seconds_count"] == 1

        # in the log, each with the hash of its session
        judged, healed, sent = (
            proxy.log(event) for event in ("resume judged", "heal ended", "request re-issue")
        )
        assert [(one["verdict"], one["reason"], one["level"]) for one in judged] == [
            ("restart", case.reason, "warning")
        ]
        assert [(one["outcome"], one["trigger"]) for one in healed] == [("healed", case.trigger)]
        assert [one["outcome"] for one in sent] == ["sent"]
        sessions = {one["session"] for one in (*judged, *healed, *sent)}
        assert len(sessions) == 1
        assert len(sessions.pop()) == 8


async def test_the_line_of_an_exchange_tells_its_verdicts() -> None:
    server = McpServer(breaks_once, other_epoch)
    async with serving(server), guarding(server.port) as proxy:
        await messages_of_a_call(proxy)
        (line,) = [one for one in proxy.log("request") if one["method"] == "tools/call"]
        judged, healed, sent = line["verdicts"]
        assert (judged, healed) == ("restart epoch_mismatch", "heal healed epoch_mismatch")
        assert sent.startswith("re-issue sent ")
        assert line["status"] == 200


async def test_a_withheld_second_run_is_told_with_its_reason() -> None:
    server = McpServer(breaks_once, gone, tools=(DESTRUCTIVE,))
    async with serving(server), guarding(server.port) as proxy:
        messages = await messages_of_a_call(proxy)
        error = messages[-1]["error"]
        assert error["code"] == -32050
        assert "outcome unknown" in error["message"]
        assert error["data"]["reason"] == "session_gone"
        assert error["data"]["method"] == "tools/call"
        assert error["data"]["dev.epochgate/restart"]["reissued"] is False
        assert error["data"]["dev.epochgate/restart"]["discarded_events"] == 3
        assert await proxy.moved("reissues_total") == {"method=tools/call,outcome=withheld": 1}
        assert proxy.log("request re-issue")[-1]["outcome"] == "withheld"


async def test_the_first_answer_after_a_heal_carries_the_mark_whoever_asked() -> None:
    """Amnesia without logging: a client that was told nothing would go on as if nothing had been."""
    server = McpServer(capabilities={"tools": {}})
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        server.evict()
        ping = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        first = await (await client.post(ping)).json()
        second = await (await client.post(ping)).json()
        mark = first["result"]["_meta"]["dev.epochgate/restart"]
        assert (mark["reason"], mark["generation"]) == ("session_gone", 2)
        assert "dev.epochgate/restart" not in json.dumps(second)


async def test_a_session_that_was_re_created_between_two_calls_is_counted_as_drift() -> None:
    """R2: the answer is of one execution and passes."""

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.answer(epoch=1 if leg.run.number == 1 else 2)
        await leg.end()

    async with serving(McpServer(play)) as server, guarding(server.port) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            for _ in range(3):
                assert "result" in (await (await client.call()).messages())[-1]
        assert server.found() == {"initialize": 1, "initialized": 1, "executions": 3}
        assert (await proxy.page())["epoch_drift_total"] == 1
        assert len(proxy.log("session re-created")) == 1


async def test_a_poll_of_a_server_without_epochs_is_marked_and_counted_apart() -> None:
    """R4: accepted by default, and said to be unproven."""

    async def play(leg: Leg) -> None:
        await leg.open()
        for step in range(1, 3):
            await leg.progress(step)
        await leg.raw(b"retry: 10\n\n")
        await leg.end()

    async def replay(leg: Leg) -> None:
        await leg.open()
        await leg.answer()
        await leg.end()

    async with serving(McpServer(play, replay, epochs=Epochs.NEVER)) as server:
        async with guarding(server.port) as proxy:
            messages = await messages_of_a_call(proxy)
            assert messages[-1]["result"]["_meta"]["dev.epochgate/unproven"] is True
            assert (await proxy.page())["unproven_polls_total"] == 1
            assert server.executions == 1
        async with guarding(server.port, poll_without_epoch="restart") as proxy:
            server.play = breaks_once_politely(server.executions + 1)
            messages = await messages_of_a_call(proxy)
            assert messages[-1]["result"]["_meta"]["dev.epochgate/restart"]["reason"] == "poll_unproven"


def breaks_once_politely(first: int) -> Play:
    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        if leg.run.number > first:
            await leg.answer()
        else:
            await leg.raw(b"retry: 10\n\n")
        await leg.end()

    return play


async def test_a_404_of_another_replica_is_counted_as_a_fault_of_affinity() -> None:
    """R26: the session lives, as one ping shows, and the call is sent once more."""
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        wrong = iter([404])
        server.accepts = lambda request: (
            next(wrong, None) if request.message.get("method") == "tools/call" else None
        )
        messages = await (await client.call()).messages()
        assert messages[-1]["result"]["content"][0]["text"] == "run 1 done"
        assert server.counts["initialize"] == 1
        assert (await proxy.page())["affinity_faults_total"] == 1


async def test_a_gap_of_the_standalone_stream_is_counted() -> None:
    async def stand(leg: Leg) -> None:
        await leg.open()
        await leg.log("here")
        if leg.server.counts["GET"] == 1:
            await leg.cut()
        await leg.peer.wait_gone()

    server = McpServer(epochs=Epochs.NEVER, ids=Ids.NONE)
    server.stand = stand
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.get()
        for _ in range(2):
            assert (await answer.next_message())["method"] == "notifications/message"
        assert (await proxy.page())["standalone_gaps_total"] == 1
        assert server.counts["initialize"] == 1  # a cut standalone stream is no lost session (R21)


async def test_every_series_exists_before_anything_happened() -> None:
    """An alert on an increase does not see a series that is born at 1."""
    async with serving(McpServer()) as server, guarding(server.port) as proxy:
        page = await proxy.page()
    for reason in (
        "no_epoch_captured no_epoch_on_event epoch_mismatch event_id_gap event_id_reset session_gone "
        "session_replaced cursor_unknown not_resumable empty_resume foreign_message upstream_lost "
        "no_upstream_id unproven_request request_id_reset question_void poll_unproven event_too_large"
    ).split():
        verdict = "fail" if reason == "event_too_large" else "restart"
        name = f'resumes_total{{leg="upstream",reason="{reason}",stream="request",verdict="{verdict}"}}'
        assert page[name] == 0
