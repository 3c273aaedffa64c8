"""`McpAgent` of Cloudflare behind the proxy: see `servers/cloudflare.py` for what is recorded of it."""

from __future__ import annotations

from tests.standins.clients.base import StandInClient
from tests.standins.playing import begun, playing
from tests.standins.servers.cloudflare import CloudflareServer
from tests.support.legs import until


async def test_a_client_that_reconnects_supersedes_nothing_on_the_server() -> None:
    server = CloudflareServer()
    async with playing(server, StandInClient) as (_, client):
        await client.listen()
        await server.notify("first")
        await client.hears("first")
        leg = server.newest.standalone.leg
        client.cut()
        await until(lambda: client.resumes == 1)
        await server.notify("second")
        await client.hears("first", "second")
        assert server.newest.standalone.leg is leg


async def test_an_answer_cleared_before_it_arrived_is_begun_anew() -> None:
    server = CloudflareServer(states_epoch=True)
    async with playing(server, StandInClient) as (proxy, client):
        call, run = await begun(server, client)
        server.cut()
        await run.answer()
        await (await server.run(2)).answer()
        assert await call == "run 2 done"
        assert client.notices == 1
        assert await proxy.resumes() == {"upstream restart cursor_unknown": 1}


async def test_a_get_that_replays_nothing_is_reopened_and_the_gap_counted() -> None:
    server = CloudflareServer()
    async with playing(server, StandInClient) as (proxy, client):
        await client.listen()
        await server.notify("first")
        await client.hears("first")
        server.cut()
        await server.notify("second")
        await client.hears("first", "second")
        assert server.seen("initialize") == 1
        assert await proxy.moved("standalone_gaps_total") == {"": 1}
