"""The official Python SDK on both sides of the proxy, the last 1.x release and a 2.x one.

These servers declare no logging, so no restart can be announced on the stream: of a second run the client
gets the marked answer and nothing else (R5).
"""

from __future__ import annotations

import json

import pytest

from tests.interop.stage import PYTHON_KINDS, Proxy, Stage
from tests.interop.steered import Line, Steered

pytestmark = pytest.mark.parametrize("kind", PYTHON_KINDS)

MARK = "dev.epochgate/restart"
STEPS = 8
HELD_AT = 4
SUM = 36
UNBROKEN = [float(step) for step in range(1, STEPS + 1)]


async def _session(stage: Stage, kind: str, port: int) -> Steered:
    """A client that has initialized its session."""
    client = await stage.client(kind, port)
    await client.order("initialize")
    await client.wait_told("initialized", server="peer", revision="2025-11-25")
    return client


async def _call_until_held(client: Steered) -> str:
    """Start a counting call and wait until the client has seen its step 4; the id of its run."""
    arguments = {"steps": STEPS, "hold_at": HELD_AT}
    await client.order("call", call="a", tool="count", arguments=arguments)
    return str((await client.wait_told("progress", call="a", progress=float(HELD_AT)))["message"])


def _progress(client: Steered, run: str) -> list[float]:
    return [line["progress"] for line in client.told("progress", call="a", message=run)]


def _runs(*servers: Steered) -> list[str]:
    """The executions that took place, whether or not anybody learned of their result."""
    return [line["run"] for server in servers for line in server.told("execution")]


def _answer(line: Line) -> dict[str, object]:
    answer: dict[str, object] = json.loads(line["text"])
    return answer


def _resumes(proxy: Proxy) -> dict[str, float]:
    return proxy.moved("epochgate_resumes_total")


async def test_an_undisturbed_session_works(stage: Stage, kind: str) -> None:
    server, upstream = await stage.server(kind, "--released")
    proxy = await stage.proxy(upstream)
    client = await _session(stage, kind, proxy.port)

    await client.order("list")
    assert (await client.wait_told("listed"))["tools"] == ["count", "echo"]
    run = await _call_until_held(client)
    result = await client.wait_result("a")

    assert _answer(result) == {"run": run, "sum": SUM}
    assert result["meta"] == {}
    assert _progress(client, run) == UNBROKEN
    assert _runs(server) == [run]
    await client.order("close")
    await client.wait_told("closed")
    assert await proxy.process.stop() == 0


async def test_a_call_cut_on_the_client_leg_is_resumed_by_the_sdk(stage: Stage, kind: str) -> None:
    """The server keeps no events and gives no ids: what makes it resumable is the proxy."""
    server, upstream = await stage.server(kind)
    proxy = await stage.proxy(upstream)
    cutter = await stage.cutter(proxy.port)
    client = await _session(stage, kind, cutter.port)
    run = await _call_until_held(client)

    assert cutter.cut() > 0
    await server.order("release")
    result = await client.wait_result("a")

    assert _answer(result) == {"run": run, "sum": SUM}
    assert _progress(client, run) == UNBROKEN
    assert _runs(server) == [run]
    assert cutter.sent_up(b'"tools/call"') == 1


async def test_an_upstream_leg_that_broke_is_resumed_within_its_epoch(stage: Stage, kind: str) -> None:
    server, upstream = await stage.server(kind, "--events", "--epoch")
    cutter = await stage.cutter(upstream)
    proxy = await stage.proxy(cutter.port)
    client = await _session(stage, kind, proxy.port)
    run = await _call_until_held(client)

    assert cutter.cut() > 0
    await cutter.wait_resumed()  # what the SDK tells between its replay and its return to live is lost
    await server.order("release")
    result = await client.wait_result("a")

    assert _answer(result) == {"run": run, "sum": SUM}
    assert MARK not in result["meta"]
    assert _progress(client, run) == UNBROKEN
    assert _runs(server) == [run]
    assert len(server.told("received", method="initialize")) == 1
    labels = 'leg="upstream",reason="epoch_match",stream="request",verdict="resume"'
    assert _resumes(proxy)[labels] == 1


