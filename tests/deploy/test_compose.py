"""deploy/compose.yaml and the files it mounts: legal, pinned, without rights, and they fit together."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from epochgate import __version__
from epochgate.loading import load
from tests.deploy.life import DEADLINE_S, VARIABLES, contained, until_probe
from tests.deploy.packaging import ROOT
from tests.deploy.sandbox import Installed, unprivileged
from tests.peers.install import Peers

FOLDER = ROOT / "deploy"
COMPOSE = FOLDER / "compose.yaml"
RULES = ROOT / "helm" / "epochgate" / "files" / "rules.yaml"
DASHBOARD = RULES.with_name("dashboard.json")
# Where each image that is not ours listens.
PORTS = {"prometheus": 9090, "grafana": 3000}

Json = dict[str, Any]


def read(path: Path) -> Json:
    found = yaml.safe_load(path.read_text())
    assert isinstance(found, dict)
    return found


SERVICES: Json = read(COMPOSE)["services"]
each_service = pytest.mark.parametrize("name", SERVICES)


def mounts(name: str) -> dict[str, Path]:
    """The files and folders of this tree that a service gets, by where it finds them."""
    binds = [one for one in SERVICES[name].get("volumes", []) if one["type"] == "bind"]
    assert all(one["read_only"] for one in binds)
    return {one["target"]: (FOLDER / one["source"]).resolve() for one in binds}


def test_it_keeps_to_the_schema_of_compose(peers: Peers) -> None:
    checker = [str(peers.kubernetes), "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    judged = subprocess.run([*checker, COMPOSE], capture_output=True, text=True, check=False)

    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_it_has_a_proxy_a_server_and_who_watches_them() -> None:
    assert list(SERVICES) == ["epochgate", "server", "prometheus", "grafana"]


@each_service
def test_a_service_has_no_rights_and_writes_only_where_it_must(name: str) -> None:
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.keys() & {"privileged", "cap_add", "devices", "pid", "network_mode", "user"}
    assert {one["target"] for one in service.get("volumes", []) if one["type"] != "bind"} <= {"/prometheus"}


@each_service
def test_a_service_is_pinned_watched_and_reachable_from_this_machine_alone(name: str) -> None:
    service = SERVICES[name]

    assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])
    assert service["healthcheck"]["test"][0] == "CMD"
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert all(wanted["condition"] == "service_healthy" for wanted in service.get("depends_on", {}).values())


def test_our_image_is_built_here_once_and_has_the_version_of_the_package() -> None:
    """Two builds of one name run at the same time, and one may find that the image "already exists"."""
    ours = [name for name in SERVICES if SERVICES[name]["image"] == f"epochgate:{__version__}"]
    built = [name for name in SERVICES if "build" in SERVICES[name]]
    build = SERVICES["epochgate"]["build"]
    context = (FOLDER / build["context"]).resolve()

    assert (ours, built) == (["epochgate", "server"], ["epochgate"])
    assert SERVICES["server"]["pull_policy"] == "never"
    assert (context, context / build["dockerfile"]) == (ROOT, FOLDER / "Dockerfile")


def test_all_that_is_mounted_is_in_the_tree() -> None:
    """But for the chart's files in a tree without the chart."""
    mounted = {path for name in SERVICES for path in mounts(name).values()}
    missing = {path for path in mounted if not path.exists()}

    assert missing == (set() if (ROOT / "helm").is_dir() else {RULES, DASHBOARD})


