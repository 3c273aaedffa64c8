"""HTTP+SSE of 2024-11-05 with the official SDKs: it passes, unguarded and unharmed.

The server's messages come on one GET of `/sse`, which names the path for the client's. There is no session
id, no event id and nothing to resume: what breaks, breaks as it does directly.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from tests.conftest import IS_LONG
from tests.interop.recorded import Exchange, exchanges
from tests.interop.stage import Stage
from tests.interop.steered import Line, Steered

CLIENTS = ("python-1.30", "typescript", *(["python-2.3"] if IS_LONG else []))
of_clients = pytest.mark.parametrize("client_kind", CLIENTS)


async def _server(stage: Stage, port: int = 0) -> tuple[Steered, int]:
    return await stage.server("python-1.30", "--old", port=port)


async def _client(stage: Stage, kind: str, port: int) -> Steered:
    client = await stage.client_of(kind, f"http://127.0.0.1:{port}/sse")
    await client.order("initialize")
    await client.wait_told("initialized", server="peer")
    return client


async def _call_until_held(client: Steered, label: str) -> None:
    arguments = {"steps": 3, "hold_at": 3, "label": label}
    await client.order("call", call="c", tool="count", arguments=arguments)
    await client.wait_told("progress", call="c", progress=3)


@of_clients
async def test_a_visit_passes_byte_for_byte_and_ends_with_its_client(stage: Stage, client_kind: str) -> None:
    server, upstream = await _server(stage)
    far = await stage.cutter(upstream)
    proxy = await stage.proxy(far.port)
    near = await stage.cutter(proxy.port)
    client = await _client(stage, client_kind, near.port)

    await client.order("list")
    await client.wait_told("listed", tools=["count", "echo"])
    await _call_until_held(client, "held")
    await server.order("release", label="held")
    result = await client.wait_result("c")

    assert json.loads(result["text"])["sum"] == 6
    assert [line["progress"] for line in client.told("progress")] == [1, 2, 3]
    assert [_as_seen(one) for one in exchanges(near)] == [_as_seen(one) for one in exchanges(far)]
    stream, *posts = exchanges(far)
    assert stream.request.start == b"GET /sse HTTP/1.1"
    assert stream.body_of_answer.count(b"event: message") == 6
    assert [post.status for post in posts] == [202, 202, 202, 202]
    assert {label.split(",")[0] for label in proxy.moved("epochgate_requests_total")} == {'class="plain"'}
    await client.kill()
    await far.wait_ended(b"GET /sse")


def _as_seen(exchange: Exchange) -> Exchange:
    """Less what no client can depend on.

    Only its answer shows that an `initialize` opens no session, so it goes up asking for no content coding,
    and its 202 comes down without body and type. Of any 202, the TypeScript client reads the head alone.
    """
    request, answer = exchange.request, exchange.answer
    if b'"initialize"' in request.body:
        request = request.without("accept-encoding")
    if answer is not None and exchange.status == 202:
        answer = replace(answer.without("content-type"), body=b"")
    return Exchange(request, answer)


@of_clients
async def test_a_server_restarted_mid_call_ends_it_as_it_does_directly(
    stage: Stage, client_kind: str
) -> None:
    """The Python clients fail the call; the TypeScript one connects again, and is unknown."""
    old, upstream = await _server(stage)
    proxy = await stage.proxy(upstream)
    near = [await stage.cutter(upstream), await stage.cutter(proxy.port)]
    clients = await asyncio.gather(*(_client(stage, client_kind, cutter.port) for cutter in near))
    for client in clients:
        await _call_until_held(client, "held")

    await old.kill()
    new, _ = await _server(stage, port=upstream)
    for client, cutter in zip(clients, near, strict=True):
        if client_kind == "typescript":
            await cutter.wait_down(b"event: (endpoint)", times=2)
            await client.order("list")
            await client.wait_told("error")
        else:
            await client.wait_told("error", call="c")

    directly, through = map(_story, clients)
    assert through == directly
    assert new.told("execution") == []


def _story(client: Steered) -> list[Line]:
    """What it told of its session; how it words its troubles is its own affair."""
    told = ("event", "call", "progress", "text", "tools")
    own = [line for line in client.lines if line["event"] not in ("text", "trouble")]
    return [{key: value for key, value in line.items() if key in told} for line in own]
