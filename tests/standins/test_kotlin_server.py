"""A server on the Kotlin SDK behind the proxy: see `servers/kotlin.py` for what is recorded of it."""

from __future__ import annotations

from tests.standins.clients.base import StandInClient
from tests.standins.playing import begun, leaves, playing
from tests.standins.servers.kotlin import KotlinServer
from tests.support.client import UNPRIMED
from tests.support.legs import until


class OlderClient(StandInClient):
    version = UNPRIMED


async def test_events_of_a_gap_are_lost_and_the_answer_is_begun_anew() -> None:
    """The resume replays what there is and closes, again and again."""
    server = KotlinServer(states_epoch=True)
    async with playing(server, StandInClient) as (proxy, client):
        call, run = await begun(server, client)
        server.cut()
        await run.answer()
        await (await server.run(2)).answer()
        assert await call == "run 2 done"
        assert client.notices == 1
        (verdict,) = await proxy.resumes()
        assert verdict in ("upstream restart not_resumable", "upstream restart empty_resume")


async def test_nothing_is_lost_while_the_client_is_away() -> None:
    """To the server its connection never broke."""
    server = KotlinServer()
    async with playing(server, StandInClient) as (proxy, client):
        call, run = await begun(server, client)
        await leaves(client, proxy)
        await run.progress(2)
        await run.answer()
        client.may_resume.set()
        assert await call == "run 1 done"
        assert client.progress == ["run 1 step 1", "run 1 step 2"]


async def test_a_client_that_reconnects_closes_nothing_on_the_server() -> None:
    server = KotlinServer()
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


async def test_the_empty_event_that_sends_the_head_is_no_message_to_older_clients() -> None:
    """They would read its data as JSON."""
    server = KotlinServer()
    async with playing(server, OlderClient) as (_, client):
        client.is_read = lambda event: event.data is not None  # type: ignore[method-assign]
        await client.listen()
        call = client.call()
        await (await server.run()).answer()
        assert await call == "run 1 done"
        await server.notify("first")
        await client.hears("first")
