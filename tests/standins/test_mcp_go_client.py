"""A client on mcp-go before the proxy: see `clients/mcp_go.py` for what is recorded of it."""

from __future__ import annotations

import json

import pytest

from tests.standins.clients.mcp_go import McpGoClient
from tests.standins.clients.outcomes import CallFailed
from tests.standins.playing import playing
from tests.standins.servers.base import StandInServer, serving
from tests.support.proxy import guarding


async def test_a_foreign_response_on_its_stream_is_not_taken_for_its_own() -> None:
    """It takes the first message with an id for the response."""
    server = StandInServer()
    async with playing(server, McpGoClient) as (proxy, client):
        call = client.call()
        run = await server.run()
        foreign = json.dumps({"jsonrpc": "2.0", "id": 999, "result": {"content": []}})
        await run.raw(b"event: message\ndata: " + foreign.encode() + b"\n\n")
        await run.answer()
        assert await call == "run 1 done"
        assert await proxy.moved("dropped_messages_total") == {"reason=foreign": 1}


async def test_the_answer_to_another_call_is_not_taken_for_its_own() -> None:
    server = StandInServer()
    async with playing(server, McpGoClient) as (_, client):
        first, second = client.call(), client.call()
        runs = [await server.run(1), await server.run(2)]
        result = {"content": [{"type": "text", "text": "of another"}]}
        other = json.dumps({"jsonrpc": "2.0", "id": runs[1].request["id"], "result": result})
        await runs[0].raw(b"event: message\ndata: " + other.encode() + b"\n\n")
        for run in runs:
            await run.answer()
        assert {await first, await second} == {"run 1 done", "run 2 done"}


async def test_an_initialize_without_a_server_is_no_sign_of_the_oldest_transport() -> None:
    """200 and an error: a 4xx would have it look for the endpoint of another transport."""
    server = StandInServer()
    async with serving(server), guarding(server.port) as proxy:
        await server.stop()
        client = McpGoClient(proxy.port)
        with pytest.raises(CallFailed) as failed:
            await client.open()
        await client.http.__aexit__()
        assert failed.value.code == -32051
        await server.start()
