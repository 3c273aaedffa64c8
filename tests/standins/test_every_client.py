"""What ends some SDK's session, or a call of it, met by the stand-in of each: none of them dies."""

from __future__ import annotations

import pytest

from tests.standins.clients.base import StandInClient
from tests.standins.clients.csharp import CSharpClient
from tests.standins.clients.go import GoClient
from tests.standins.clients.java import JavaClient
from tests.standins.clients.kotlin import KotlinClient
from tests.standins.clients.mcp_go import McpGoClient
from tests.standins.clients.rust import RustClient
from tests.standins.playing import begun, leaves, playing, settled
from tests.standins.servers.base import StandInServer
from tests.standins.servers.csharp import CSharpServer
from tests.standins.servers.go import GoServer
from tests.support.legs import until

RESUMING = [GoClient, CSharpClient, RustClient, KotlinClient]
EVERY = [*RESUMING, JavaClient, McpGoClient]
DESTRUCTIVE = {"name": "work", "inputSchema": {}, "annotations": {"destructiveHint": True}}
SHORT = {"heal_deadline": "300ms", "resume_deadline": "200ms", "resume_headers": "100ms"}
each = pytest.mark.parametrize("client_of", EVERY)
each_that_resumes = pytest.mark.parametrize("client_of", RESUMING)


@each
async def test_a_server_that_restarts_under_a_call_costs_no_client_its_session(
    client_of: type[StandInClient],
) -> None:
    server = GoServer()
    async with playing(server, client_of) as (_, client):
        call = client.call()
        await (await server.run()).progress(1)
        await client.sees("run 1 step 1")
        await server.restart()
        again = await server.run(2)
        await again.progress(2)
        await again.answer()
        assert await call == "run 2 done"
        assert client.progress == ["run 1 step 1", "run 2 step 2"]
        assert (client.notices, client.sessions, client.resumes) == (1, 1, 0)


@each
async def test_a_server_that_restarts_between_calls_costs_no_client_its_session(
    client_of: type[StandInClient],
) -> None:
    """Each answer of this server names its session: the name that the client knows stays."""
    server = CSharpServer()
    async with playing(server, client_of) as (_, client):
        await server.restart()
        for number in (1, 2):
            call = client.call()
            await (await server.run(number)).answer()
            assert await call == f"run {number} done"
        assert client.sessions == 1


@each
async def test_half_an_event_is_shown_to_no_client(client_of: type[StandInClient]) -> None:
    """Three parsers hand it on as if it were whole, and a line without a colon is fatal to one."""
    server = StandInServer()
    async with playing(server, client_of) as (_, client):
        call, run = await begun(server, client)
        await run.raw(b'event: message\ndata: {"jsonrpc": "2.0", "met\nda')
        server.cut()
        await (await server.run(2)).answer()
        assert await call == "run 2 done"


@each
async def test_a_call_that_may_not_run_twice_ends_in_an_error_on_its_own_stream(
    client_of: type[StandInClient],
) -> None:
    server = StandInServer(tools=(DESTRUCTIVE,))
    async with playing(server, client_of) as (_, client):
        call = client.call()
        await (await server.run()).progress(1)
        await client.sees("run 1 step 1")
        server.cut()
        assert await settled(call) == [-32050]
        again = client.call()
        await (await server.run(2)).answer()
        assert await again == "run 2 done"
        assert len(server.runs) == 2


@each
async def test_a_server_that_is_down_for_a_while_costs_no_client_its_session(
    client_of: type[StandInClient],
) -> None:
    """Requests get 200 and an error, notifications 202."""
    server = StandInServer()
    async with playing(server, client_of, **SHORT) as (_, client):
        await server.stop()
        assert await settled(client.call()) == [-32051]
        told = await client.http.post({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        client.check_acknowledged(told.status)
        await server.start()
        call = client.call()
        await (await server.run()).answer()
        assert await call == "run 1 done"
        assert client.sessions == 1


@each
async def test_the_answer_and_the_end_of_its_stream_come_together(client_of: type[StandInClient]) -> None:
    """A client that reads on behind the answer finds a clean end, and has nothing to resume (W7)."""
    server = StandInServer()
    async with playing(server, client_of) as (_, client):
        call = client.call()
        run = await server.run()
        await run.progress(1)
        await run.answer()
        assert await call == "run 1 done"
        assert (client.broken, client.resumes) == ([], 0)


@each_that_resumes
async def test_a_client_that_drops_and_returns_gets_each_event_once(client_of: type[StandInClient]) -> None:
    server = StandInServer()
    async with playing(server, client_of) as (proxy, client):
        call, run = await begun(server, client)
        await leaves(client, proxy)
        await run.progress(2)
        await run.answer()
        client.may_resume.set()
        assert await call == "run 1 done"
        assert client.progress == ["run 1 step 1", "run 1 step 2"]
        assert (client.resumes, len(server.runs)) == (1, 1)
        assert await proxy.resumes() == {"client resume journal": 1}


@each_that_resumes
async def test_a_client_that_returns_too_late_gets_an_error_it_survives(
    client_of: type[StandInClient],
) -> None:
    """404 would close one client, 400 or an empty 200 have others ask for ever, anything end Go's session."""
    server = StandInServer()
    async with playing(server, client_of, hold="50ms", retain="50ms") as (_, client):
        call, run = await begun(server, client)
        client.may_resume.clear()
        client.cut()
        await until(lambda: run.stream.leg is None)
        client.may_resume.set()
        assert await settled(call) == [-32050]
        assert client.resumes == 1
        again = client.call()
        await (await server.run(2)).answer()
        assert await again == "run 2 done"
