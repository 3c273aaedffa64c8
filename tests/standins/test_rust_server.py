"""A server on the Rust SDK behind the proxy: see `servers/rust.py` for what is recorded of it."""

from __future__ import annotations

from tests.standins.clients.base import StandInClient
from tests.standins.clients.java import JavaClient
from tests.standins.playing import begun, playing, settled
from tests.standins.servers.rust import RustServer
from tests.support.legs import until


async def test_ids_that_are_the_same_in_every_session_lead_into_none_but_the_own() -> None:
    server = RustServer()
    async with playing(server, StandInClient) as (proxy, a), StandInClient(proxy.port) as b:
        calls = [a.call(), b.call()]
        runs = [await server.run(1), await server.run(2)]
        for run in runs:
            await run.progress(1)
        await until(lambda: bool(a.progress and b.progress))
        assert a.last_id != b.last_id  # upstream both are "1/0"
        stranger = await b.http.get(a.last_id)
        assert stranger.status == 400
        for run in runs:
            await run.answer()
        assert sorted([await calls[0], await calls[1]]) == ["run 1 done", "run 2 done"]
        assert len(a.progress) == len(b.progress) == 1


async def test_a_last_event_that_is_replayed_again_is_delivered_once() -> None:
    server = RustServer(states_epoch=True)
    async with playing(server, StandInClient) as (proxy, client):
        call, run = await begun(server, client)
        server.cut()
        await run.progress(2)
        await until(lambda: run.stream.leg is not None)
        await run.answer()
        assert await call == "run 1 done"
        assert client.progress == ["run 1 step 1", "run 1 step 2"]
        assert await proxy.moved("dropped_messages_total") == {"reason=duplicate": 1}


async def test_an_answer_that_was_lost_with_its_connection_is_begun_anew() -> None:
    """The resume gets 200 and an empty body; the outcome is unknown, and the tool promises nothing."""
    server = RustServer(states_epoch=True)
    async with playing(server, StandInClient) as (proxy, client):
        call, run = await begun(server, client)
        server.cut()
        await run.answer()
        await (await server.run(2)).answer()
        assert await call == "run 2 done"
        assert client.notices == 1
        assert await proxy.resumes() == {"upstream restart empty_resume": 1}


async def test_an_answer_that_was_lost_and_may_not_be_had_twice_is_an_error() -> None:
    server = RustServer(states_epoch=True)
    server.tools = ({"name": "work", "inputSchema": {}, "annotations": {"destructiveHint": True}},)
    async with playing(server, StandInClient) as (_, client):
        call, run = await begun(server, client)
        server.cut()
        await run.answer()
        assert await settled(call) == [-32050]
        assert len(server.runs) == 1


async def test_events_beyond_the_sixteen_that_are_kept_cost_no_answer() -> None:
    """What is lost of the progress is lost on the server; no message of another run stands in its place."""
    server = RustServer(states_epoch=True)
    async with playing(server, StandInClient) as (_, client):
        call, run = await begun(server, client)
        leg = run.stream.leg
        server.cut()
        assert leg is not None
        for step in range(2, 31):
            await run.progress(step)
        await until(lambda: run.stream.leg is not None)
        await run.answer()
        assert await call == "run 1 done"
        assert set(client.progress) <= {f"run 1 step {step}" for step in range(1, 31)}
        assert len(client.progress) == len(set(client.progress))


async def test_a_session_that_dies_under_a_silent_call_ends_in_an_answer() -> None:
    """Its stream ends cleanly behind `retry:`, as a poll does; the session is gone."""
    server = RustServer()
    async with playing(server, StandInClient) as (_, client):
        call = client.call()
        await server.run()
        await server.starve()
        await (await server.run(2)).answer()
        assert await call == "run 2 done"
        assert client.sessions == 1


async def test_the_first_message_of_a_get_is_heard_under_the_id_of_its_priming() -> None:
    server = RustServer()
    async with playing(server, StandInClient) as (_, client):
        await client.listen()
        await server.notify("first")
        await server.notify("second")
        await client.hears("first", "second")


async def test_a_get_that_broke_before_its_first_message_is_resumed_at_its_priming() -> None:
    """The message that follows has the priming event's id; that is no sign of another session."""
    server = RustServer(states_epoch=True)
    async with playing(server, StandInClient) as (_, client):
        await client.listen()
        await until(lambda: server.newest.standalone.leg is not None)
        session = server.newest
        server.cut()
        await server.notify("first")
        await client.hears("first")
        assert list(server.sessions.values()) == [session]


async def test_a_get_that_replays_what_is_kept_is_heard_once() -> None:
    server = RustServer()
    async with playing(server, StandInClient) as (_, client):
        await client.listen()
        await server.notify("first")
        await server.notify("second")
        await client.hears("first", "second")
        server.cut()
        await server.notify("third")
        await client.hears("first", "second", "third")


async def test_a_client_that_reconnects_gets_no_shadow_of_its_stream() -> None:
    server = RustServer()
    async with playing(server, StandInClient) as (_, client):
        await client.listen()
        await server.notify("first")
        await client.hears("first")
        client.cut()
        await until(lambda: client.resumes == 1)
        await server.notify("second")
        await client.hears("first", "second")
        assert server.newest.gets == 1


async def test_an_initialize_answered_by_a_primed_stream_opens_a_session() -> None:
    server = RustServer()
    async with playing(server, StandInClient) as (_, client):
        assert client.http.session is not None
        await server.restart()
        call = client.call()
        await (await server.run()).answer()
        assert await call == "run 1 done"


async def test_its_retry_lines_do_not_reach_a_java_client() -> None:
    server = RustServer()
    async with playing(server, JavaClient) as (_, client):
        await client.listen()
        call = client.call()
        run = await server.run()
        await run.progress(1)
        await run.answer()
        assert await call == "run 1 done"
        await server.notify("first")
        await client.hears("first")


async def test_a_delete_is_accepted_by_202() -> None:
    server = RustServer()
    async with playing(server, StandInClient) as (_, client):
        assert (await client.http.delete()).status == 202
        assert (await client.http.call()).status == 404
        assert server.sessions == {}
