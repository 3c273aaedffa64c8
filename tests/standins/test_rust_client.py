"""A client on the Rust SDK before the proxy: see `clients/rust.py` for what is recorded of it."""

from __future__ import annotations

from tests.standins.clients.rust import RustClient
from tests.standins.playing import playing
from tests.standins.servers.base import StandInServer


async def test_a_lost_session_that_is_shown_to_it_costs_one_new_session_and_one_run() -> None:
    """It sends the message again by itself; the proxy does not as well."""
    server = StandInServer()
    async with playing(server, RustClient, session_loss="surface") as (_, client):
        await server.restart()
        call = client.call()
        await (await server.run()).answer()
        assert await call == "run 1 done"
        assert (client.sessions, client.sent_again, len(server.runs)) == (2, 1, 1)
        assert server.seen("initialize") == 2


async def test_a_lost_session_that_is_healed_is_not_made_twice() -> None:
    server = StandInServer()
    async with playing(server, RustClient) as (_, client):
        await server.restart()
        call = client.call()
        await (await server.run()).answer()
        assert await call == "run 1 done"
        assert (client.sessions, client.sent_again) == (1, 0)
        assert server.seen("initialize") == 2


async def test_its_other_calls_outlive_a_restart_that_one_of_them_meets() -> None:
    """A 404 to one would fail the others, which wait for their own second run."""
    server = StandInServer()
    async with playing(server, RustClient) as (_, client):
        calls = [client.call(), client.call()]
        for number in (1, 2):
            await (await server.run(number)).progress(1)
        await server.restart()
        calls.append(client.call())
        for number in (3, 4, 5):
            await (await server.run(number)).answer()
        assert {await call for call in calls} == {"run 3 done", "run 4 done", "run 5 done"}
        assert client.sessions == 1
