"""A client on the C# SDK before the proxy: see `clients/csharp.py` for what is recorded of it."""

from __future__ import annotations

from tests.standins.clients.csharp import CSharpClient
from tests.standins.playing import playing
from tests.standins.servers.base import StandInServer
from tests.support.legs import until


async def test_a_restart_under_its_standalone_stream_is_never_a_404() -> None:
    """On a GET it would close the client as well."""
    server = StandInServer()
    async with playing(server, CSharpClient) as (_, client):
        await client.listen()
        await server.notify("first")
        await client.hears("first")
        await server.restart()
        await until(lambda: bool(server.sessions))
        await server.notify("second")
        await until(lambda: "second" in client.heard)
        assert client.sessions == 1


async def test_a_cursor_of_a_standalone_stream_that_was_given_up_gets_another() -> None:
    """A 4xx would be asked for again every second, for ever."""
    server = StandInServer()
    async with playing(server, CSharpClient, hold="50ms") as (proxy, client):
        await client.listen()
        await server.notify("first")
        await client.hears("first")
        client.may_resume.clear()
        client.cut()
        await until(lambda: server.newest.standalone.leg is None)
        client.may_resume.set()
        await server.notify("second")
        await client.hears("first", "second")
        assert await proxy.moved("standalone_gaps_total") == {"": 1}


async def test_events_that_are_no_messages_reach_it_without_data() -> None:
    """It takes the data of any event for a message, whatever its type."""
    server = StandInServer()
    async with playing(server, CSharpClient) as (_, client):
        call = client.call()
        run = await server.run()
        await run.raw(b"event: prime\nid: 1\ndata: \n\nevent: close\nid: 2\nretry: 10\ndata: \n\n")
        await run.progress(1)
        await client.sees("run 1 step 1")
        await run.answer()
        assert await call == "run 1 done"
