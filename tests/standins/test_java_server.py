"""A server on the Java SDK behind the proxy: see `servers/java.py` for what is recorded of it."""

from __future__ import annotations

from tests.standins.clients.base import StandInClient
from tests.standins.playing import begun, leaves, playing
from tests.standins.servers.java import JavaServer
from tests.support.legs import until


async def test_a_resume_that_stays_silent_for_ever_ends_in_an_answer() -> None:
    """The write that failed has removed the session, which a ping finds out; no wait without end."""
    server = JavaServer(states_epoch=True)
    async with playing(server, StandInClient, silence="0.3s") as (proxy, client):
        call = client.call()
        lost = await server.run()
        await lost.progress(1)
        await client.sees("run 1 step 1")
        server.cut()
        await until(lambda: server.silent_gets == 1)
        await lost.answer()
        await (await server.run(2)).answer()
        assert await call == "run 2 done"
        assert client.notices == 1
        assert await proxy.resumes() == {"upstream restart session_gone": 1}


async def test_a_break_without_a_proof_is_not_resumed_at_all() -> None:
    server = JavaServer()
    async with playing(server, StandInClient) as (_, client):
        call = client.call()
        await (await server.run()).progress(1)
        await client.sees("run 1 step 1")
        server.cut()
        await (await server.run(2)).answer()
        assert await call == "run 2 done"
        assert server.silent_gets == 0


async def test_a_client_that_leaves_mid_call_costs_no_session() -> None:
    """No write to the server's side fails, since the proxy holds its connection."""
    server = JavaServer()
    async with playing(server, StandInClient) as (proxy, client):
        call, run = await begun(server, client)
        await leaves(client, proxy)
        await run.progress(2)
        await run.answer()
        client.may_resume.set()
        assert await call == "run 1 done"
        assert client.progress == ["run 1 step 1", "run 1 step 2"]
        again = client.call()
        await (await server.run(2)).answer()
        assert await again == "run 2 done"
        assert server.seen("initialize") == 1


async def test_final_responses_that_all_have_the_sessions_id_are_each_delivered() -> None:
    server = JavaServer(states_epoch=True)
    async with playing(server, StandInClient) as (proxy, client):
        for number in (1, 2, 3):
            call = client.call()
            run = await server.run(number)
            await run.progress(1)
            await run.answer()
            assert await call == f"run {number} done"
        assert await proxy.moved("dropped_messages_total") == {}


async def test_messages_on_a_get_whose_head_comes_with_the_first_of_them_are_heard() -> None:
    server = JavaServer()
    async with playing(server, StandInClient) as (_, client):
        client.begin_to_listen()
        await until(lambda: server.seen("GET") == 1)
        await server.notify("first")
        await client.hears("first")


async def test_a_client_that_reconnects_does_not_make_its_stream_mute() -> None:
    server = JavaServer()
    async with playing(server, StandInClient) as (_, client):
        client.begin_to_listen()
        await until(lambda: server.seen("GET") == 1)
        await server.notify("first")
        await client.hears("first")
        client.cut()
        await until(lambda: client.resumes == 1)
        await server.notify("second")
        await client.hears("first", "second")
        assert server.newest.gets == 1


async def test_a_question_with_the_sessions_id_in_its_own_is_answered_to_it() -> None:
    server = JavaServer()
    async with playing(server, StandInClient) as (_, client):
        call = client.call()
        run = await server.run()
        asked = f"{run.stream.session.id}-0"
        await run.ask(asked)
        await until(lambda: bool(server.answers))
        assert [one["id"] for one in server.answers] == [asked]
        await run.answer()
        assert await call == "run 1 done"
