"""Operation as it goes wrong in the field: drains that end too much, probes that look at the wrong thing."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.shell.running import request, running_proxy
from tests.shell.wire import Peer, Upstreams, connected
from tests.shell.wire import serving as serving_raw
from tests.support.client import JSON, Client, Truncated, initialize, outcome
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, serving, whole

PROBES = ("/livez", "/startupz", "/readyz")


async def status_of(port: int, target: str) -> int:
    async with Client(port) as probe:
        answer = await probe.send("GET", target, [])
        await answer.read()
        return answer.status


# draining


async def test_a_drain_leaves_the_servers_sessions_for_whoever_comes_next() -> None:
    """No DELETE: the session may be picked up again. The next process proves nothing of it."""
    go_on = asyncio.Event()

    async def play(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await go_on.wait()
        await leg.answer()
        await leg.end()

    async def stand(leg: Leg) -> None:
        await leg.open()
        await leg.log("here")
        await leg.peer.wait_gone()

    server = McpServer(play)
    server.stand = stand
    async with serving(server):
        async with running_proxy(server.port) as proxy, Client(proxy.port) as client:
            await client.open()
            listening = await client.get()
            await listening.next_message()
            answer = await client.call()
            event = await answer.next_event()
            assert event is not None
            proxy.process.send_signal(signal.SIGTERM)
            assert await listening.next_event() is None  # the final chunk
            go_on.set()
            assert outcome(await answer.messages()) == "run 1 done"
            assert await proxy.wait() == 0
        assert server.counts["DELETE"] == 0
        assert len(server.sessions) == 1
        async with running_proxy(server.port) as proxy, Client(proxy.port) as late:
            late.session = client.session
            assert (await late.get(event.id)).status == 404  # loss, not continuity
            assert server.counts["GET"] == 1
            assert outcome(await (await late.call()).messages()) == "run 2 done"
            assert await proxy.stop() == 0


@pytest.mark.parametrize("is_kept", [False, True], ids=["a new connection", "a kept connection"])
async def test_what_comes_during_the_delay_is_served(is_kept: bool) -> None:
    server = McpServer()
    server.override = whole(200, [("content-type", JSON)], b"{}")
    async with (
        serving(server),
        running_proxy(server.port, "--drain-delay", "1s") as proxy,
        connected(proxy.port) as peer,
    ):
        await peer.send(request(None, method="GET", path="/a"))
        await peer.read_message()
        while await status_of(proxy.health, "/readyz") != 200:
            pass
        proxy.process.send_signal(signal.SIGTERM)
        while await status_of(proxy.health, "/readyz") != 503:
            pass
        assert await status_of(proxy.health, "/livez") == 200
        if is_kept:
            await peer.send(request({"jsonrpc": "2.0", "id": 1, "method": "x"}))
            head, _ = await peer.read_message()
            assert head.startswith(b"HTTP/1.1 200 ")
            assert b"\r\nConnection: close\r\n" in head
        else:
            assert await status_of(proxy.port, "/b") == 200
        assert await proxy.wait() == 0


async def test_a_server_that_is_there_later_than_the_proxy_costs_an_error_and_no_restart() -> None:
    server = McpServer()
    async with serving(server):
        pass  # its port is known, and nobody listens there
    async with running_proxy(server.port) as proxy, Client(proxy.port) as client:
        assert [await status_of(proxy.health, one) for one in PROBES] == [200, 200, 503]
        early = await client.post(initialize())
        assert (await early.json())["error"]["code"] == -32051
        async with serving(server):
            await client.open()
            assert outcome(await (await client.call()).messages()) == "run 1 done"
            while await status_of(proxy.health, "/readyz") != 200:
                pass
            assert await proxy.stop() == 0


# probes


async def test_a_lost_session_shows_in_counters_and_not_in_probes() -> None:
    """The server restarts between two looks of a probe."""
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        await server.restart()
        assert outcome(await (await client.call()).messages()) == "run 1 done"
        assert [await status_of(proxy.admin, one) for one in PROBES] == [200, 200, 200]
        assert await proxy.moved("heals_total") == {"outcome=healed,trigger=session_gone": 1}


@pytest.mark.parametrize("status", [421, 404])
async def test_a_server_whose_health_is_good_and_whose_mcp_is_not_shows_in_counters(status: int) -> None:
    server = McpServer()
    server.accepts = lambda request: None if request.target == "/health" else status
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        assert (await client.post(initialize())).status == status
        assert [await status_of(proxy.admin, one) for one in PROBES] == [200, 200, 200]
        (labels,) = await proxy.moved("requests_total")
        assert "method=initialize" in labels
        assert "status=4" in labels


async def test_a_server_that_accepts_and_says_nothing_holds_no_probe_up() -> None:
    async def never(upstreams: Upstreams, peer: Peer) -> None:
        await peer.wait_gone()

    async with serving_raw(never) as server, guarding(server.port) as proxy, Client(proxy.port) as client:
        asked = asyncio.ensure_future(client.post(initialize()))
        async with asyncio.timeout(5):
            assert [await status_of(proxy.admin, one) for one in PROBES] == [200, 200, 200]
        asked.cancel()


@pytest.mark.parametrize(
    "target",
    ["/metrics", "/healthz", "/livez", "/readyz", "/startupz", "/mcp/metrics", "/mcp/healthz", "/sessions"],
)
async def test_the_proxys_own_pages_shadow_nothing_of_the_servers(target: str) -> None:
    server = McpServer()
    server.override = whole(200, [("content-type", "text/plain")], b"the server's own")
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        answer = await client.send("GET", target, [])
        assert (answer.status, await answer.read()) == (200, b"the server's own")
        assert [one.target for one in server.requests] == [target]


@pytest.mark.parametrize("target", ["/mcp", "/", "/mcp/metrics", "/livez/../mcp"])
async def test_the_admin_listener_leads_to_no_server(target: str) -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy:
        for method in ("GET", "POST"):
            async with Client(proxy.admin) as client:
                try:
                    answer = await client.send(method, target, [], b"{}" if method == "POST" else None)
                    is_page = (method, target) == ("GET", "/")  # for people, and made here
                    assert answer.status >= 400 or is_page
                except Truncated:
                    pass
        assert server.requests == []
