"""A server that is away for a while, under calls: readiness must not undo what healing is about to mend."""

from __future__ import annotations

import asyncio

from tests.conftest import IS_LONG
from tests.faults.test_draining import status_of
from tests.support.client import PRIMED, Answer, Client, outcome
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, honest, serving

OUTAGE_S = 20 if IS_LONG else 2
CLIENTS = 5


async def waits(leg: Leg) -> None:
    """Says something, and is at work until the server goes."""
    await leg.open()
    await leg.progress(1)
    await leg.peer.wait_gone()


async def test_a_server_that_is_away_under_calls_leaves_the_proxy_ready_and_loses_no_answer() -> None:
    server = McpServer(waits)
    async with serving(server), guarding(server.port) as proxy:
        clients = [Client(proxy.port, version=PRIMED) for _ in range(CLIENTS)]
        for client in clients:
            await client.open()
        begun = [await begin(client) for client in clients]
        answers, cursors = [answer for answer, _ in begun], [cursor for _, cursor in begun]
        await server.stop()

        back = asyncio.get_running_loop().time() + OUTAGE_S
        looks = 0
        while asyncio.get_running_loop().time() < back:
            assert await status_of(proxy.admin, "/readyz") == 200
            at = looks % CLIENTS
            await answers[at].close()  # the client drops its stream and comes back for the rest
            answers[at] = await clients[at].get(cursors[at])
            looks += 1
        assert looks > CLIENTS

        server.play = honest
        await server.start()
        told = [str(outcome(await answer.messages())) for answer in answers]
        assert all(one.startswith("run ") and " done" in one for one in told), told
        assert server.executions == 2 * CLIENTS
        assert await status_of(proxy.admin, "/readyz") == 200
        for client in clients:
            await client.__aexit__()


async def begin(client: Client) -> tuple[Answer, str]:
    """A call that is under way, and the cursor of its client."""
    answer = await client.call()
    while (event := await answer.next_event()) is not None:
        if event.is_message and event.id is not None:
            return answer, event.id
    raise AssertionError
