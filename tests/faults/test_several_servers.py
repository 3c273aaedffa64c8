"""Several servers behind one proxy: each session stays with the one that began it, and outlives it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.shell.wire import Peer
from tests.support.client import PRIMED, Client, Truncated, call, initialize, outcome
from tests.support.legs import Leg
from tests.support.proxy import Proxy, guarding
from tests.support.server import McpServer, serving, whole

MARK = "dev.epochgate/restart"
SOON = {"resume_deadline": "300ms", "resume_headers": "200ms"}
STATELESS = [("MCP-Protocol-Version", "2026-07-28"), ("Content-Type", "application/json")]


@dataclass
class Scene:
    servers: list[McpServer]
    proxy: Proxy
    stack: AsyncExitStack

    async def client(self) -> tuple[Client, McpServer]:
        """A client with a session, and the server that began it."""
        before = [server.counts["initialize"] for server in self.servers]
        client = await self.stack.enter_async_context(Client(self.proxy.port, version=PRIMED))
        await client.open()
        (home,) = [
            server
            for server, count in zip(self.servers, before, strict=True)
            if server.counts["initialize"] > count
        ]
        return client, home

    def other(self, home: McpServer) -> McpServer:
        return next(server for server in self.servers if server is not home)


@asynccontextmanager
async def several(count: int = 2, **settings: str) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(McpServer())) for _ in range(count)]
        for at, server in enumerate(servers):
            server.make_id = iter([f"s{at}-{number}" for number in range(100)]).__next__
        urls = ", ".join(f"http://127.0.0.1:{server.port}" for server in servers)
        proxy = await stack.enter_async_context(guarding(urls, **settings))
        yield Scene(servers, proxy, stack)


async def test_sessions_are_spread_and_each_stays_with_its_server() -> None:
    async with several(3) as scene:
        found = [await scene.client() for _ in range(6)]
        for client, _ in found:
            for _ in range(3):
                assert str(outcome(await (await client.call()).messages())).endswith("done")

        assert [server.counts["initialize"] for server in scene.servers] == [2, 2, 2]
        assert [server.executions for server in scene.servers] == [6, 6, 6]
        assert await scene.proxy.moved("heals_total") == {}


async def test_a_session_that_ends_makes_its_server_the_next_one() -> None:
    async with several() as scene:
        clients = [await scene.client() for _ in range(4)]
        leaving = [client for client, home in clients if home is scene.servers[1]]
        for client in leaving:
            assert (await client.delete()).status in (200, 204)

        assert [home for _, home in [await scene.client() for _ in range(2)]] == [scene.servers[1]] * 2


async def test_a_dead_server_s_session_is_healed_on_another() -> None:
    async with several(2, **SOON) as scene:
        client, home = await scene.client()
        await home.stop()

        (answer,) = [one for one in await (await client.call()).messages() if "id" in one]

        assert answer["result"]["_meta"][MARK]["reissued"] is False
        other = scene.other(home)
        assert other.found() == {"initialize": 1, "initialized": 1, "executions": 1}
        assert str(outcome(await (await client.call()).messages())).endswith("done")
        assert other.executions == 2


async def test_a_call_that_breaks_with_its_server_is_issued_again_on_another() -> None:
    async with several(2, **SOON) as scene:
        client, home = await scene.client()

        async def waits(leg: Leg) -> None:
            await leg.open()
            await leg.progress(1)
            await leg.peer.wait_gone()

        home.play = waits
        answer = await client.call()
        assert (await answer.next_message())["method"] == "notifications/progress"
        await home.stop()

        messages = await answer.messages()

        assert messages[-1]["result"]["_meta"][MARK]["reissued"] is True
        assert [server.executions for server in (home, scene.other(home))] == [1, 1]


async def test_new_sessions_pass_a_server_by_that_is_not_reached() -> None:
    """Also the first of all, of which nothing is known yet."""
    async with several() as scene:
        dead, alive = scene.servers
        await dead.stop()

        for _ in range(3):
            _, home = await scene.client()
            assert home is alive

        assert await scene.proxy.moved("upstreams") == {"state=reached": 1, "state=not_reached": 1}
        await dead.start()
        await dead.until(lambda: len(reached(scene.proxy)) == 1)
        _, home = await scene.client()
        assert home is dead


def reached(proxy: Proxy) -> list[dict[str, str]]:
    """The servers that were reached after they had not been."""
    lines = [json.loads(line) for line in proxy.lines]
    lost = [line["server"] for line in lines if line["event"] == "server not reached"]
    return [line for line in proxy.log("server reached") if line["server"] in lost]


async def test_a_404_of_a_session_s_own_server_is_a_loss_and_healed_there() -> None:
    async with several() as scene:
        client, home = await scene.client()
        home.evict()

        assert str(outcome(await (await client.call()).messages())).endswith("done")

        assert (home.counts["initialize"], scene.other(home).counts["initialize"]) == (2, 0)
        assert await scene.proxy.moved("heals_total") == {"outcome=healed,trigger=session_gone": 1}


async def test_a_server_that_refuses_new_sessions_does_not_keep_a_lost_one() -> None:
    """It is there and says 503, as servers do that go away: the heal turns to another."""
    async with several() as scene:
        client, home = await scene.client()
        home.evict()
        home.accepts = lambda request: 503 if request.message.get("method") == "initialize" else None

        assert str(outcome(await (await client.call()).messages())).endswith("done")
        assert scene.other(home).executions == 1


async def test_equal_ids_of_two_servers_are_two_sessions() -> None:
    """Servers that count their sessions give the same names (G2)."""
    async with several() as scene:
        for server in scene.servers:
            server.make_id = iter(["1"]).__next__
        one, first = await scene.client()
        two, second = await scene.client()
        assert first is not second
        assert one.session != two.session

        for client in (one, two, two):
            assert str(outcome(await (await client.call()).messages())).endswith("done")

        assert (first.executions, second.executions) == (1, 2)


async def test_a_session_begun_elsewhere_is_found_and_asked_for_no_more() -> None:
    """A 404 of the other replica is not taken for its loss."""
    async with several(2, unknown_sessions="pass") as scene:
        for server in scene.servers:
            async with Client(server.port) as direct:
                await direct.open()
                async with Client(scene.proxy.port) as client:
                    client.session = direct.session
                    for _ in range(3):
                        assert str(outcome(await (await client.call()).messages())).endswith("done")

        calls = [server.counts["tools/call"] for server in scene.servers]
        assert [server.executions for server in scene.servers] == [3, 3]
        assert sum(calls) - 6 <= 2  # each was looked for at most once in the wrong place


async def test_a_session_begun_elsewhere_is_not_looked_for_unless_the_settings_say_so() -> None:
    """The wrong server may give the same id to another client, or make a session of any id (G2)."""
    async with (
        several() as scene,
        Client(scene.servers[0].port) as direct,
        Client(scene.proxy.port) as client,
    ):
        await direct.open()
        client.session = direct.session

        assert (await client.call()).status == 404
        assert [server.executions for server in scene.servers] == [0, 0]


async def test_a_session_that_nobody_knows_is_told_404_once() -> None:
    async with several(2, unknown_sessions="pass") as scene, Client(scene.proxy.port) as client:
        client.session = "nobody-s"

        answer = await client.call()

        assert (answer.status, await answer.read()) == (404, b"no such session")
        assert [server.counts["tools/call"] for server in scene.servers] == [1, 1]


async def test_a_search_never_asks_again_what_may_have_run() -> None:
    """A server that broke off in mid-call may have run it: nobody else is asked (G4)."""

    async def breaks(peer: Peer) -> None:
        await peer.close()

    async with several(2, unknown_sessions="pass") as scene, Client(scene.proxy.port) as client:
        client.session = "nobody-s"
        for server in scene.servers:
            server.on_request = breaks

        with pytest.raises(Truncated):
            await client.call()

        assert sum(server.counts["tools/call"] for server in scene.servers) == 1


async def test_the_two_requests_of_http_and_sse_find_the_same_server() -> None:
    """Its POSTs belong to the stream that the client has open, which nothing in them proves."""
    seen: list[tuple[McpServer, str]] = []

    async with several(4) as scene:
        for server in scene.servers:

            async def note(peer: Peer, server: McpServer = server) -> None:
                seen.append((server, server.requests[-1].target))
                await peer.send(whole(202))

            server.on_request = note
        for _ in range(3):
            async with Client(scene.proxy.port) as client:
                await client.send("GET", "/sse", [("Accept", "text/event-stream")])
                await client.post(initialize(), target="/messages/?session_id=a1")
                await client.post(call(), target="/messages/?sessionId=a1")

        assert len(seen) == 9
        assert len({id(server) for server, _ in seen}) == 1


async def test_stateless_traffic_goes_to_whoever_has_the_least_to_do() -> None:
    async with several() as scene:
        busy, idle = scene.servers

        async def take(peer: Peer) -> None:
            await peer.send(whole(200, [], b"{}"))

        idle.on_request = take
        _, home = await scene.client()
        assert home is busy
        async with Client(scene.proxy.port) as client:
            for _ in range(3):
                ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
                assert (await client.send("POST", "/mcp", STATELESS, ping)).status == 200

        assert idle.counts["ping"] == 3


async def test_stateless_traffic_passes_a_server_by_that_says_it_is_busy() -> None:
    async with several() as scene:
        scene.servers[0].override = whole(503)
        scene.servers[1].override = whole(200, [], b"{}")
        async with Client(scene.proxy.port) as client:
            ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
            found = [(await client.send("POST", "/mcp", STATELESS, ping)).status for _ in range(4)]

        assert found == [503, 200, 200, 200]


async def test_a_slow_heal_does_not_move_sessions_of_the_server_that_lives() -> None:
    """Only what lived there moves: the other's sessions never notice."""
    async with several(2, **SOON) as scene:
        one, home = await scene.client()
        two, other = await scene.client()
        await home.stop()

        answers = await asyncio.gather(one.call(), two.call())
        for answer in answers:
            assert str(outcome(await answer.messages())).endswith("done")

        assert await scene.proxy.moved("heals_total") == {"outcome=healed,trigger=stream_restart": 1}
        assert other.counts["initialize"] == 2


