"""A client on the Java SDK before the proxy: see `clients/java.py` for what is recorded of it."""

from __future__ import annotations

from tests.standins.clients.java import DEMAND, JavaClient
from tests.standins.playing import playing
from tests.standins.servers.base import StandInServer
from tests.standins.servers.go import STATELESS, GoServer
from tests.support.client import initialize
from tests.support.legs import until


async def test_keepalives_use_up_none_of_its_demand() -> None:
    server = StandInServer()
    async with playing(server, JavaClient, keepalive="1ms") as (_, client):
        call = client.call()
        run = await server.run()
        await until(lambda: client.comments > DEMAND or call.done())
        await run.answer()
        assert await call == "run 1 done"
        assert client.demand == DEMAND


async def test_comments_of_the_server_use_up_none_of_its_demand() -> None:
    server = StandInServer()
    async with playing(server, JavaClient) as (_, client):
        call = client.call()
        run = await server.run()
        for _ in range(DEMAND + 1):
            await run.raw(b": ping\n\n")
        await run.progress(1)
        await client.sees("run 1 step 1")
        await run.answer()
        assert await call == "run 1 done"


async def test_a_poll_announced_by_retry_is_hidden_from_it() -> None:
    """`retry:` is an error of the stream to it, and it would never come back."""
    server = GoServer()
    async with playing(server, JavaClient) as (_, client):
        call = client.call()
        run = await server.run()
        await run.progress(1)
        await server.close_for_poll(run.stream, retry_ms=10)
        await until(lambda: run.stream.leg is not None)
        await run.answer()
        assert await call == "run 1 done"
        assert len(server.runs) == 1


async def test_the_type_of_a_priming_event_sticks_to_nothing() -> None:
    """An event without a type behind it would be skipped."""
    server = StandInServer()
    async with playing(server, JavaClient) as (_, client):
        await client.listen()
        await until(lambda: server.newest.standalone.leg is not None)
        server.frame = lambda event_id, data: b"data: " + data + b"\n\n"  # type: ignore[method-assign]
        leg = server.newest.standalone.leg
        assert leg is not None
        await leg.peer.send(b"%x\r\n%b\r\n" % (len(PRIME), PRIME))
        await server.notify("first")
        await client.hears("first")


PRIME = b"event: prime\nid: 1\ndata: \n\n"


async def test_its_standalone_stream_which_it_never_reopens_does_not_end() -> None:
    server = StandInServer()
    async with playing(server, JavaClient) as (_, client):
        await client.listen()
        await server.notify("first")
        await client.hears("first")
        await server.restart()
        await until(lambda: bool(server.sessions))
        await server.notify("second")
        await until(lambda: "second" in client.heard)
        assert client.sessions == 1


async def test_an_initialize_that_states_a_revision_without_sessions_opens_one() -> None:
    """It states the latest that it knows, on `initialize` too."""
    server = StandInServer()
    async with playing(server, JavaClient) as (_, client):
        client.http.session = None
        answer = await client.http.post(initialize(), ("MCP-Protocol-Version", STATELESS))
        assert answer.status == 200
        client.http.session = answer.header("mcp-session-id")
        await server.restart()
        call = client.call()
        await (await server.run()).answer()
        assert await call == "run 1 done"
