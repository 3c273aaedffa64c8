"""A real Prometheus with the shipped rules, and somebody who is told of its alerts."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml  # type: ignore[import-untyped]  # it ships no types
from aiohttp import web

from tests.deploy.prometheus.reading import RULES, Json
from tests.interop.stage import free_port
from tests.peers.install import Peers
from tests.support.client import DEADLINE_S

EVERY = "500ms"
Fired = tuple[str, str]  # the alert, and the pod it names


@dataclass
class Prometheus:
    port: int
    fired: set[Fired] = field(default_factory=set)
    told: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def query(self, expression: str) -> list[Json]:
        """The samples of an expression now."""
        where = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        answer = json.loads(await asyncio.to_thread(_read, where))
        assert answer["status"] == "success", answer
        found: list[Json] = answer["data"]["result"]
        return found

    async def until_seen(self, expression: str) -> None:
        """Return when the expression has a sample."""
        async with asyncio.timeout(DEADLINE_S):
            while not await self.query(expression):
                pass

    async def until_fired(self, wanted: set[Fired]) -> None:
        """Return when all of these were told; fails with those that were not."""
        try:
            async with asyncio.timeout(DEADLINE_S), self.told:
                await self.told.wait_for(lambda: wanted <= self.fired)
        except TimeoutError:
            raise AssertionError(f"not told of {sorted(wanted - self.fired)}") from None

    async def take(self, request: web.Request) -> web.Response:
        """What an Alertmanager is sent."""
        async with self.told:
            for alert in await request.json():
                labels = alert["labels"]
                self.fired.add((labels["alertname"], labels.get("pod", "")))
            self.told.notify_all()
        return web.Response()


def _read(where: str) -> bytes:
    with urllib.request.urlopen(where, timeout=DEADLINE_S) as answer:
        found: bytes = answer.read()
        return found


@asynccontextmanager
async def watching(peers: Peers, folder: Path, pods: Mapping[str, int]) -> AsyncIterator[Prometheus]:
    """A Prometheus that scrapes these ports as pods, and goes by the rules with shorter `for:`."""
    prometheus = Prometheus(free_port())
    async with _receiving(prometheus) as receiver:
        configuration = folder / "prometheus.yaml"
        configuration.write_text(yaml.safe_dump(_configured(folder, pods, receiver)))
        (folder / "rules.yaml").write_text(re.sub(r"for: \d+m\n", "for: 1s\n", RULES.read_text()))
        command = [
            str(peers.prometheus),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{prometheus.port}",
            "--log.level=warn",
        ]
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(*command, stderr=log)
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not await asyncio.to_thread(_is_ready, prometheus.port):
                    assert process.returncode is None, (folder / "log").read_text()
            yield prometheus
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _is_ready(port: int) -> bool:
    try:
        return b"Ready" in _read(f"http://127.0.0.1:{port}/-/ready")
    except OSError:
        return False


def _configured(folder: Path, pods: Mapping[str, int], receiver: int) -> Json:
    targets = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": "shop", "pod": pod}}
        for pod, port in pods.items()
    ]
    return {
        "global": {"scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [{"job_name": "shop/agents", "static_configs": targets}],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{receiver}"]}]}]},
    }


@asynccontextmanager
async def _receiving(prometheus: Prometheus) -> AsyncIterator[int]:
    """Where alerts are sent to."""
    application = web.Application()
    application.router.add_post("/api/v2/alerts", prometheus.take)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port: int = runner.addresses[0][1]
        yield port
    finally:
        await runner.cleanup()
