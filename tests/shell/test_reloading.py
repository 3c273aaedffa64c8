"""When settings are loaded again, and what is made of them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import structlog
from structlog.testing import CapturingLogger

from epochgate.loading import load
from epochgate.observe.metrics import Metrics
from epochgate.settings import Settings
from epochgate.shell.reloading import Reloading
from tests.shell.wire import until

DEADLINE_S = 10.0


class Watched:
    """A `Reloading` of a file, and the settings that it applied."""

    def __init__(self, file: Path, first_waits: threading.Event | None = None) -> None:
        """The first reading hands over what it read when `first_waits` is set."""
        flags = {"upstream": "http://127.0.0.1:1", "config": str(file)}
        capturing = CapturingLogger()
        self.lines = capturing.calls
        self.applied: list[Settings] = []
        log = structlog.wrap_logger(capturing, processors=[])
        self.has_read = threading.Event()

        def read() -> Settings:
            settings = load(flags, {})
            if first_waits is not None and not self.has_read.is_set():
                self.has_read.set()
                first_waits.wait(DEADLINE_S)
            return settings

        self.reloading = Reloading(
            read, load(flags, {}), self.applied.append, Metrics(), log, interval_s=0.001
        )

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.reloading.watch())
        try:
            async with asyncio.timeout(DEADLINE_S):
                yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def said(self) -> dict[str, object]:
        """The first line, once it is there."""
        await until(lambda: bool(self.lines))
        return dict(self.lines[0].kwargs)


async def test_a_link_that_is_swapped_is_noticed_without_a_signal(tmp_path: Path) -> None:
    """So Kubernetes changes the files of a ConfigMap."""
    for version, hold in (("v1", "1m"), ("v2", "2m")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "epochgate.yaml").write_text(f"hold: {hold}\n")
    (tmp_path / "data").symlink_to("v1")
    (tmp_path / "next").symlink_to("v2")
    watched = Watched(tmp_path / "data" / "epochgate.yaml")
    async with watched.watching():
        await asyncio.to_thread(os.replace, tmp_path / "next", tmp_path / "data")
        said = await watched.said()
    assert said == {"event": "settings reloaded", "changed": ["hold"], "needs_restart": []}
    assert [settings.hold for settings in watched.applied] == [120.0]


async def test_a_file_that_is_taken_away_is_told_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "epochgate.yaml"
    file.write_text("hold: 1m\n")
    watched = Watched(file)
    async with watched.watching():
        await asyncio.to_thread(file.unlink)
        said = await watched.said()
    assert said["event"] == "settings not reloaded"
    assert watched.applied == []


async def test_what_needs_a_restart_stays_as_it_was_however_often_it_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "epochgate.yaml"
    file.write_text("stamp: on\nhold: 1m\n")
    watched = Watched(file)
    await asyncio.to_thread(file.write_text, "stamp: ints_31\nhold: 2m\n")
    for changed in (["hold"], []):
        await watched.reloading.reload()
        assert watched.lines[-1].kwargs["changed"] == changed
        assert watched.lines[-1].kwargs["needs_restart"] == ["stamp"]
    assert {settings.stamp.value for settings in watched.applied} == {"on"}


async def test_a_passphrase_that_changes_in_its_file_needs_no_restart(tmp_path: Path) -> None:
    """It is read with the certificates."""
    file, secret = tmp_path / "epochgate.yaml", tmp_path / "passphrase"
    secret.write_text("first")
    file.write_text(f"hold: 1m\ntls_certificate: /c.pem\ntls_key_passphrase_file: {secret}\n")
    watched = Watched(file)
    await asyncio.to_thread(secret.write_text, "second")
    await watched.reloading.reload()
    assert watched.lines[-1].kwargs["needs_restart"] == []


async def test_what_was_read_first_is_never_applied_last(tmp_path: Path) -> None:
    """Signals come while a slow disk is read."""
    file = tmp_path / "epochgate.yaml"
    file.write_text("hold: 1m\n")
    watched = Watched(file, reads_on := threading.Event())
    first = asyncio.create_task(watched.reloading.reload())
    await asyncio.to_thread(watched.has_read.wait, DEADLINE_S)
    await asyncio.to_thread(file.write_text, "hold: 2m\n")
    second = asyncio.create_task(watched.reloading.reload())
    await asyncio.wait({second}, timeout=0.1)
    reads_on.set()
    await asyncio.gather(first, second)
    assert watched.applied[-1].hold == 120.0
