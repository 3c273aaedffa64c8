"""Clients and servers as people run them, in pairs that cover all of them; `make interop` plays every pair.

What does not end well through the proxy is played directly too, to know what the client would have got.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import IS_LONG
from tests.interop.matrix.peers import CLIENTS, SERVERS
from tests.interop.matrix.run import Pair, Result, play_through
from tests.interop.matrix.scenarios import SCENARIOS
from tests.peers.install import Peers

QUICK = [
    ("Python SDK 1", "server-everything"),
    ("Python SDK 1", "Python SDK 2"),
    ("Python SDK 2", "Python SDK 2 with events"),
    ("FastMCP", "FastMCP"),
    ("FastMCP", "TypeScript SDK 1"),
    ("TypeScript SDK 1", "Python SDK 1"),
    ("TypeScript SDK 1", "FastMCP with events"),
    ("TypeScript SDK 2", "Python SDK 1 with events"),
    ("mcp-remote", "TypeScript SDK 2"),
]
EVERY = [(client.name, server.name) for client in CLIENTS for server in SERVERS]
PAIRS = EVERY if IS_LONG else QUICK

Results = dict[tuple[str, str, str], Result]

pytestmark = pytest.mark.timeout(2400 if IS_LONG else 300)
each_cell = pytest.mark.parametrize(
    ("client", "server", "scenario"), [(*pair, scenario) for pair in PAIRS for scenario in SCENARIOS]
)


@pytest.fixture(scope="module")
def results(peers: Peers) -> Results:
    played = asyncio.run(play_through(peers, [_pair(*names) for names in PAIRS]))
    return {(result.client, result.server, result.scenario): result for result in played}


def _pair(client_name: str, server_name: str) -> Pair:
    (client,) = (client for client in CLIENTS if client.name == client_name)
    (server,) = (server for server in SERVERS if server.name == server_name)
    return client, server


def test_every_client_and_every_server_is_played() -> None:
    clients, servers = zip(*QUICK, strict=True)
    assert set(clients) == {client.name for client in CLIENTS}
    assert set(servers) == {server.name for server in SERVERS}


@each_cell
def test_no_client_fares_worse_and_none_hangs_crashes_or_loses_its_session(
    results: Results, client: str, server: str, scenario: str
) -> None:
    result = results[client, server, scenario]
    assert not result.complaint, f"{result.complaint}: {result}"
