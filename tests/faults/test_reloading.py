"""Settings that change while calls run: what takes them, what needs a restart, and a file that is wrong."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.guarantees.test_g8_bounded import series
from tests.shell.running import Proxy, running_proxy, told
from tests.support.client import Client, outcome
from tests.support.server import Epochs, Leg, McpServer, serving

SUCCESSFUL = "epochgate_config_last_reload_successful"


async def test_at_sighup_the_sessions_that_there_are_take_what_changed(tmp_path: Path) -> None:
    file = tmp_path / "epochgate.yaml"
    file.write_text("reissue: always\n")
    server = McpServer(_cut, epochs=Epochs.NEVER)
    async with serving(server), running_proxy(server.port, "--config", str(file)) as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            assert outcome(await (await client.call()).messages()) == "run 2 done"

            said = await _reload(proxy, file, "never_reissue: work\nmax_body: 1MiB\n")
            assert (said["changed"], said["needs_restart"]) == (["never_reissue", "reissue"], ["max_body"])
            assert outcome(await (await client.call()).messages()) == -32050
        assert server.executions == 3
        assert await series(proxy.admin, SUCCESSFUL) == 1
        assert await proxy.stop() == 0


async def test_a_file_that_is_wrong_changes_nothing_and_is_told(tmp_path: Path) -> None:
    file = tmp_path / "epochgate.yaml"
    file.write_text("never_reissue: work\n")
    server = McpServer(_cut, epochs=Epochs.NEVER)
    async with serving(server), running_proxy(server.port, "--config", str(file)) as proxy:
        said = await _reload(proxy, file, "never_reisue: other\n", "settings not reloaded")
        assert said["reason"] == f"{file}: never_reisue: no such setting; did you mean never_reissue?"
        assert await series(proxy.admin, SUCCESSFUL) == 0
        async with Client(proxy.port) as client:
            await client.open()
            assert outcome(await (await client.call()).messages()) == -32050

        await _reload(proxy, file, "hold: 1m\n")
        assert await series(proxy.admin, SUCCESSFUL) == 1
        assert await proxy.stop() == 0


async def _cut(leg: Leg) -> None:
    """Every other run is cut."""
    await leg.open()
    await leg.progress(1)
    if leg.run.number % 2:
        await leg.cut()
        return
    await leg.answer()
    await leg.end()


async def _reload(proxy: Proxy, file: Path, text: str, event: str = "settings reloaded") -> dict[str, object]:
    await asyncio.to_thread(file.write_text, text)
    proxy.process.send_signal(signal.SIGHUP)
    return await told(proxy.log, event)