async def test_a_session_opened_by_a_request_of_another_is_found_where_it_is() -> None:
    """A client that negotiates anew under its old name, at a server that lost it or not."""
    async with several(3) as scene:
        for _ in range(2):
            await scene.client()
        client, _ = await scene.client()
        answer = await client.post(initialize(PRIMED))
        await answer.read()
        before, client.session = client.session, answer.header("mcp-session-id")
        assert client.session not in (before, None)

        for _ in range(3):
            assert str(outcome(await (await client.call()).messages())).endswith("done")

        assert sum(server.executions for server in scene.servers) == 3
        assert max(server.executions for server in scene.servers) == 3
        assert await scene.proxy.moved("heals_total") == {}


async def test_where_a_session_lives_is_shown() -> None:
    async with several() as scene:
        _, home = await scene.client()
        async with Client(scene.proxy.admin) as people:
            answer = await people.send("GET", "/sessions", [])
            (shown,) = json.loads(await answer.read())["sessions"]
        assert shown["server"] == f"127.0.0.1:{home.port}"


async def test_old_streams_that_never_broke_go_on_where_they_are_while_new_calls_go_elsewhere() -> None:
    """Of a session that was lost, on a server that lives: its own requests find it after the heal (R18)."""
    release = asyncio.Event()

    async def works(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await release.wait()
        await leg.answer()
        await leg.end()

    async with several() as scene:
        client, home = await scene.client()
        home.play = works
        running = await client.call()
        assert (await running.next_message())["method"] == "notifications/progress"
        home.evict()
        home.accepts = lambda request: 503 if request.message.get("method") == "initialize" else None

        assert str(outcome(await (await client.call(7)).messages())).endswith("done")
        assert scene.other(home).executions == 1
        release.set()
        assert str(outcome(await running.messages())).endswith("done")
