"""A real nginx in front of the proxy, as it is by default: it gathers answers, and speaks HTTP/1.0 to it.

What other things do that stand there, and what to set, is in `docs/in-front.md`.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.interop.steered import Steered
from tests.interop.surroundings import Surroundings
from tests.support.client import PRIMED, Client
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, serving

of_clients = pytest.mark.parametrize("client_kind", ["python-1.30", "typescript"])


async def test_progress_arrives_when_it_is_told(around: Surroundings) -> None:
    """From a server that forbids nobody to gather its events: the proxy does, on guarded streams."""
    is_seen = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await is_seen.wait()
        await leg.answer()
        await leg.end()

    async with serving(McpServer(play)) as server, guarding(server.port) as proxy:
        _, port = await around.nginx(proxy.port)
        async with Client(port, version=PRIMED) as client:
            await client.open()
            answer = await client.call()
            while (event := await answer.next_event()) is not None and not event.is_message:
                pass
            assert event is not None
            assert event.message["params"]["progress"] == 1
            is_seen.set()
            messages = await answer.messages()
    assert ["result" in message for message in messages] == [True]
    assert server.executions == 1


async def _session(around: Surroundings, kind: str, port: int) -> Steered:
    client = await around.client(kind, port)
    await client.order("initialize")
    await client.wait_told("initialized", server="peer")
    return client


async def _call_until_held(client: Steered, label: str = "") -> None:
    arguments = {"steps": 3, "hold_at": 3, "label": label}
    await client.order("call", call="a", tool="count", arguments=arguments)
    await client.wait_told("progress", call="a", progress=3)


def _progress(client: Steered) -> list[int]:
    return [line["progress"] for line in client.told("progress", call="a")]


@of_clients
async def test_a_call_that_nginx_or_the_way_to_it_breaks_is_resumed_through_it(
    around: Surroundings, client_kind: str
) -> None:
    server, upstream = await around.server("python-1.30")
    proxy = await around.proxy(upstream)
    nginx, port = await around.nginx(proxy.port)
    cutter = await around.cutter(port)
    client = await _session(around, client_kind, cutter.port)
    await _call_until_held(client)

    assert cutter.cut(b'"tools/call"') == 1
    await cutter.wait_resumed(1)
    await nginx.kill()
    await around.nginx(proxy.port, port=port)
    await cutter.wait_resumed(2)
    await server.order("release")

    result = await client.wait_result("a")
    assert json.loads(result["text"])["sum"] == 6
    assert result["meta"] == {}
    assert _progress(client) == [1, 2, 3]
    assert len(server.told("execution")) == 1


async def test_a_call_may_be_silent_for_longer_than_nginx_waits(around: Surroundings) -> None:
    """What the proxy writes into idle streams counts as life; the limit here stands for nginx's 60 s."""
    server, upstream = await around.server("python-1.30")
    proxy = await around.proxy(upstream, "--keepalive", "300ms")
    _, port = await around.nginx(proxy.port, "proxy_read_timeout 2s;")
    cutter = await around.cutter(port)
    client = await _session(around, "python-1.30", cutter.port)
    await _call_until_held(client)

    await cutter.wait_down(b"(: keepalive)", times=16)  # two streams, each every 300 ms: 2.4 s
    await server.order("release")

    await client.wait_result("a")
    assert cutter.sent_up(b"last-event-id") == 0
    assert len(server.told("execution")) == 1


async def test_a_stateless_client_that_leaves_cancels_through_it(around: Surroundings) -> None:
    server, upstream = await around.stateless_server("python-2.3")
    proxy = await around.proxy(upstream)
    _, port = await around.nginx(proxy.port)
    client = await around.stateless_client("python-2.3", port)
    await client.order("connect")
    await client.wait_told("connected", revision="2026-07-28")
    await _call_until_held(client, "left")

    await client.order("leave", call="a")

    await server.wait_told("cancelled", label="left")
