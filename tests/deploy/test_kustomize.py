"""The kustomize component, built by both releases of kubectl: who gets the sidecar, and what fails."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from epochgate.inject.sidecar import IMAGE, sidecar
from tests.peers.install import Peers, ensure

KUSTOMIZE = Path(__file__).parents[2] / "deploy" / "kustomize"
VALIDATE = """
import json, sys, kubernetes_validate
for one in json.load(sys.stdin):
    for version in ("1.30", "1.33", kubernetes_validate.latest_version()):
        kubernetes_validate.validate(one, version, strict=True)
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: KIND
metadata:
  name: weather
  annotations: {epochgate.dev/inject: "true"}
spec:
  selector: {matchLabels: {app: weather}}
  template:
    metadata: {labels: {app: weather}}
    spec:
      containers:
        - name: server
          image: weather:1
        - name: second
          image: b
"""
PRE_STOP = {"preStop": {"sleep": {"seconds": 25}}}


@pytest.fixture(scope="module")
def tools() -> Peers:
    return ensure()


@pytest.fixture(scope="module", params=["kubectl_31", "kubectl_37"])
def kubectl(tools: Peers, request: pytest.FixtureRequest) -> Path:
    folder: Path = getattr(tools, request.param)
    return folder / "kubectl"


def build(kubectl: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(kubectl), "kustomize", str(folder)], capture_output=True, text=True, timeout=60, check=False
    )


def objects(kubectl: Path, folder: Path) -> list[dict[str, Any]]:
    built = build(kubectl, folder)
    assert built.stderr == ""
    return list(yaml.safe_load_all(built.stdout))


def overlay(folder: Path, *texts: str) -> Path:
    """An overlay of these manifests with the component."""
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text)
    component = os.path.relpath(KUSTOMIZE / "component", folder)
    resources = [f"{number}.yaml" for number in range(len(texts))]
    (folder / "kustomization.yaml").write_text(
        json.dumps({"resources": resources, "components": [component]})
    )
    return folder


def pod_of(one: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = one["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"])
def test_an_annotated_workload_gets_what_inject_adds(kubectl: Path, tmp_path: Path, kind: str) -> None:
    (built,) = objects(kubectl, overlay(tmp_path, DEPLOYMENT.replace("KIND", kind)))

    wanted = yaml.safe_load(DEPLOYMENT.replace("KIND", kind))
    pod_of(wanted)["initContainers"] = [sidecar().container(8000)]
    pod_of(wanted)["terminationGracePeriodSeconds"] = 45
    pod_of(wanted)["containers"][0]["lifecycle"] = PRE_STOP
    assert built == wanted


def test_without_the_annotation_nothing_changes(kubectl: Path, tmp_path: Path) -> None:
    text = DEPLOYMENT.replace("KIND", "Deployment").replace('"true"', '"false"')

    assert objects(kubectl, overlay(tmp_path, text)) == [yaml.safe_load(text)]


@pytest.mark.parametrize(
    ("behind", "line", "path"),
    [
        ("    spec:", "      terminationGracePeriodSeconds: 600", "terminationGracePeriodSeconds"),
        (
            "          image: weather:1",
            "          lifecycle: {preStop: {exec: {command: [a]}}}",
            "containers/0/lifecycle",
        ),
    ],
    ids=["a grace period", "a lifecycle"],
)
def test_what_is_there_is_not_written_over(
    kubectl: Path, tmp_path: Path, behind: str, line: str, path: str
) -> None:
    text = DEPLOYMENT.replace("KIND", "Deployment").replace(f"{behind}\n", f"{behind}\n{line}\n")

    refused = build(kubectl, overlay(tmp_path, text))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"testing value /spec/template/spec/{path} failed" in refused.stderr

    alone = text.replace('"true"', "sidecar")
    (built,) = objects(kubectl, overlay(tmp_path, alone))
    wanted = yaml.safe_load(alone)
    pod_of(wanted)["initContainers"] = [sidecar().container(8000)]
    assert built == wanted


def test_init_containers_that_are_there_stay(kubectl: Path, tmp_path: Path) -> None:
    text = DEPLOYMENT.replace("KIND", "Deployment").replace(
        "    spec:\n", "    spec:\n      initContainers: [{name: first, image: b}]\n"
    )

    (built,) = objects(kubectl, overlay(tmp_path, text))

    assert [one["name"] for one in pod_of(built)["initContainers"]] == ["epochgate", "first"]


def test_the_example_leads_to_the_sidecar_and_sets_its_port(kubectl: Path, tools: Peers) -> None:
    service, deployment = objects(kubectl, KUSTOMIZE / "example")

    assert service["spec"]["ports"] == [{"port": 80, "targetPort": 8808}]
    (container,) = pod_of(deployment)["initContainers"]
    wanted = sidecar(f"registry.example/{IMAGE}", {"EPOCHGATE_REISSUE": "hinted"}).container(9000)
    by_name = {one["name"]: one["value"] for one in container.pop("env")}
    assert by_name == {one["name"]: one["value"] for one in wanted.pop("env")}
    assert container == wanted

    asked = json.dumps([service, deployment])
    ran = subprocess.run(
        [str(tools.kubernetes), "-c", VALIDATE],
        input=asked,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stderr == ""
