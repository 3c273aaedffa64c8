"""A client on the Go SDK before the proxy: see `clients/go.py` for what is recorded of it."""

from __future__ import annotations

import socket

import pytest

from tests.standins.clients.go import GoClient
from tests.standins.clients.outcomes import SessionEnded
from tests.standins.playing import playing, settled
from tests.standins.servers.base import StandInServer
from tests.standins.servers.go import GoServer
from tests.support.client import Truncated
from tests.support.legs import until
from tests.support.proxy import guarding


async def test_more_resumes_than_it_has_patience_for_each_bring_a_new_id() -> None:
    """The call is quiet; five resumes in a row without a new id would end the session."""
    server = StandInServer()
    async with playing(server, GoClient) as (_, client):
        call = client.call()
        run = await server.run()
        await until(lambda: client.last_id != "")
        for number in range(1, 9):
            before = client.last_id
            client.cut()
            await client.resumed_times(number)
            await until(lambda before=before: client.last_id != before)  # type: ignore[misc]
        await run.answer()
        assert await call == "run 1 done"


async def test_a_session_that_is_lost_for_good_is_told_by_a_404_without_an_error_in_it() -> None:
    """With one in its body the dead session would be kept."""
    server = StandInServer()
    async with playing(server, GoClient) as (_, client):
        await server.restart()
        server.initialize_result = lambda request: {  # type: ignore[method-assign]
            "protocolVersion": request.message["params"]["protocolVersion"],
            "capabilities": {},
            "serverInfo": {"name": "another", "version": "1"},
        }
        assert await settled(client.call()) == [-32051]
        with pytest.raises(SessionEnded):
            await client.call()


async def test_a_probe_that_meets_no_server_is_not_answered_for_it() -> None:
    """Whatever the proxy made up would be taken for the era of the server."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with guarding(port) as proxy:
        with pytest.raises(Truncated):
            async with GoClient(proxy.port):
                pass


async def test_its_standalone_stream_outlives_the_server() -> None:
    server = GoServer()
    async with playing(server, GoClient) as (_, client):
        await client.listen()
        await server.notify("first")
        await client.hears("first")
        await server.restart()
        call = client.call()
        await (await server.run()).answer()
        assert await call == "run 1 done"
        await server.notify("second")
        await until(lambda: "second" in client.heard)
        assert [one for one in client.heard if isinstance(one, str)] == ["first", "second"]
        assert client.sessions == 1