def test_the_proxy_is_set_up_for_the_server_beside_it() -> None:
    """With the settings it will read, it finds the server, and is found by clients, probe and Prometheus."""
    (folder,) = mounts("epochgate").items()
    variables = dict(SERVICES["epochgate"]["environment"])
    variables["EPOCHGATE_CONFIG"] = variables["EPOCHGATE_CONFIG"].replace(folder[0], str(folder[1]))
    settings = load({}, variables)
    command = SERVICES["server"]["command"]
    (published,) = SERVICES["epochgate"]["ports"]
    (job,) = read(FOLDER / "prometheus.yml")["scrape_configs"]
    health = settings.health[0]

    assert urlsplit(effective_upstream(settings.effective())).netloc == f"server:{command[-1]}"
    assert command[-2] == "--port"
    assert str(settings.listen[0]) == f"0.0.0.0:{published.rpartition(':')[2]}"
    assert not health.is_loopback
    port = str(health).rpartition(":")[2]
    assert job["static_configs"][0]["targets"] == [f"epochgate:{port}"]
    assert f"http://127.0.0.1:{port}/readyz" in SERVICES["epochgate"]["healthcheck"]["test"][-1]
    assert settings.drain < float(SERVICES["epochgate"]["stop_grace_period"].removesuffix("s"))


def effective_upstream(settings: Json) -> str:
    (url,) = [settings["upstream"]] if isinstance(settings["upstream"], str) else settings["upstream"]
    return str(url)


async def test_our_probes_tell_whether_their_service_is_there(epochgate: Installed) -> None:
    """Both services of our image as processes, with other ports."""
    async with example_server(epochgate) as port:
        variables = {**VARIABLES, "EPOCHGATE_UPSTREAM": f"http://127.0.0.1:{port}"}
        command = epochgate.command([str(epochgate.program), "run"])
        async with contained(command, variables, unprivileged()) as proxy:
            await until_probe(proxy.health, "/readyz", 200)
            assert probed(epochgate, "epochgate", proxy.health) == ""
        assert probed(epochgate, "server", port) == ""
    assert "Connection refused" in probed(epochgate, "epochgate", proxy.health)
    assert "Connection refused" in probed(epochgate, "server", port)


@asynccontextmanager
async def example_server(epochgate: Installed) -> AsyncIterator[int]:
    """The service `server` on a free port, until its input ends."""
    _, *program = SERVICES["server"]["entrypoint"]
    host, _, port, _ = SERVICES["server"]["command"]
    command = epochgate.command([str(epochgate.python), *program, host, "127.0.0.1", port, "0"])
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env={})
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield json.loads(await process.stdout.readline())["port"]
            process.stdin.close()
            assert await process.wait() == 0
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def probed(epochgate: Installed, name: str, port: int) -> str:
    """What the health check of a service complains of when the service is at `port`."""
    _, _, *words = SERVICES[name]["healthcheck"]["test"]
    given = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", words[-1])
    tried = epochgate.run(str(epochgate.python), *words[:-1], given)
    assert (tried.returncode == 0) == (tried.stderr == "")
    return tried.stderr


@pytest.mark.parametrize("name", PORTS)
def test_who_watches_is_probed_and_published_where_it_listens(name: str) -> None:
    (published,) = SERVICES[name]["ports"]

    assert published == f"127.0.0.1:{PORTS[name]}:{PORTS[name]}"
    assert urlsplit(SERVICES[name]["healthcheck"]["test"][-1]).netloc == f"127.0.0.1:{PORTS[name]}"


def test_prometheus_takes_its_configuration_and_the_rules(peers: Peers, tmp_path: Path) -> None:
    found = mounts("prometheus")
    shutil.copy(found["/etc/prometheus/prometheus.yml"], tmp_path / "prometheus.yml")
    if RULES.exists():
        shutil.copy(found["/etc/prometheus/rules.yaml"], tmp_path / "rules.yaml")
    else:
        (tmp_path / "rules.yaml").write_text("groups: []\n")
    command = [str(peers.promtool), "check", "config", str(tmp_path / "prometheus.yml")]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)

    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert "1 rule files found" in judged.stdout


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    found = mounts("grafana")
    provisioning = "/etc/grafana/provisioning"
    (source,) = read(found[f"{provisioning}/datasources/epochgate.yml"])["datasources"]
    (provider,) = read(found[f"{provisioning}/dashboards/epochgate.yml"])["providers"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]

    assert (source["type"], source["url"]) == ("prometheus", f"http://prometheus:{PORTS['prometheus']}")
    assert source["isDefault"] is True
    assert found[home] == DASHBOARD
    assert provider["options"]["path"] == str(Path(home).parent)
