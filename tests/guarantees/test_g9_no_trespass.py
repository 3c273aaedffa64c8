"""G9 no trespass: a journal is for callers whose credentials the upstream has accepted, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.support.client import PRIMED, Answer, Client, Event
from tests.support.proxy import guarding
from tests.support.server import Ids, Leg, McpServer, Request, serving

ALICE = ("Authorization", "Bearer alice-0123456789")
BOB = ("Authorization", "Bearer bob-0123456789")


async def secret(leg: Leg) -> None:
    await leg.open()
    for step in range(1, 4):
        await leg.progress(step)
    await leg.answer()
    await leg.end()


async def half_of_it(leg: Leg) -> None:
    await leg.open()
    await leg.progress(1)
    await leg.peer.wait_gone()


def only(*callers: tuple[str, str], status: int) -> Callable[[Request], int | None]:
    """A server that accepts these callers, and answers others so."""
    accepted = {f"{name}: {value}".lower() for name, value in callers}

    def accepts(request: Request) -> int | None:
        given = {f"{name}: {value}".lower() for name, value in request.headers}
        return None if given & accepted else status

    return accepts


async def read_call(client: Client) -> list[Event]:
    await client.open()
    return [event async for event in (await client.call()).events() if event.is_message]


def as_bob(alice: Client, *credentials: tuple[str, str]) -> Client:
    """Another caller, who has learned Alice's session id."""
    bob = Client(alice.port, version=alice.version, headers=credentials)
    bob.session = alice.session
    return bob


@pytest.mark.parametrize("status", [401, 403, 404])
@pytest.mark.parametrize("stranger", [(BOB,), (), (("X-Api-Key", "1"),), (("Cookie", "a=b"),)])
async def test_a_stranger_with_a_cursor_gets_what_the_server_says(
    status: int, stranger: tuple[tuple[str, str], ...]
) -> None:
    """(c), (e) Whatever the credentials stand in (R32)."""
    server = McpServer(secret, ids=Ids.NONE)
    server.accepts = only(ALICE, status=status)
    async with serving(server), guarding(server.port) as proxy:
        async with Client(proxy.port, headers=[ALICE]) as alice:
            events = await read_call(alice)
            async with as_bob(alice, *stranger) as bob:
                answer = await bob.get(events[0].id)
                body = await answer.read()
                assert (answer.status, body) == (status, b"refused")
                assert answer.header("www-authenticate") == "Bearer"
            # Alice's own stream is as it was.
            assert len(await (await alice.get(events[0].id)).messages()) == 3
        assert server.counts["initialize"] == 1  # a stranger triggers no heal (R32)
        assert await proxy.moved("heals_total") == {}


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_stranger_gets_nothing_of_a_stream_that_runs_and_takes_nothing_over(status: int) -> None:
    server = McpServer(half_of_it, ids=Ids.NONE)
    server.accepts = only(ALICE, status=status)
    async with (
        serving(server),
        guarding(server.port) as proxy,
        Client(proxy.port, headers=[ALICE], version=PRIMED) as alice,
    ):
        await alice.open()
        live = await alice.call()
        events = [await live.next_event(), await live.next_event()]
        assert events[0] is not None
        async with as_bob(alice, BOB) as bob:
            answer = await bob.get(events[0].id)
            assert answer.status == status
            assert b"run 1" not in await answer.read()
        probe: asyncio.Task[Event | None] = asyncio.ensure_future(live.next_event())
        assert server.executions == 1
        assert not probe.done()  # Alice's leg was not ended
        probe.cancel()


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_strangers_call_neither_heals_nor_ends_the_session(status: int) -> None:
    """(a) Its 404 passes (R32)."""
    server = McpServer(secret)
    server.accepts = only(ALICE, status=status)
    async with serving(server), guarding(server.port) as proxy:
        async with Client(proxy.port, headers=[ALICE]) as alice:
            await alice.open()
            async with as_bob(alice, BOB) as bob:
                answer = await bob.call()
                assert (answer.status, await answer.read()) == (status, b"refused")
        assert server.counts["initialize"] == 1


