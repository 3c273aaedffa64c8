"""A server on mcp-go behind the proxy: see `servers/mcp_go.py` for what is recorded of it."""

from __future__ import annotations

from tests.standins.clients.base import StandInClient
from tests.standins.playing import begun, leaves, playing
from tests.standins.servers.mcp_go import McpGoServer
from tests.support.client import Client
from tests.support.legs import until


async def test_a_restart_under_a_call_opens_a_session_and_trusts_none_made_on_the_spot() -> None:
    """The old id would be accepted; nothing proves whose session that is."""
    server = McpGoServer()
    async with playing(server, StandInClient) as (_, client):
        call = client.call()
        await (await server.run()).progress(1)
        await client.sees("run 1 step 1")
        await server.restart()
        again = await server.run(2)
        await again.answer()
        assert await call == "run 2 done"
        assert client.notices == 1
        assert server.seen("initialize") == 2
        assert again.stream.session.id != client.http.session
        old = [one for one in server.requests if one.header("mcp-session-id") == client.http.session]
        late = [one.message.get("method") or one.method for one in old][3:]
        assert set(late) <= {"notifications/cancelled", "DELETE"}


async def test_a_session_made_on_the_spot_between_calls_is_seen_by_its_epoch() -> None:
    server = McpGoServer(states_epoch=True)
    async with playing(server, StandInClient) as (proxy, client):
        server.sessions.clear()
        server._count = 7
        call = client.call()
        await (await server.run()).answer()
        assert await call == "run 1 done"
        assert server.made_on_the_spot == 1
        assert await proxy.moved("epoch_drift_total") == {"": 1}


async def test_a_session_made_on_the_spot_without_an_epoch_answers_out_of_one_run() -> None:
    """The limit that G1 names: nothing on the wire tells of it, and nothing is put together of two runs."""
    server = McpGoServer()
    async with playing(server, StandInClient) as (_, client):
        server.sessions.clear()
        call = client.call()
        run = await server.run()
        await run.progress(1)
        await run.answer()
        assert await call == "run 1 done"
        assert client.progress == ["run 1 step 1"]
        assert server.made_on_the_spot == 1


async def test_an_answer_without_notifications_stays_json() -> None:
    server = McpGoServer()
    async with playing(server, StandInClient) as (proxy, client), Client(proxy.port) as raw:
        raw.session = client.http.session
        waiting = client.start(raw.call())
        await (await server.run()).answer()
        answer = await waiting
        assert answer.header("content-type") == "application/json"
        assert (await answer.json())["id"] == 7


async def test_a_break_before_any_head_is_begun_anew() -> None:
    server = McpGoServer()
    async with playing(server, StandInClient) as (_, client):
        call = client.call()
        await server.run()
        server.cut()
        await (await server.run(2)).answer()
        assert await call == "run 2 done"


async def test_ids_that_count_over_the_whole_store_are_no_gap() -> None:
    """Two calls take turns, so that each stream's ids step by more than one."""
    server = McpGoServer(states_epoch=True, has_store=True)
    async with playing(server, StandInClient) as (proxy, client):
        calls = [client.call(), client.call()]
        runs = [await server.run(1), await server.run(2)]
        for step in (1, 2, 3):
            for run in runs:
                await run.progress(step)
        await until(lambda: len(client.progress) == 6)
        server.cut(runs[0].stream)
        await until(lambda: runs[0].stream.leg is not None)
        for run in runs:
            await run.progress(4)
            await run.answer()
        assert {await call for call in calls} == {"run 1 done", "run 2 done"}
        assert sorted(client.progress) == [f"run {n} step {step}" for n in (1, 2) for step in (1, 2, 3, 4)]
        assert await proxy.resumes() == {"upstream resume epoch_match": 1}


async def test_progress_on_another_calls_answer_restarts_neither() -> None:
    server = McpGoServer()
    async with playing(server, StandInClient) as (proxy, client):
        calls = [client.call(), client.call()]
        runs = [await server.run(1), await server.run(2)]
        await runs[0].progress(1)
        server.reader = runs[0].stream
        await runs[1].progress(1)
        await client.sees("run 1 step 1", "run 2 step 1")
        server.reader = None
        for run in runs:
            await run.answer()
        assert {await call for call in calls} == {"run 1 done", "run 2 done"}
        assert len(server.runs) == 2
        assert await proxy.resumes() == {}


async def test_a_client_that_leaves_does_not_cancel_its_call() -> None:
    server = McpGoServer()
    async with playing(server, StandInClient) as (proxy, client):
        call, run = await begun(server, client)
        await leaves(client, proxy)
        await run.answer()
        client.may_resume.set()
        assert await call == "run 1 done"
        assert server.cancelled == []
