"""The proxy on the test's own loop, with real listeners, its log in a list and its metrics scraped."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from epochgate.loading import load
from epochgate.observe.logs import LibraryLines, LinePipe, make_logger
from epochgate.observe.metrics import Metrics
from epochgate.observe.observer import Observer
from epochgate.shell.process import Process
from tests.support.client import DEADLINE_S, Client

FREE = "127.0.0.1:0"


class _Lines(LinePipe):
    """Keeps lines instead of writing them."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def put(self, line: str) -> None:
        self.lines.append(line)


@dataclass
class Proxy:
    """A running proxy."""

    port: int
    admin: int
    process: Process
    lines: list[str] = field(repr=False)

    def log(self, event: str) -> list[dict[str, Any]]:
        """The log lines of one event."""
        return [line for line in map(json.loads, self.lines) if line["event"] == event]

    async def page(self) -> dict[str, float]:
        """Every series of `/metrics`."""
        async with Client(self.admin) as scraper:
            answer = await scraper.send("GET", "/metrics", [])
            text = (await answer.read()).decode()
        pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name.removeprefix("epochgate_"): float(value) for name, _, value in pairs}

    async def moved(self, family: str) -> dict[str, float]:
        """The series of a family that are not 0, by what stands between their braces."""
        page = await self.page()
        return {
            name.removeprefix(family).strip("{}").replace('"', ""): value
            for name, value in page.items()
            if name.partition("{")[0] == family and value
        }

    async def resumes(self) -> dict[str, float]:
        """`epochgate_resumes_total` as `leg verdict reason` of request streams, where not 0."""
        found = {}
        for labels, value in (await self.moved("resumes_total")).items():
            by_name = dict(pair.split("=") for pair in labels.split(","))
            if by_name["stream"] == "request":
                found[f"{by_name['leg']} {by_name['verdict']} {by_name['reason']}"] = value
        return found


@asynccontextmanager
async def guarding(upstream: int | str, **settings: str) -> AsyncIterator[Proxy]:
    """A proxy in front of `upstream`, a port or a URL; settings as flags have them, `_` for `-`.

    Fails if anything was logged as an error or fell out of a callback.
    """
    url = upstream if isinstance(upstream, str) else f"http://127.0.0.1:{upstream}"
    given = {"upstream": url, "listen": FREE, "admin": FREE, "log_level": "debug"}
    configured = load({**given, **settings}, {})
    pipe = _Lines()
    log = make_logger(pipe, is_json=True, level="debug")
    library = LibraryLines(log)
    process = Process(
        configured, lambda: load({**given, **settings}, {}), Observer(Metrics(), log, configured.access_log)
    )
    logging.getLogger().addHandler(library)
    try:
        async with asyncio.timeout(DEADLINE_S):
            await process.start()
        (said,) = [line for line in map(json.loads, pipe.lines) if line["event"] == "listening"]
        yield Proxy(_port(said["listen"]), _port(said["admin"]), process, pipe.lines)
    finally:
        async with asyncio.timeout(DEADLINE_S):
            await process.close()
        logging.getLogger().removeHandler(library)
    errors = [line for line in map(json.loads, pipe.lines) if line["level"] in ("error", "critical")]
    assert errors == []


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
