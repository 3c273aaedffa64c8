"""The life of a pod as KEP-753 orders it, with real servers and clients: the drain itself loses nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.interop.pods import DRAIN_S, MARGIN_S, Pod, Pods
from tests.interop.steered import DEADLINE_S, Steered
from tests.peers.install import Peers

OUTCOME_UNKNOWN, NOT_RESTORED = -32050, -32051
STEPS, HELD_AT, SUM = 4, 2, 10
PAIRS = [("python-1.30", "python-1.30"), ("typescript-sdk", "typescript")]
STANDING = 'kind="standalone",state="open"'
of_pairs = pytest.mark.parametrize(("server_kind", "client_kind"), PAIRS)


@pytest.fixture
async def pods(peers: Peers) -> AsyncIterator[Pods]:
    pods = Pods(peers)
    yield pods
    await pods.clear()


async def _session(pods: Pods, kind: str, port: int) -> Steered:
    client = await pods.client(kind, port)
    await client.order("initialize")
    await client.wait_told("initialized", server="peer")
    return client


async def _call_until_held(client: Steered, call: str) -> None:
    arguments = {"steps": STEPS, "hold_at": HELD_AT, "label": call}
    await client.order("call", call=call, tool="count", arguments=arguments)
    await client.wait_told("progress", call=call, progress=HELD_AT)


async def _until_standing(pod: Pod, count: int) -> None:
    """Wait until so many clients have their GET open, as SDKs do once they are initialized."""
    async with asyncio.timeout(DEADLINE_S):
        while (await asyncio.to_thread(pod.proxy.moved, "epochgate_streams")).get(STANDING) != count:
            pass


def _said_since_draining(pod: Pod) -> list[str]:
    events = [line["event"] for line in pod.proxy.process.lines]
    return events[events.index("draining") :]


def _assert_left_alone(server: Steered) -> None:
    """Nobody tried to make a session anew, or to end one: the server goes away by itself."""
    assert len(server.told("received", method="initialize")) == 1
    assert server.told("received", method="DELETE") == []


@of_pairs
async def test_a_call_that_ends_within_the_drain_is_answered(
    pods: Pods, server_kind: str, client_kind: str
) -> None:
    pod = await pods.pod(server_kind)
    client = await _session(pods, client_kind, pod.proxy.port)
    await _call_until_held(client, "a")

    deleting = asyncio.create_task(pod.delete())
    await pod.until_told("draining")
    await pod.server.order("release", label="a")
    result = await client.wait_result("a")
    ended = await deleting

    assert (json.loads(result["text"])["sum"], result["meta"]) == (SUM, {})
    assert [line["progress"] for line in client.told("progress", call="a")] == [1, 2, 3, 4]
    assert len(pod.server.told("execution", label="a")) == 1
    _assert_left_alone(pod.server)
    assert (ended.hook, ended.proxy) == (0, 0)
    assert ended.proxy_after_s < DRAIN_S + MARGIN_S


async def test_a_client_that_loses_its_connection_within_the_delay_comes_back_for_the_rest(
    pods: Pods,
) -> None:
    pod = await pods.pod("python-1.30", delay_s=2.5)
    cutter = await pods.cutter(pod.proxy.port)
    client = await _session(pods, "python-1.30", cutter.port)
    await _call_until_held(client, "a")

    deleting = asyncio.create_task(pod.delete())
    await pod.until_told("draining")
    assert cutter.cut(b'"tools/call"') == 1
    await cutter.wait_resumed()
    await pod.server.order("release", label="a")
    result = await client.wait_result("a")
    ended = await deleting

    assert (json.loads(result["text"])["sum"], result["meta"]) == (SUM, {})
    assert [line["progress"] for line in client.told("progress", call="a")] == [1, 2, 3, 4]
    assert len(pod.server.told("execution", label="a")) == 1
    assert (ended.hook, ended.proxy) == (0, 0)


async def test_a_call_that_does_not_end_is_told_so(pods: Pods) -> None:
    pod = await pods.pod("python-1.30")
    client = await _session(pods, "python-1.30", pod.proxy.port)
    await _call_until_held(client, "a")

    ended = await pod.delete()
    error = await client.wait_told("error", call="a")

    assert error["code"] in (OUTCOME_UNKNOWN, NOT_RESTORED)
    assert error["data"]["reason"] == "draining"
    assert len(pod.server.told("execution", label="a")) == 1
    _assert_left_alone(pod.server)
    assert (ended.hook, ended.proxy) == (0, 0)
    assert ended.proxy_after_s < DRAIN_S + MARGIN_S


async def test_a_client_that_comes_within_the_delay_is_served(pods: Pods) -> None:
    pod = await pods.pod("python-1.30", "--released")
    client = await pods.client("python-1.30", pod.proxy.port)

    deleting = asyncio.create_task(pod.delete())
    await pod.until_told("draining")
    await client.order("initialize")
    await client.wait_told("initialized", server="peer")
    await client.order("call", call="a", tool="count", arguments={"steps": STEPS, "hold_at": 0})
    result = await client.wait_result("a")
    ended = await deleting

    assert (json.loads(result["text"])["sum"], result["meta"]) == (SUM, {})
    assert (ended.hook, ended.proxy) == (0, 0)


@of_pairs
async def test_a_server_without_a_hook_exits_at_once_and_its_call_is_told(
    pods: Pods, server_kind: str, client_kind: str
) -> None:
    """Nothing brings it back, so that no heal begins once the drain has. One server lets its streams end when
    it gets its signal, the other may be dead before the hook of the proxy has said a word."""
    pod = await pods.pod(server_kind)
    client = await _session(pods, client_kind, pod.proxy.port)
    await _call_until_held(client, "a")

    ended = await pod.delete(server_sleeps=False)
    error = await client.wait_told("error", call="a")

    assert error["code"] in (OUTCOME_UNKNOWN, NOT_RESTORED)
    assert "heal begun" not in _said_since_draining(pod)
    assert len(pod.server.told("execution", label="a")) == 1
    _assert_left_alone(pod.server)
    assert (ended.hook, ended.proxy) == (0, 0)
    assert ended.proxy_after_s < DRAIN_S + MARGIN_S


async def test_without_a_hook_the_signal_finds_the_server_dead_and_calls_are_told(pods: Pods) -> None:
    """What the hook is for. The heal that began with the server's death ends with the drain."""
    pod = await pods.pod("python-1.30")
    client = await _session(pods, "python-1.30", pod.proxy.port)
    await _call_until_held(client, "a")

    ended = await pod.delete(has_hook=False, server_sleeps=False)
    error = await client.wait_told("error", call="a")

    assert error["code"] in (OUTCOME_UNKNOWN, NOT_RESTORED)
    assert ended.proxy == 0
    assert ended.proxy_after_s - ended.server_after_s < DRAIN_S + MARGIN_S


@of_pairs
async def test_idle_sessions_keep_neither_the_proxy_nor_the_server(
    pods: Pods, server_kind: str, client_kind: str
) -> None:
    """Clients hold a GET open each. A server that waits for its connections can exit all the same."""
    flags = ["--graceful"] if server_kind == "typescript-sdk" else []
    pod = await pods.pod(server_kind, *flags)
    clients = [await _session(pods, client_kind, pod.proxy.port) for _ in range(3)]
    await _until_standing(pod, 3)

    ended = await pod.delete()

    assert (ended.hook, ended.proxy) == (0, 0)
    assert ended.server_after_s < DRAIN_S + MARGIN_S
    assert ended.proxy_after_s < DRAIN_S + MARGIN_S
    assert [client.has_ended for client in clients] == [False] * 3
