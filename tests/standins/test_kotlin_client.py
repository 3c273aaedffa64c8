"""A client on the Kotlin SDK before the proxy: see `clients/kotlin.py` for what is recorded of it."""

from __future__ import annotations

import json

from tests.standins.clients.kotlin import KotlinClient
from tests.standins.playing import begun, playing, settled
from tests.standins.servers.base import StandInServer
from tests.standins.test_every_client import DESTRUCTIVE
from tests.support.legs import LAST_CHUNK, until


async def test_a_resume_behind_an_error_gives_it_its_standalone_stream_back() -> None:
    """It has one job for GETs: the resume ended its own standalone stream (W3)."""
    server = StandInServer(tools=(DESTRUCTIVE,))
    async with playing(server, KotlinClient) as (_, client):
        await client.listen()
        await server.notify("first")
        await client.hears("first")
        call = client.call()
        await (await server.run()).progress(1)
        await client.sees("run 1 step 1")
        server.cut(server.runs[0].stream)
        assert await settled(call) == [-32050]
        await server.notify("second")
        await until(lambda: "second" in client.heard)
        assert server.newest.gets == 1


async def test_a_resume_of_a_call_that_ended_its_standalone_stream_loses_no_answer() -> None:
    server = StandInServer()
    async with playing(server, KotlinClient) as (_, client):
        await client.listen()
        call, run = await begun(server, client)
        client.cut(keeps_standing=True)
        await run.answer()
        assert await call == "run 1 done"
        assert client.listening is None


async def test_a_message_in_several_lines_of_data_is_still_one() -> None:
    """It joins them without a line end, which is white space to JSON."""
    server = StandInServer()
    async with playing(server, KotlinClient) as (_, client):
        call = client.call()
        run = await server.run()
        result = {"content": [{"type": "text", "text": "in many lines"}]}
        text = json.dumps({"jsonrpc": "2.0", "id": run.request["id"], "result": result}, indent=1)
        await run.raw(b"".join(b"data: %b\n" % line.encode() for line in text.split("\n")) + b"\n")
        assert run.stream.leg is not None
        await run.stream.leg.peer.send(LAST_CHUNK)
        assert await call == "in many lines"
