"""A page of elsewhere in a real Chromium, with the official TypeScript SDK in it.

The browser asks first (a preflight), shows the page only what the server lets it read, and says whose page
it is. The server speaks of that for itself; the proxy lets the page in when `allowed_origins` names it.
"""

from __future__ import annotations

import json

from tests.interop.recorded import exchanges
from tests.interop.steered import Steered
from tests.interop.surroundings import Surroundings

MARK = "dev.epochgate/restart"


async def _call_until_held(page: Steered, call: str) -> None:
    arguments = {"steps": 3, "hold_at": 3, "label": call}
    await page.order("call", call=call, tool="count", arguments=arguments)
    await page.wait_told("progress", call=call, progress=3)


async def _open(page: Steered, port: int) -> None:
    await page.order("open", server=f"http://127.0.0.1:{port}/mcp")
    await page.wait_told("ready")


async def test_a_page_has_a_session_that_outlives_its_connection_and_its_server(
    around: Surroundings,
) -> None:
    page, origin = await around.browser("page")
    server, upstream = await around.server("python-1.30", "--cors", origin)
    far = await around.cutter(upstream)
    proxy = await around.proxy(far.port, "--allowed-origins", origin)
    near = await around.cutter(proxy.port)
    await _open(page, near.port)

    await page.order("initialize")
    opened = await page.wait_told("initialized", revision="2025-11-25")
    assert far.find_down(rb"mcp-session-id: ([0-9a-f]+)")[0].decode() == opened["session"]
    await page.order("list")
    await page.wait_told("listed", tools=["count", "echo"])

    await _call_until_held(page, "cut")
    assert near.cut(b'"tools/call"') > 0
    await near.wait_resumed()
    await server.order("release", label="cut")
    result = await page.wait_result("cut")
    assert (json.loads(result["text"])["sum"], result["meta"]) == (6, {})
    assert len(server.told("execution", label="cut")) == 1

    await _call_until_held(page, "restarted")
    await server.kill()
    server, _ = await around.server("python-1.30", "--cors", origin, "--released", port=upstream)
    assert MARK in (await page.wait_result("restarted"))["meta"]
    await page.order("close")
    await page.wait_told("closed")

    asked = {one.request.start for one in exchanges(far)}
    assert asked >= {f"{verb} /mcp HTTP/1.1".encode() for verb in ("OPTIONS", "POST", "GET", "DELETE")}


async def test_a_page_speaks_the_stateless_revision(around: Surroundings) -> None:
    page, origin = await around.browser("stateless")
    server, upstream = await around.stateless_server("python-2.3", "--cors", origin)
    proxy = await around.proxy(upstream, "--allowed-origins", origin)
    await _open(page, proxy.port)

    await page.order("connect")
    await page.wait_told("connected", revision="2026-07-28")
    await _call_until_held(page, "done")
    await server.order("release", label="done")
    assert (await page.wait_result("done"))["text"] == "counted to 3"
    await _call_until_held(page, "left")
    await page.order("leave", call="left")
    await server.wait_told("cancelled", label="left")


async def test_a_page_that_was_not_let_in_reaches_nothing(around: Surroundings) -> None:
    """The default on a loopback address: pages of elsewhere are refused, and the browser is told."""
    page, origin = await around.browser("page")
    server, upstream = await around.server("python-1.30", "--cors", origin)
    far = await around.cutter(upstream)
    proxy = await around.proxy(far.port)
    near = await around.cutter(proxy.port)
    await _open(page, near.port)

    await page.order("initialize")

    await page.wait_told("failed", why="net::ERR_FAILED")
    assert "Failed to fetch" in (await page.wait_told("error", call="initialize"))["message"]
    assert [one.status for one in exchanges(near) if b"OPTIONS" in one.request.start] == [403]
    assert server.told("received") == []
    assert exchanges(far) == []
