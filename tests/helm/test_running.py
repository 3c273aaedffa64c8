"""What is rendered is what the real process takes: variables, settings, secrets, probes and hooks."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.helm.charts import CHART, GATEWAY, SIDECAR, Engine, Values, one, values
from tests.helm.pod import DEADLINE_S, fill, running
from tests.helm.test_new_pods import RELOADABLE
from tests.interop.stage import free_port
from tests.support.certificates import Authority
from tests.support.client import Client
from tests.support.server import McpServer, serving

QUICK = {"drain": "3s", "drain_delay": "100ms"}
ASK = (CHART / "files" / "ask.py").read_text()
ONCE = "ATTEMPTS, PAUSE_S, TIMEOUT_S = 1, 0, 5"


def on_free_ports(name: str, **changed: Any) -> Values:
    ports = {"traffic": free_port(), "health": free_port(), "admin": free_port()}
    return values(name, ports=ports, **changed)


def text_of(path: str) -> str:
    return Path(path).read_text()


async def read(url: str, token: str = "") -> str:
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})

    def ask() -> str:
        with urllib.request.urlopen(asked, timeout=DEADLINE_S) as answer:
            return str(answer.read(), "utf-8")

    return await asyncio.to_thread(ask)


async def test_a_rendered_sidecar_serves_drains_and_ends(helm: Engine, tmp_path: Path) -> None:
    async with serving(McpServer()) as server:
        given = on_free_ports(SIDECAR, server__port=server.port, settings=QUICK)
        async with running(helm.render(given), tmp_path) as pod:
            await pod.wait_probed("startupProbe")
            await pod.wait_probed("readinessProbe")
            assert await pod.probe("livenessProbe") == 200
            page = await read(f"http://127.0.0.1:{given['ports']['health']}/metrics")
            assert "epochgate_build_info{" in page
            async with Client(given["ports"]["traffic"]) as client:
                await client.open()
                assert "result" in (await (await client.call()).messages())[-1]
            assert [json.loads(await pod.wait_said('"listening"'))["upstream"]] == [
                f"http://127.0.0.1:{server.port}"
            ]

            assert await pod.stop_before() == 0
            assert await pod.probe("readinessProbe") == 503
            assert await pod.terminate() == 0


async def test_a_rendered_sidecar_starts_before_its_server(helm: Engine, tmp_path: Path) -> None:
    """Its startup gates the server's, and the server's restart must not take it out of the Service."""
    given = on_free_ports(SIDECAR, server__port=free_port())
    async with running(helm.render(given), tmp_path) as pod:
        await pod.wait_probed("startupProbe")

        assert await pod.probe("livenessProbe") == 200


async def test_settings_that_make_no_new_pod_are_taken_by_the_running_process(
    helm: Engine, tmp_path: Path
) -> None:
    given = on_free_ports(GATEWAY)
    changed = {**given, "settings": {**given["settings"], **RELOADABLE}}
    async with running(helm.render(given), tmp_path) as pod:
        await pod.wait_probed("startupProbe")

        fill(tmp_path / "etc" / "epochgate", one(helm.render(changed), "ConfigMap")["data"])
        pod.process.send_signal(signal.SIGHUP)
        told = json.loads(await pod.wait_said("reloaded"))

        assert (told["event"], told["needs_restart"]) == ("settings reloaded", [])
        assert told["changed"] == sorted(RELOADABLE)


async def test_a_rendered_sidecar_speaks_tls_on_both_sides_and_guards_its_admin_port(
    helm: Engine, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    own, servers = authority.issue(), authority.issue(stem="servers")
    secrets = {
        "own": {"tls.crt": text_of(own.certificate), "tls.key": text_of(own.key)},
        "house": {"ca.crt": text_of(own.authority)},
        "token": {"token": "s3cret"},
    }
    async with serving(McpServer()) as server:
        server.tls = authority.server_context(servers)
        await server.restart()
        given = on_free_ports(
            SIDECAR,
            server__port=server.port,
            settings={"upstream": f"https://127.0.0.1:{server.port}", **QUICK},
            tls={"existingSecret": "own"},
            upstreamTLS={"ca": {"existingSecret": "house"}, "serverName": "127.0.0.1"},
            admin={"exposed": True, "token": {"existingSecret": "token"}},
        )
        async with running(helm.render(given), tmp_path / "pod", secrets) as pod:
            await pod.wait_probed("readinessProbe")
            async with Client(given["ports"]["traffic"]) as client:
                client.tls = authority.client_context()
                await client.open()
            sessions = await read(f"http://127.0.0.1:{given['ports']['admin']}/sessions", "s3cret")
            assert len(json.loads(sessions)["sessions"]) == 1
            url = f"https://127.0.0.1:{given['ports']['traffic']}/"
            assert await asked(url) == (0, f"{url} answered 404\n")
            assert await pod.stop_before() == 0


async def asked(url: str) -> tuple[int, str]:
    """What `helm test` does, at once: exit code and what it says."""
    script = ASK.replace("ATTEMPTS, PAUSE_S, TIMEOUT_S = 20, 3, 5", ONCE)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, url, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(DEADLINE_S):
        said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def test_the_chart_s_own_test_fails_where_nothing_answers(helm: Engine) -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    (test,) = [each for each in helm.render(values(SIDECAR)) if each["kind"] == "Pod"]
    (asking,) = test["spec"]["containers"]

    assert asking["command"] == ["python3", "-c"]
    assert asking["args"] == [ASK, "http://ledger-epochgate:80/"]
    code, said = await asked(url)
    assert (code, said.startswith(f"{url} ConnectionRefusedError")) == (1, True)
