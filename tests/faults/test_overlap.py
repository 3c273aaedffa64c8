"""An old and a new process behind one address, as a rolling update has them: no splice, no hang."""

from __future__ import annotations

import asyncio

from tests.faults.test_draining import Calls, open_calls
from tests.faults.test_outage import begin
from tests.shell.running import drained, running_proxy
from tests.support.balancer import balanced
from tests.support.client import PRIMED, Client, outcome
from tests.support.server import McpServer, serving


async def test_calls_of_the_old_process_are_answered_while_the_new_one_takes_over() -> None:
    calls = Calls()
    server = McpServer(calls.play)
    async with (
        serving(server),
        running_proxy(server.port) as old,
        running_proxy(server.port) as new,
        balanced(old.port) as address,
        Client(address.port, version=PRIMED) as client,
    ):
        answers = await open_calls(client, 3)
        cut, cursor = await begin(client)
        address.behind = new.port
        hook = asyncio.create_task(drained(f"127.0.0.1:{old.admin}"))

        # What the old one gave out names nothing in the new one: loss, not continuity.
        await cut.close()
        assert (await client.get(cursor)).status == 404
        # A request of the old session goes to the server, which knows it.
        later = await client.call()
        # A session of the new one.
        async with Client(address.port, version=PRIMED) as other:
            others = await open_calls(other, 1)
            calls.release.set()
            assert outcome(await others[0].messages()) == "run 6 done"
        assert outcome(await later.messages()) == "run 5 done"
        assert [outcome(await answer.messages()) for answer in answers] == [
            f"run {number} done" for number in (1, 2, 3)
        ]
        assert await hook == (0, "")
        assert server.executions == 6
        assert await old.stop() == 0
        assert await new.stop() == 0
