"""What real clients and servers force, over sockets (W2, W4, W6, W10, W14, W16, R27, R42)."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from epochgate.shell.connection import UpstreamLimits
from tests.shell.running import running_proxy
from tests.support.client import Client, Truncated, call, initialize, outcome
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, serving, until

STATELESS = ("MCP-Protocol-Version", "2026-07-28")


async def wait_gone(leg: Leg) -> None:
    await leg.open()
    await leg.progress(1)
    await leg.peer.wait_gone()


async def stand(leg: Leg) -> None:
    await leg.open()
    await leg.log("here")
    await leg.peer.wait_gone()


def test_an_idle_connection_is_used_for_less_time_than_servers_keep_theirs() -> None:
    """uvicorn and Node close after 5 s; at that moment 4 of 20 calls were lost (W2)."""
    limits = UpstreamLimits()
    assert (limits.reuse_s, limits.pool_s) == (2.0, 4.0)


# --- W4 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["server/discover", "tools/list"])
async def test_a_stateless_request_to_a_server_out_of_reach_gets_no_status_of_ours(
    method: str,
) -> None:
    """A 502 on `server/discover` would downgrade its client for good (W4)."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    async with guarding(nobody) as proxy, Client(proxy.port) as client:
        with pytest.raises(Truncated):
            await client.post({"jsonrpc": "2.0", "id": 1, "method": method}, STATELESS)


# --- W6 ---------------------------------------------------------------------------------------------


def _connected() -> Iterator[socket.socket]:
    """A duplicate of each connected TCP socket of this process."""
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError), socket.socket(fileno=os.dup(int(descriptor))) as sock:
            if sock.family == socket.AF_INET and sock.getpeername():
                yield sock


def _options(sock: socket.socket) -> tuple[int, int, int]:
    return (
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
        sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
    )


async def test_both_legs_notice_a_peer_that_vanished() -> None:
    """A long call has no limit but this one: keepalive and TCP_USER_TIMEOUT (W6)."""
    server = McpServer(wait_gone)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        await (await client.call()).next_message()
        legs: dict[str, set[tuple[int, int, int]]] = {"client": set(), "upstream": set()}
        for sock in _connected():
            if sock.getsockname()[1] == proxy.port:
                legs["client"].add(_options(sock))
            elif sock.getpeername()[1] == server.port:
                legs["upstream"].add(_options(sock))
        assert legs == {"client": {(1, 60, 120_000)}, "upstream": {(1, 60, 120_000)}}


# --- W10 --------------------------------------------------------------------------------------------


async def test_idle_streams_end_only_once_nobody_can_come_back() -> None:
    """A GET that ended while the listener is open would return to a draining process (W10)."""
    server = McpServer()
    server.stand = stand
    async with serving(server), running_proxy(server.port, "--drain-delay", "0.5s") as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            idle = await client.get()
            await idle.next_message()
            proxy.process.send_signal(signal.SIGTERM)
            while (event := await idle.next_event()) is not None:
                assert not event.is_message
            with pytest.raises(ConnectionRefusedError):
                await client.call()
        assert await proxy.wait() == 0


# --- W14 --------------------------------------------------------------------------------------------


async def test_initialize_is_guarded_whatever_revision_its_header_names() -> None:
    """Java sends its latest version on it (W14)."""
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        answer = await client.post(initialize(), STATELESS)
        client.session = answer.header("mcp-session-id")
        told = await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, STATELESS)
        assert told.status == 202
        server.evict()
        message = (await (await client.call()).messages())[-1]
        assert message["result"]["_meta"]["dev.epochgate/restart"]["reason"] == "session_gone"


# --- W16, R27, R42 ----------------------------------------------------------------------------------


async def test_a_session_belongs_to_its_authority_and_path() -> None:
    """With `host: keep` two names are two servers, whose session ids may be equal (W16)."""
    server = McpServer()
    server.make_id = lambda: "derived"
    async with (
        serving(server),
        guarding(server.port, host="keep", allowed_hosts="*") as proxy,
        Client(proxy.port) as client,
    ):
        names = ("one.example", "two.example")
        asked = json.dumps(initialize()).encode()
        ids = [
            (await client.send_raw(_named("POST", name, len(asked)) + asked)).header("mcp-session-id")
            for name in names
        ]
        assert ids == ["derived", "derived"]
        for name in names:
            await client.send_raw(_named("DELETE", name, 0))
            assert server.requests[-1].header("host") == name


def _named(method: str, host: str, length: int) -> bytes:
    session = "Mcp-Session-Id: derived\r\n" if method == "DELETE" else ""
    head = f"{method} /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    return f"{head}{session}Content-Length: {length}\r\n\r\n".encode()


async def test_404_at_another_path_is_no_lost_session() -> None:
    """The id is named beside its endpoint: what the server says there passes (R27)."""
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        server.accepts = lambda request: 404 if request.target != "/mcp" else None
        other = await client.post(call(), target="/other")
        assert (other.status, await other.read()) == (404, b"refused")
        assert outcome(await (await client.call()).messages()) == "run 1 done"
        assert server.counts["initialize"] == 1
        assert await proxy.moved("heals_total") == {}


async def test_a_server_that_gives_a_healed_sessions_old_id_to_another_client() -> None:
    """The healed one keeps it towards its client; the newcomer's is minted (R42)."""
    server = McpServer()
    ids = iter(["S", "T", "S"])
    server.make_id = lambda: next(ids)
    async with (
        serving(server),
        guarding(server.port) as proxy,
        Client(proxy.port) as alice,
        Client(proxy.port) as bob,
    ):
        await alice.open()
        await alice.call()
        server.evict()
        assert outcome(await (await alice.call()).messages()) == "run 2 done"
        assert "T" in server.sessions
        await bob.open()
        assert alice.session == "S"
        assert bob.session not in (None, "S", "T")
        for client, upstream_id in ((alice, "T"), (bob, "S"), (alice, "T")):
            await (await client.call()).messages()
            assert server.runs[-1].session.id == upstream_id
        await until(lambda: server.executions == 5)
