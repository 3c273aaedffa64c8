"""A stand-in server, the proxy, and a stand-in client, put together for one test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from tests.standins.clients.base import StandInClient
from tests.standins.clients.outcomes import CallFailed
from tests.standins.servers.base import StandInServer, serving
from tests.standins.servers.parts import Run
from tests.support.client import DEADLINE_S
from tests.support.proxy import Proxy, guarding

AnyClient = TypeVar("AnyClient", bound=StandInClient)


@asynccontextmanager
async def playing(
    server: StandInServer, client: type[AnyClient], **settings: str
) -> AsyncIterator[tuple[Proxy, AnyClient]]:
    """The proxy in front of `server`, and a client with a session behind it."""
    async with serving(server), guarding(server.port, **settings) as proxy, client(proxy.port) as opened:
        yield proxy, opened


async def begun(server: StandInServer, client: StandInClient) -> tuple[asyncio.Task[str], Run]:
    """The first call, whose client has seen its first step, and the server's side of it."""
    call = client.call()
    run = await server.run()
    await run.progress(1)
    await client.sees("run 1 step 1")
    return call, run


async def settled(*calls: asyncio.Task[str]) -> list[str | int | None]:
    """What came of calls: the text of the result, or the code of the error."""
    outcomes: list[str | int | None] = []
    for call in calls:
        try:
            outcomes.append(await call)
        except CallFailed as error:
            outcomes.append(error.code)
    return outcomes


async def leaves(client: StandInClient, proxy: Proxy) -> None:
    """The client's call loses its connection, and the proxy has noticed; `may_resume` lets it return."""
    client.may_resume.clear()
    client.cut()
    async with asyncio.timeout(DEADLINE_S):
        while not any("method=tools/call" in labels for labels in await proxy.moved("requests_total")):
            pass
