"""How a server's `Location` is told: its own address as a path, every other byte for byte."""

from __future__ import annotations

import pytest

from epochgate.shell.origin import Origin
from tests.support.client import Client
from tests.support.proxy import Proxy, guarding
from tests.support.server import McpServer, serving

OWN = [
    (b"http://app.example:8000/mcp/?x=1", b"/mcp/?x=1"),
    (b"HTTP://App.Example:8000/mcp/?x=%2F#there", b"/mcp/?x=%2F#there"),
    (b"http://app.example:8000/mcp//a/../b", b"/mcp//a/../b"),
    (b"http://app.example:8000", b"/"),
    (b"http://app.example:8000?x=1", b"/?x=1"),
]
OTHER = [
    b"/mcp/",
    b"mcp/",
    b"//app.example:8000/mcp/",
    b"https://app.example:8000/mcp/",
    b"http://app.example/mcp/",
    b"http://app.example:8001/mcp/",
    b"http://app.example.evil.example:8000/mcp/",
    b"http://app.example:8000@evil.example/mcp/",
    b"http://user@app.example:8000/mcp/",
    b"http://other.example/?next=http://app.example:8000/",
    b"http://app.example:8000\\@evil.example/",
    b" http://app.example:8000/mcp/",
    b"",
    # As paths these would lead to another host.
    b"http://app.example:8000//evil.example/",
    b"http://app.example:8000/\\evil.example/",
    b"http://app.example:8000/\t/evil.example/",
]


@pytest.mark.parametrize(("location", "told"), OWN)
def test_the_server_s_own_address_becomes_a_path(location: bytes, told: bytes) -> None:
    assert Origin.from_url("http://app.example:8000").home().localised(location) == told


@pytest.mark.parametrize("location", OTHER)
def test_any_other_location_stays_as_it_is(location: bytes) -> None:
    assert Origin.from_url("http://app.example:8000").home().localised(location) == location


@pytest.mark.parametrize("url", ["http://app.example", "http://app.example:80"])
@pytest.mark.parametrize("named", [b"app.example", b"app.example:80", b"app.example:"])
def test_the_usual_port_may_be_left_out(url: str, named: bytes) -> None:
    home = Origin.from_url(url).home()
    assert home.localised(b"http://%b/mcp/" % named) == b"/mcp/"


def test_an_address_of_version_6_is_compared_with_its_brackets() -> None:
    home = Origin.from_url("http://[::1]").home()
    assert home.localised(b"http://[::1]:80/a") == b"/a"
    assert home.localised(b"http://[::1]:8000/a") == b"http://[::1]:8000/a"


def test_the_host_that_was_sent_up_is_the_server_s_own_too() -> None:
    home = Origin.from_url("http://10.0.0.7:8000").home(b"mcp.example:8808")
    assert home.localised(b"http://mcp.example:8808/mcp/") == b"/mcp/"
    assert home.localised(b"http://10.0.0.7:8000/mcp/") == b"/mcp/"
    assert home.localised(b"http://mcp.example/mcp/") == b"http://mcp.example/mcp/"


def test_the_path_of_the_server_s_url_is_none_of_the_client_s() -> None:
    home = Origin.from_url("http://app.example/base").home()
    assert home.localised(b"http://app.example/base/mcp/?x=1") == b"/mcp/?x=1"
    assert home.localised(b"http://app.example/base") == b"/"
    for elsewhere in (b"http://app.example/login", b"http://app.example/based/mcp"):
        assert home.localised(elsewhere) == elsewhere


# --- through the proxy ------------------------------------------------------------------------------


async def redirected(proxy: Proxy, server: McpServer, location: str) -> list[str | None]:
    """What a session's POST, its GET, and a request outside the guard are told of a redirect."""
    async with Client(proxy.port) as client:
        await client.open()
        server.override = (
            b"HTTP/1.1 307 Moved\r\nLOCATION: %b\r\nContent-Length: 0\r\n\r\n" % location.encode()
        )
        before = len(server.requests)
        answers = [await client.call(), await client.get(), await client.send("GET", "/other", [])]
        assert [answer.status for answer in answers] == [307, 307, 307]
        assert len(server.requests) == before + 3, "a redirect is never followed"
        server.override = None
        return [answer.header("location") for answer in answers]


async def test_a_redirect_of_any_traffic_is_told_as_a_path() -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy:
        inner = f"http://127.0.0.1:{server.port}"
        assert await redirected(proxy, server, f"{inner}/mcp/?x=1") == ["/mcp/?x=1"] * 3
        elsewhere = f"http://127.0.0.1:{proxy.port}/mcp/"
        assert await redirected(proxy, server, elsewhere) == [elsewhere] * 3


async def test_with_the_client_s_host_a_redirect_to_it_is_told_as_a_path() -> None:
    server = McpServer()
    async with serving(server), guarding(server.port, host="keep") as proxy:
        outer = f"http://127.0.0.1:{proxy.port}"
        assert await redirected(proxy, server, f"{outer}/mcp/") == ["/mcp/"] * 3


async def test_with_a_given_host_a_redirect_to_it_is_told_as_a_path() -> None:
    server = McpServer()
    async with serving(server), guarding(server.port, host="mcp.example") as proxy:
        assert await redirected(proxy, server, "http://mcp.example/mcp/") == ["/mcp/"] * 3
        assert await redirected(proxy, server, "https://mcp.example/mcp/") == ["https://mcp.example/mcp/"] * 3
