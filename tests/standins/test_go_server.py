"""A server on the Go SDK behind the proxy: see `servers/go.py` for what is recorded of it."""

from __future__ import annotations

import pytest

from tests.standins.clients.base import StandInClient
from tests.standins.clients.go import GoClient
from tests.standins.playing import begun, playing, settled
from tests.standins.servers.base import StandInServer, serving
from tests.standins.servers.go import GoServer
from tests.standins.servers.rust import RustServer
from tests.support.client import Client
from tests.support.legs import until
from tests.support.proxy import guarding


async def test_a_close_event_is_a_poll_that_the_proxy_makes_itself() -> None:
    """`event: close` announces it, `event: prime` gave the id; the client's leg stays as it is."""
    server = GoServer()
    async with playing(server, StandInClient) as (proxy, client):
        call = client.call()
        run = await server.run()
        await run.progress(1)
        await server.close_for_poll(run.stream, retry_ms=10)
        await until(lambda: run.stream.leg is not None)
        await run.progress(2)
        await run.answer()
        assert await call == "run 1 done"
        assert client.progress == ["run 1 step 1", "run 1 step 2"]
        assert (client.resumes, len(server.runs)) == (0, 1)
        assert await proxy.resumes() == {"upstream resume server_poll": 1}


async def test_a_history_replayed_from_its_start_is_heard_once() -> None:
    server = GoServer()
    async with playing(server, StandInClient) as (_, client):
        await client.listen()
        await server.notify("first")
        await server.notify("second")
        await client.hears("first", "second")
        server.cut()
        await server.notify("third")
        await client.hears("first", "second", "third")
        assert server.newest.gets == 2


async def test_a_resume_that_meets_409_is_tried_until_the_server_notices() -> None:
    server = GoServer(states_epoch=True)
    async with playing(server, StandInClient) as (proxy, client):
        call, run = await begun(server, client)
        server.cut_unnoticed(run.stream)
        await until(lambda: server.seen("GET") >= 1)
        server.notice()
        await run.progress(2)
        await run.answer()
        assert await call == "run 1 done"
        assert client.progress == ["run 1 step 1", "run 1 step 2"]
        assert len(server.runs) == 1
        assert await proxy.resumes() == {"upstream resume epoch_match": 1}


async def test_a_clients_cursor_never_reaches_the_server() -> None:
    """To the server the proxy's cursors are malformed."""
    server = GoServer(states_epoch=True)
    async with playing(server, GoClient) as (_, client):
        call, run = await begun(server, client)
        client.cut()
        await run.progress(2)
        await client.sees("run 1 step 1", "run 1 step 2")
        server.cut()
        await until(lambda: run.stream.leg is not None)
        await run.answer()
        assert await call == "run 1 done"
        cursors = [one.header("last-event-id") for one in server.requests if one.method == "GET"]
        assert cursors == [f"{run.stream.name}_2"]


async def test_a_cursor_on_a_post_does_not_reach_the_server() -> None:
    server = GoServer()
    async with playing(server, StandInClient) as (_, client):
        request = {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}
        answer = await client.http.post(request, ("Last-Event-ID", "12345"))
        assert answer.status == 200


@pytest.mark.parametrize("server", [GoServer(), RustServer()], ids=["go", "rust"])
async def test_a_name_for_the_outside_is_not_shown_to_a_loopback_listener(server: StandInServer) -> None:
    """Either SDK answers 403 to a `Host` that is no loopback name."""
    body = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}'
    head = (
        b"POST /mcp HTTP/1.1\r\nHost: mcp.example\r\nContent-Type: application/json\r\n"
        b"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    async with (
        serving(server),
        guarding(server.port, allowed_hosts="mcp.example") as proxy,
        Client(server.port) as direct,
        Client(proxy.port) as guarded,
    ):
        assert (await direct.send_raw(head + body)).status == 403
        assert (await guarded.send_raw(head + body)).status == 200


async def test_two_calls_in_flight_under_one_id_are_both_answered() -> None:
    server = GoServer()
    async with playing(server, StandInClient) as (_, client):
        client.next_id = lambda: 1  # type: ignore[method-assign]
        first, second = client.call(), client.call()
        for number in (2, 1):
            await (await server.run(number)).answer()
        assert {await first, await second} == {"run 1 done", "run 2 done"}


async def test_a_restart_between_calls_is_healed() -> None:
    """404 as text; the heal's own requests pass the server's gates."""
    server = GoServer()
    async with playing(server, GoClient) as (_, client):
        await server.restart()
        call = client.call()
        await (await server.run()).answer()
        assert await call == "run 1 done"
        assert client.sessions == 1


async def test_a_server_that_knows_sessions_only_refuses_the_probe_itself() -> None:
    server = GoServer()
    async with playing(server, GoClient) as (_, client):
        assert client.probed == 400
        assert server.seen("server/discover") == 1
        assert server.requests[0].header("mcp-session-id") is None


async def test_calls_that_a_delete_let_go_of_are_answered_by_an_error() -> None:
    server = GoServer()
    async with playing(server, StandInClient) as (_, client):
        call = client.call()
        await server.run()
        deleted = await client.http.delete()
        assert deleted.status == 204
        (outcome,) = await settled(call)
        assert outcome == -32051
