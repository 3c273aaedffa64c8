"""Who may use a listener by which name: the rule of a loopback address, and the lists (W12)."""

from __future__ import annotations

import pytest

from tests.support.client import Client
from tests.support.proxy import Proxy, guarding
from tests.support.server import McpServer, serving

FOREIGN = ["Host: evil.example", "Host: localhost\r\nOrigin: https://evil.example"]


async def status(port: int, *lines: str, path: str = "/mcp") -> int:
    """What a GET with these header lines gets."""
    async with Client(port) as client:
        request = "\r\n".join([f"GET {path} HTTP/1.1", *lines, "Connection: close", "", ""])
        return (await client.send_raw(request.encode())).status


async def statuses(proxy: Proxy, *heads: str) -> list[int]:
    return [await status(proxy.port, head) for head in heads]


@pytest.mark.parametrize("head", FOREIGN)
async def test_on_loopback_a_foreign_host_or_origin_gets_403_from_every_listener(head: str) -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy:
        assert await status(proxy.port, head) == 403
        assert await status(proxy.admin, head, path="/metrics") == 403
        assert server.requests == []
        assert await proxy.moved("requests_total") == {"class=plain,method=other,status=403": 1}


async def test_the_lists_decide_where_they_are_given() -> None:
    server = McpServer()
    lists = {"allowed_hosts": "mcp.example", "allowed_origins": "https://app.example"}
    server.override = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with serving(server), guarding(server.port, **lists) as proxy:
        host = "Host: mcp.example:8808"
        assert await statuses(
            proxy,
            host,
            "Host: localhost",
            f"{host}\r\nOrigin: https://app.example",
            f"{host}\r\nOrigin: http://localhost",
        ) == [200, 403, 200, 403]
        # The admin listener is a loopback one whatever the lists say.
        assert await status(proxy.admin, "Host: mcp.example", path="/livez") == 403
        assert await status(proxy.admin, "Host: localhost", path="/livez") == 200


async def test_a_list_of_any_lets_every_name_in() -> None:
    server = McpServer()
    server.override = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with serving(server), guarding(server.port, allowed_hosts="*", allowed_origins="*") as proxy:
        assert await statuses(proxy, "Host: any.example\r\nOrigin: https://any.example") == [200]
