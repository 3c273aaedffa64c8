"""A server on the C# SDK behind the proxy: see `servers/csharp.py` for what is recorded of it."""

from __future__ import annotations

from tests.standins.clients.base import StandInClient
from tests.standins.clients.go import GoClient
from tests.standins.playing import begun, playing
from tests.standins.servers.csharp import CSharpServer, CSharpStatelessServer
from tests.support.legs import until


async def test_a_client_that_reconnects_three_times_costs_the_one_get_that_there_is() -> None:
    server = CSharpServer()
    async with playing(server, StandInClient) as (_, client):
        await client.listen()
        heard = []
        for number in range(4):
            await server.notify(f"message {number}")
            heard.append(f"message {number}")
            await client.hears(*heard)
            client.cut()
            await client.resumed_times(number + 1)
        await server.notify("last")
        await client.hears(*heard, "last")
        assert server.newest.gets == 1


async def test_a_get_refused_for_life_costs_neither_the_session_nor_a_call() -> None:
    """The one GET broke, on its way. The server's 400 speaks of a new session, but this one is alive."""
    server = CSharpServer()
    server.has_store = False
    async with playing(server, StandInClient) as (proxy, client):
        await client.listen()
        session = server.newest
        server.cut(session.standalone)
        await until(lambda: session.gets >= 2)
        call = client.call()
        run = await server.run()
        await run.answer()
        assert await call == "run 1 done"
        assert run.stream.session is session
        assert list(server.sessions.values()) == [session]
        assert await proxy.moved("heals_total") == {}


async def test_a_broken_get_is_resumed_with_the_servers_own_cursor() -> None:
    server = CSharpServer(states_epoch=True)
    async with playing(server, StandInClient) as (_, client):
        await client.listen()
        await server.notify("first")
        await client.hears("first")
        server.cut()
        await server.notify("second")
        await client.hears("first", "second")
        assert server.newest.gets == 1
        assert server.seen("initialize") == 1


async def test_a_broken_call_is_resumed_where_its_epoch_is_stated() -> None:
    server = CSharpServer(states_epoch=True)
    async with playing(server, StandInClient) as (proxy, client):
        call, run = await begun(server, client)
        server.cut()
        await run.progress(2)
        await run.answer()
        assert await call == "run 1 done"
        assert client.progress == ["run 1 step 1", "run 1 step 2"]
        assert len(server.runs) == 1
        assert await proxy.resumes() == {"upstream resume epoch_match": 1}


async def test_streams_in_the_coding_identity_are_guarded_and_primed_once() -> None:
    server = CSharpServer()
    async with playing(server, StandInClient) as (_, client):
        call, run = await begun(server, client)
        client.cut()
        await run.answer()
        assert await call == "run 1 done"
        assert client.resumes == 1


async def test_a_404_with_a_jsonrpc_error_is_healed_and_never_shown() -> None:
    """To a client on the Go SDK it would be the end."""
    server = CSharpServer()
    async with playing(server, GoClient) as (_, client):
        await server.restart()
        call = client.call()
        await (await server.run()).answer()
        assert await call == "run 1 done"
        assert client.sessions == 1


async def test_a_delete_of_a_session_that_the_server_lost_ends_it() -> None:
    server = CSharpServer()
    async with playing(server, StandInClient) as (_, client):
        await server.restart()
        assert (await client.http.delete()).status == 200
        late = await client.http.call()
        assert late.status == 404
        assert server.runs == []


async def test_a_server_without_sessions_is_never_told_of_one() -> None:
    server = CSharpStatelessServer()
    async with playing(server, StandInClient) as (_, client):
        assert client.http.session is None
        call = client.call()
        await (await server.run()).answer()
        assert await call == "run 1 done"
        assert [one.header("mcp-session-id") for one in server.requests] == [None, None, None]


async def test_a_client_that_leaves_a_server_without_sessions_ends_its_call() -> None:
    server = CSharpStatelessServer()
    async with playing(server, StandInClient) as (_, client):
        client.broke = None  # type: ignore[assignment]
        call, run = await begun(server, client)
        call.cancel()
        client.cut()
        await until(lambda: server.disposed == [run])


async def test_a_stream_given_up_while_its_client_was_away_costs_the_session_nothing() -> None:
    """The server gives no second GET; a client's cursor is answered all the same (R13)."""
    server = CSharpServer()
    server.has_store = False
    async with playing(server, GoClient, hold="50ms") as (_, client):
        await client.listen()
        await server.notify("first")
        await client.hears("first")
        client.may_resume.clear()
        client.cut()
        session = server.newest
        await until(lambda: session.standalone.leg is None)
        client.may_resume.set()
        await until(lambda: session.gets >= 2)
        call = client.call()
        run = await server.run()
        await run.answer()
        assert await call == "run 1 done"
        assert run.stream.session is session
