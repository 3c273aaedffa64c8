"""A rollout of the rendered sidecar, old and new pod overlapping, with real servers, clients and processes.

A pod is replaced as Kubernetes does it: the new one serves, the Service leads to it, and then the old one is
deleted: both `preStop` hooks at once, SIGTERM for the server, and for the sidecar when the server has exited.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helm.charts import SIDECAR, Engine, Object, container, pod_of
from tests.helm.pod import Pod, running
from tests.helm.test_running import on_free_ports
from tests.interop.stage import Stage
from tests.interop.steered import Steered
from tests.peers.install import Peers
from tests.support.balancer import Address, balanced
from tests.support.client import PRIMED, Client

QUICK = {"drain": "3s", "drain_delay": "500ms"}
STEPS, HELD_AT, SUM = 4, 2, 10
KINDS = [("python-1.30", "python-1.30"), ("typescript-sdk", "typescript")]


@dataclass
class Running:
    """A pod of the rendered Deployment: its server, its sidecar, and what the manifest says of both."""

    server: Steered
    sidecar: Pod
    objects: list[Object]
    port: int

    async def delete(self) -> float:
        """Delete it; how long that took, in seconds."""
        began = time.monotonic()
        hook, _ = await asyncio.gather(self.sidecar.stop_before(), self._end_server())
        assert hook == 0
        assert await self.sidecar.terminate() == 0
        return time.monotonic() - began

    async def _end_server(self) -> None:
        seconds = container(self.objects, "server")["lifecycle"]["preStop"]["sleep"]["seconds"]
        sleep = await asyncio.create_subprocess_exec("sleep", str(seconds))
        await sleep.wait()
        await self.server.stop()

    @property
    def grace_s(self) -> float:
        return float(pod_of(self.objects)["spec"]["terminationGracePeriodSeconds"])


@dataclass
class Cluster:
    """What runs, behind one Service."""

    service: Address
    stage: Stage
    helm: Engine
    folder: Path
    stack: AsyncExitStack
    pods: int = 0

    async def start(self, kind: str, *flags: str) -> Running:
        """A new pod, once it is ready."""
        self.pods += 1
        server, port = await self.stage.server(kind, *flags)
        given = on_free_ports(SIDECAR, server__port=port, settings=QUICK)
        objects = self.helm.render(given)
        sidecar = await self.stack.enter_async_context(running(objects, self.folder / str(self.pods)))
        await sidecar.wait_probed("startupProbe")
        await sidecar.wait_probed("readinessProbe")
        return Running(server, sidecar, objects, given["ports"]["traffic"])

    async def replace(self, old: Running, new: Running) -> float:
        """The Service leads to the new pod, and the old one is deleted."""
        self.service.behind = new.port
        return await old.delete()


@pytest.fixture
async def cluster(peers: Peers, helm: Engine, tmp_path: Path) -> AsyncIterator[Cluster]:
    stage = Stage(peers)
    async with AsyncExitStack() as stack, balanced(0) as service:
        yield Cluster(service, stage, helm, tmp_path, stack)
        await stage.clear()


async def calling(cluster: Cluster, kind: str, old: Running) -> Steered:
    """A client with a call that the old pod's server holds half way."""
    cluster.service.behind = old.port
    client = await cluster.stage.client(kind, cluster.service.port)
    await client.order("initialize")
    await client.wait_told("initialized", server="peer")
    # Otherwise the Python SDK asks for them after the answer, to check it, by then at the new pod.
    await client.order("list")
    await client.wait_told("listed")
    arguments = {"steps": STEPS, "hold_at": HELD_AT, "label": "a"}
    await client.order("call", call="a", tool="count", arguments=arguments)
    await client.wait_told("progress", call="a", progress=HELD_AT)
    return client


@pytest.mark.parametrize(("server_kind", "client_kind"), KINDS)
async def test_a_call_that_ends_within_the_drain_is_answered_right(
    cluster: Cluster, server_kind: str, client_kind: str
) -> None:
    old, new = await cluster.start(server_kind), await cluster.start(server_kind, "--released")
    client = await calling(cluster, client_kind, old)

    replacing = asyncio.create_task(cluster.replace(old, new))
    await old.sidecar.wait_said('"draining"')
    await old.server.order("release", label="a")
    result = await client.wait_result("a")
    took = await replacing

    assert (json.loads(result["text"])["sum"], result["meta"]) == (SUM, {})
    assert [line["progress"] for line in client.told("progress", call="a")] == [1, 2, 3, 4]
    assert len(old.server.told("execution", label="a")) == 1
    assert new.server.told("execution") == []
    assert took < old.grace_s


@pytest.mark.parametrize(("server_kind", "client_kind"), KINDS)
async def test_a_call_that_outlives_the_drain_is_told_and_runs_nowhere_else(
    cluster: Cluster, server_kind: str, client_kind: str
) -> None:
    old, new = await cluster.start(server_kind), await cluster.start(server_kind, "--released")
    client = await calling(cluster, client_kind, old)

    took = await cluster.replace(old, new)
    error = await client.wait_told("error", call="a")

    assert error["data"]["reason"] == "draining"
    assert new.server.told("execution") == []
    assert took < old.grace_s


async def test_a_session_of_the_old_pod_gets_404_from_the_new_one_and_begins_anew(cluster: Cluster) -> None:
    """Whether it asks for a result, for the rest of a stream or for a new one: never a splice or a hang."""
    old, new = [await cluster.start("python-1.30", "--released") for _ in range(2)]
    cluster.service.behind = old.port
    async with Client(cluster.service.port, version=PRIMED) as client:
        await client.open()
        count = {"steps": STEPS, "hold_at": 0, "label": "a"}
        call = {"name": "count", "arguments": count, "_meta": {"progressToken": "t"}}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}
        answer = await client.post(message)
        cursor = next(event.id for event in [await answer.next_event()] if event is not None)
        await answer.close()
        await cluster.replace(old, new)

        assert (await client.get(cursor)).status == 404
        assert (await client.get()).status == 404
        assert (await client.post(message)).status == 404
        client.session = None
        await client.open()
        (again,) = [one for one in await (await client.post(message)).messages() if "method" not in one]

    assert json.loads(again["result"]["content"][0]["text"])["sum"] == SUM
    assert "_meta" not in again["result"]
    assert len(new.server.told("execution", label="a")) == 1
