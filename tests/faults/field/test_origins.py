"""Names that must not be served, and addresses that a client cannot reach."""

from __future__ import annotations

import pytest

from tests.support.client import Client
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, serving, whole


@pytest.mark.parametrize(
    "line",
    ["Host: evil.example", "Host: evil.example:8808", "Host: 127.0.0.1\r\nOrigin: https://evil.example"],
)
@pytest.mark.parametrize("target", ["/mcp", "/other"])
async def test_a_name_that_was_bound_anew_is_forbidden_and_reaches_no_server(line: str, target: str) -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        answer = await client.send_raw(f"GET {target} HTTP/1.1\r\n{line}\r\n\r\n".encode())
        assert answer.status == 403
        await answer.read()
        assert server.requests == []


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("place", ["call", "plain"])
async def test_a_redirect_to_the_servers_own_address_is_one_to_its_path(status: int, place: str) -> None:
    """The client reaches the proxy, not the address that the server knows itself by."""
    server = McpServer()

    async def play(leg: Leg) -> None:
        await leg.peer.send(redirect())

    def redirect() -> bytes:
        return whole(status, [("location", f"http://127.0.0.1:{server.port}/mcp/?x=%2F")])

    server.play = play
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        if place == "call":
            answer = await client.call()
        else:
            server.override = redirect()
            client.session = None
            answer = await client.send("GET", "/other", [])
        assert (answer.status, answer.header("location")) == (status, "/mcp/?x=%2F")
        assert server.counts["tools/call"] == (place == "call")
