"""The official TypeScript SDK client and `server-everything` on the two sides of the proxy.

That server gives every event an id and keeps it, replays the wrong ones, states no epoch and answers 400
for a session it does not know. Executions are counted by what went to it over the wire.
"""

from __future__ import annotations

import urllib.request

from tests.interop.cutter import Cutter
from tests.interop.stage import Stage
from tests.interop.steered import Steered

MARK = "dev.epochgate/restart"
CALL = b'"tools/call"'
TOOL = "trigger-long-running-operation"
STEPS = 5
SECONDS = 2.5
DONE = "Long running operation completed. Duration: 2.5 seconds, Steps: 5."
UNBROKEN = [1, 2, 3, 4, 5]


async def _session(stage: Stage, port: int) -> Steered:
    client = await stage.client("typescript", port)
    await client.order("initialize")
    await client.wait_told("initialized", server="mcp-servers/everything", revision="2025-11-25")
    return client


async def _call_until_seen(client: Steered, step: int) -> None:
    arguments = {"duration": SECONDS, "steps": STEPS}
    await client.order("call", call="a", tool=TOOL, arguments=arguments)
    await client.wait_told("progress", call="a", progress=step)


def _progress(client: Steered) -> list[int]:
    return [line["progress"] for line in client.told("progress", call="a")]


def _end_session(cutter: Cutter) -> None:
    """DELETE the session behind the proxy's back, as a reaper would."""
    (session,) = set(cutter.find_down(rb"mcp-session-id: ([0-9a-f-]+)"))
    request = urllib.request.Request(
        f"http://127.0.0.1:{cutter.target}/mcp", method="DELETE", headers={"Mcp-Session-Id": session.decode()}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


async def test_an_undisturbed_session_works(stage: Stage) -> None:
    _, upstream = await stage.server("typescript")
    cutter = await stage.cutter(upstream)
    proxy = await stage.proxy(cutter.port)
    client = await _session(stage, proxy.port)

    await client.order("list")
    assert TOOL in (await client.wait_told("listed"))["tools"]
    await _call_until_seen(client, 1)
    result = await client.wait_result("a")

    assert result["text"] == DONE
    assert result["meta"] == {}
    assert _progress(client) == UNBROKEN
    assert cutter.sent_up(CALL) == 1
    await client.order("close")
    await client.wait_told("closed")
    assert await proxy.process.stop() == 0


async def test_a_call_cut_on_the_client_leg_is_resumed_by_the_sdk(stage: Stage) -> None:
    _, upstream = await stage.server("typescript")
    up = await stage.cutter(upstream)
    proxy = await stage.proxy(up.port)
    down = await stage.cutter(proxy.port)
    client = await _session(stage, down.port)
    await _call_until_seen(client, 2)

    assert down.cut() > 0
    result = await client.wait_result("a")

    assert result["text"] == DONE
    assert _progress(client) == UNBROKEN
    assert up.sent_up(CALL) == 1
    assert down.sent_up(CALL) == 1


async def test_a_server_killed_mid_call_and_restarted(stage: Stage) -> None:
    old, upstream = await stage.server("typescript")
    proxy = await stage.proxy(upstream)
    client = await _session(stage, proxy.port)
    await _call_until_seen(client, 2)

    await old.kill()
    await stage.server("typescript", port=upstream)
    result = await client.wait_result("a")

    assert result["text"] == DONE
    assert result["meta"][MARK]["generation"] == 2
    # The second run is announced, and its progress told from where the first had got to.
    assert _progress(client) == UNBROKEN
    (notice,) = client.told("log", logger="epochgate")
    seen = client.lines.index(notice)
    assert seen < client.lines.index(client.told("progress", progress=STEPS)[0])
    assert len(client.told("result")) + len(client.told("error")) == 1


async def test_a_session_evicted_mid_call_is_healed(stage: Stage) -> None:
    _, upstream = await stage.server("typescript")
    cutter = await stage.cutter(upstream)
    proxy = await stage.proxy(cutter.port)
    client = await _session(stage, proxy.port)
    await _call_until_seen(client, 2)

    _end_session(cutter)
    result = await client.wait_result("a")

    assert result["text"] == DONE
    assert MARK in result["meta"]
    assert cutter.sent_up(CALL) == 2
    assert cutter.sent_up(b'"initialize"') == 2


async def test_a_session_that_is_gone_is_healed_by_the_next_call(stage: Stage) -> None:
    """The server answers 400, not 404, and says "No valid session ID": the classifier must know it."""
    _, upstream = await stage.server("typescript")
    cutter = await stage.cutter(upstream)
    proxy = await stage.proxy(cutter.port)
    client = await _session(stage, proxy.port)
    await client.order("list")
    await client.wait_told("listed")

    _end_session(cutter)
    await client.order("call", call="b", tool="echo", arguments={"message": "who am I?"})
    result = await client.wait_result("b")

    assert result["text"] == "Echo: who am I?"
    assert MARK in result["meta"]
    assert cutter.sent_up(b'"initialize"') == 2


async def test_without_the_proxy_the_session_is_lost(stage: Stage) -> None:
    """What the proxy is for; it also shows that the test above can fail."""
    _, upstream = await stage.server("typescript")
    cutter = await stage.cutter(upstream)
    client = await _session(stage, cutter.port)

    _end_session(cutter)
    await client.order("call", call="b", tool="echo", arguments={"message": "who am I?"})
    error = await client.wait_told("error", call="b")

    assert "No valid session ID" in error["message"]
