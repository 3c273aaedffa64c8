"""The page for people: what it may do in a browser, what it shows, and who may make the process drain."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.client import Client, outcome
from tests.support.proxy import Proxy, guarding
from tests.support.server import Epochs, Leg, McpServer, serving


async def _ask(proxy: Proxy, method: str, path: str, *headers: tuple[str, str]) -> tuple[int, bytes]:
    async with Client(proxy.admin) as client:
        answer = await client.send(method, path, headers)
        return answer.status, await answer.read()


async def test_a_browser_lets_the_page_run_its_own_script_and_nothing_else() -> None:
    async with serving(McpServer()) as server, guarding(server.port) as proxy, Client(proxy.admin) as client:
        answer = await client.send("GET", "/", [])
        text = (await answer.read()).decode()
    digests = {
        element: b64encode(
            sha256(text.partition(f"<{element}>")[2].partition(f"</{element}>")[0].encode()).digest()
        ).decode()
        for element in ("style", "script")
    }
    assert (answer.status, answer.header("content-type")) == (200, "text/html; charset=utf-8")
    assert (answer.header("content-security-policy") or "").split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digests['style']}'",
        f"script-src 'sha256-{digests['script']}'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    assert answer.header("x-frame-options") == "DENY"
    assert answer.header("cache-control") == "no-store"
    assert re.findall(r"https?:|//|src=|href=|\son\w+=|innerHTML|style=", text.replace("// ", "")) == []


async def test_the_summary_says_what_happened() -> None:
    async def cut_once(leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        if leg.run.number == 1:
            await leg.cut()
            return
        await leg.answer()
        await leg.end()

    server = McpServer(cut_once, epochs=Epochs.NEVER)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        assert str(outcome(await (await client.call()).messages())).startswith("run 2 done")
        async with Client(proxy.admin) as asking:
            while not (said := await (await asking.send("GET", "/overview", [])).json())["is_ready"]:
                pass
    values = {one["metric"].removeprefix("epochgate_"): one["values"] for one in said["counters"]}
    assert values["resumes_total"]["restart"] == 1
    assert values["heals_total"] == {"healed": 1, "incompatible": 0, "lost": 0, "parked": 0}
    assert values["reissues_total"] == {"exhausted": 0, "sent": 1, "withheld": 0}
    assert (values["epoch_drift_total"], values["affinity_faults_total"]) == ({"": 0}, {"": 0})
    assert said["sessions"] == {"live": 1}
    server_shown = {"name": f"127.0.0.1:{server.port}", "is_reached": True, "has_left": False, "sessions": 1}
    assert said["servers"] == [server_shown]
    assert (said["ready"], said["is_draining"], said["drain_seconds"]) == ("ready", False, 25)


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:3000", "null"])
async def test_a_page_of_elsewhere_cannot_make_it_drain(origin: str) -> None:
    """Not one of another program on this machine either, though its Origin is a loopback one."""
    async with serving(McpServer()) as server, guarding(server.port) as proxy:
        assert (await _ask(proxy, "POST", "/drain", ("Origin", origin)))[0] == 403
        async with Client(proxy.admin) as client:
            assert not (await (await client.send("GET", "/overview", [])).json())["is_draining"]


async def test_its_own_page_can_make_it_drain() -> None:
    async with serving(McpServer()) as server, guarding(server.port) as proxy, Client(proxy.admin) as client:
        own = ("Origin", f"http://127.0.0.1:{proxy.admin}")
        draining = asyncio.create_task(_ask(proxy, "POST", "/drain", own))
        while not (await (await client.send("GET", "/overview", [])).json())["is_draining"]:
            assert not draining.done()
        draining.cancel()
        with suppress(asyncio.CancelledError):
            await draining


async def test_where_a_token_is_set_the_page_is_shown_without_but_says_nothing(tmp_path: Path) -> None:
    """Browsers send no token of themselves, so that no page of elsewhere has one to send."""
    file = tmp_path / "token"
    file.write_text("s3cret")
    shown = ("Authorization", "Bearer s3cret")
    async with serving(McpServer()) as server, guarding(server.port, admin_token_file=str(file)) as proxy:
        status, text = await _ask(proxy, "GET", "/")
        assert (status, str(server.port).encode() in text) == (200, False)
        for path in ("/overview", "/sessions"):
            assert (await _ask(proxy, "GET", path))[0] == 401
            assert (await _ask(proxy, "GET", path, shown))[0] == 200
        assert (await _ask(proxy, "POST", "/drain"))[0] == 401


async def test_it_is_not_on_the_health_listener() -> None:
    async with (
        serving(McpServer()) as server,
        guarding(server.port, health="127.0.0.1:0") as proxy,
        Client(int(str(proxy.log("listening")[0]["health"]).rpartition(":")[2])) as client,
    ):
        assert [(await client.send("GET", path, [])).status for path in ("/", "/overview")] == [404, 404]