async def test_a_strangers_delete_does_not_end_the_session() -> None:
    server = McpServer(secret)
    server.accepts = only(ALICE, status=401)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port, headers=[ALICE]) as alice:
        events = await read_call(alice)
        async with as_bob(alice, BOB) as bob:
            assert (await bob.delete()).status == 401
        assert (await alice.get(events[0].id)).status == 200
        assert (await alice.call()).status == 200


async def test_a_stranger_does_not_get_the_standalone_stream() -> None:
    async def stand(leg: Leg) -> None:
        await leg.open()
        await leg.log("secret")
        await leg.peer.wait_gone()

    server = McpServer()
    server.stand = stand
    server.accepts = only(ALICE, status=403)
    async with (
        serving(server),
        guarding(server.port, takeover_interval="0s") as proxy,
        Client(proxy.port, headers=[ALICE]) as alice,
    ):
        await alice.open()
        live = await alice.get()
        first = await live.next_event()
        assert first is not None
        async with as_bob(alice, BOB) as bob:
            for cursor in (None, first.id):
                answer = await bob.get(cursor)
                assert (answer.status, await answer.read()) == (403, b"refused")


async def test_a_second_caller_whom_the_server_accepts_is_served() -> None:
    """The same user with a fresh token."""
    server = McpServer(secret, ids=Ids.NONE)
    server.accepts = only(ALICE, BOB, status=401)
    async with serving(server), guarding(server.port) as proxy:
        async with Client(proxy.port, headers=[ALICE]) as alice:
            events = await read_call(alice)
            async with as_bob(alice, BOB) as fresh:
                assert len(await (await fresh.get(events[0].id)).messages()) == 3
        (ping,) = [one for one in server.requests if one.message.get("method") == "ping"]
        assert ping.header("authorization") == BOB[1]


async def test_a_server_that_cannot_be_asked_lets_no_stranger_in() -> None:
    server = McpServer(secret, ids=Ids.NONE)
    async with (
        serving(server),
        guarding(server.port, ping="0.2s") as proxy,
        Client(proxy.port, headers=[ALICE]) as alice,
    ):
        events = await read_call(alice)
        await server.stop()
        async with as_bob(alice, BOB) as bob:
            answer = await bob.get(events[0].id)
            assert b"run 1" not in await _what_comes(answer)
        # Whoever opened the stream needs no leave.
        assert len(await (await alice.get(events[0].id)).messages()) == 3


async def _what_comes(answer: Answer) -> bytes:
    return await answer.read() if answer.status != 200 else ((await answer.next_event()) or Event(b"")).raw


async def test_a_call_is_sent_again_with_its_own_callers_credentials() -> None:
    """Whoever triggered the heal (R32)."""

    async def play(leg: Leg) -> None:
        if leg.run.number > 1:
            await secret(leg)
            return
        await leg.open()
        await leg.progress(1)
        await leg.cut()

    server = McpServer(play, ids=Ids.NONE)
    server.accepts = only(ALICE, BOB, status=401)
    async with serving(server), guarding(server.port) as proxy:
        async with Client(proxy.port, headers=[ALICE]) as alice:
            await alice.open()
            async with as_bob(alice, BOB) as bob:
                ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                assert (await bob.post(ping)).status == 200  # the last accepted caller is another
            await (await alice.call()).messages()
        calls = [one for one in server.requests if one.message.get("method") == "tools/call"]
        assert [one.header("authorization") for one in calls] == [ALICE[1]] * 2


async def test_no_log_line_holds_a_credential_a_session_id_or_a_cursor() -> None:
    server = McpServer(secret)
    server.accepts = only(ALICE, status=401)
    async with (
        serving(server),
        guarding(server.port, access_log="all") as proxy,
        Client(proxy.port, headers=[ALICE]) as alice,
    ):
        events = await read_call(alice)
        async with as_bob(alice, BOB) as bob:
            await bob.get(events[0].id)
        written = "\n".join(proxy.lines)
        for hidden in (ALICE[1], BOB[1], alice.session, events[0].id, "run 1"):
            assert hidden is not None
            assert hidden not in written
