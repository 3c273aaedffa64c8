"""What both releases of Helm make of the chart that `helm create` writes goes through inject."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.inject.golden import PLAIN, edited
from tests.peers.install import Peers


@pytest.fixture(params=["kubectl_31", "kubectl_37"])
def helm(peers: Peers, request: pytest.FixtureRequest) -> Path:
    folder: Path = getattr(peers, request.param)
    return folder / "helm"


def run(helm: Path, folder: Path, *words: str) -> str:
    homes = {name: str(folder) for name in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    ran = subprocess.run(
        [str(helm), *words],
        cwd=folder,
        env={**os.environ, **homes},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout


def test_a_rendered_chart_differs_by_what_is_added(helm: Path, tmp_path: Path) -> None:
    run(helm, tmp_path, "create", "weather")
    text = run(helm, tmp_path, "template", "release", "weather")

    plan = edited("rendered.yaml", text, PLAIN)

    assert not plan.is_refused
    after = iter(plan.texts[0].splitlines())
    before = text.replace("      targetPort: http\n", "      targetPort: 8808\n").splitlines()
    assert [line for line in before if line not in after] == []
    assert plan.texts[0].count("- name: epochgate\n") == 1
    assert plan.texts[0].count("      targetPort: 8808\n") == 1


def test_helm_3_takes_it_as_a_post_renderer(peers: Peers, tmp_path: Path) -> None:
    helm = peers.kubectl_31 / "helm"
    run(helm, tmp_path, "create", "weather")
    script = tmp_path / "inject.sh"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -m epochgate inject -f -\n")
    script.chmod(0o755)

    rendered = run(helm, tmp_path, "template", "release", "weather", "--post-renderer", str(script))

    assert rendered.count("- name: epochgate\n") == 1