async def test_an_upstream_leg_that_broke_without_an_epoch_is_restarted(stage: Stage, kind: str) -> None:
    server, upstream = await stage.server(kind, "--events")
    cutter = await stage.cutter(upstream)
    proxy = await stage.proxy(cutter.port)
    client = await _session(stage, kind, proxy.port)
    first = await _call_until_held(client)

    assert cutter.cut() > 0
    await server.order("release")
    result = await client.wait_result("a")

    second = _answer(result)["run"]
    assert second != first
    assert _answer(result) == {"run": second, "sum": SUM}
    assert result["meta"][MARK]["reason"] == "no_epoch_captured"
    assert result["meta"][MARK]["reissued"] is True
    assert _progress(client, str(second)) == []
    assert _runs(server) == [first, second]
    assert len(server.told("received", method="initialize")) == 2
    assert len(server.told("received", method="notifications/initialized")) == 2


@pytest.mark.parametrize("flags", [(), ("--events", "--epoch")], ids=["plain", "events-and-epochs"])
async def test_a_server_killed_mid_call_and_restarted(
    stage: Stage, kind: str, flags: tuple[str, ...]
) -> None:
    old, upstream = await stage.server(kind, *flags)
    proxy = await stage.proxy(upstream)
    client = await _session(stage, kind, proxy.port)
    first = await _call_until_held(client)

    await old.kill()
    new, _ = await stage.server(kind, *flags, "--released", port=upstream)
    result = await client.wait_result("a")

    (second,) = _runs(new)
    assert _runs(old) == [first]
    assert _answer(result) == {"run": second, "sum": SUM}
    assert result["meta"][MARK]["generation"] == 2
    assert _progress(client, first) == UNBROKEN[:HELD_AT]
    assert _progress(client, second) == []
    assert len(new.told("received", method="initialize")) == 1
    assert len(new.told("received", method="notifications/initialized")) == 1
    assert len(client.told("result")) + len(client.told("error")) == 1


async def test_a_call_that_may_not_run_twice_ends_in_an_error_that_says_so(stage: Stage, kind: str) -> None:
    old, upstream = await stage.server(kind)
    proxy = await stage.proxy(upstream, "--reissue", "never")
    client = await _session(stage, kind, proxy.port)
    first = await _call_until_held(client)

    await old.kill()
    new, _ = await stage.server(kind, "--released", port=upstream)
    error = await client.wait_told("error", call="a")

    assert error["code"] == -32050
    assert _runs(old, new) == [first]
    await client.order("call", call="b", tool="echo", arguments={"text": "still here"})
    assert (await client.wait_result("b"))["text"] == "still here"


async def test_a_session_evicted_mid_call_is_healed(stage: Stage, kind: str) -> None:
    """The SDK ends the streams of an evicted session cleanly and answers 404 from then on."""
    server, upstream = await stage.server(kind)
    proxy = await stage.proxy(upstream)
    client = await _session(stage, kind, proxy.port)
    first = await _call_until_held(client)

    await server.order("evict")
    await server.wait_told("evicted", sessions=1)
    await server.order("release")
    result = await client.wait_result("a")

    (_, second) = _runs(server)
    assert second != first
    assert _answer(result) == {"run": second, "sum": SUM}
    assert MARK in result["meta"]
    assert len(server.told("received", method="initialize")) == 2


async def test_a_404_beside_a_call_that_never_broke_leaves_that_call_alone(stage: Stage, kind: str) -> None:
    server, upstream = await stage.server(kind)
    proxy = await stage.proxy(upstream)
    client = await _session(stage, kind, proxy.port)
    run = await _call_until_held(client)

    await server.order("forget")
    await server.wait_told("evicted", sessions=1)
    await client.order("call", call="b", tool="echo", arguments={"text": "who am I?"})
    echo = await client.wait_result("b")
    await server.order("release")
    result = await client.wait_result("a")

    assert echo["text"] == "who am I?"
    assert MARK in echo["meta"]
    assert _answer(result) == {"run": run, "sum": SUM}
    assert _progress(client, run) == UNBROKEN
    assert _runs(server) == [run]
    assert len(server.told("received", method="initialize")) == 2
