"""The ten manifests: what comes out, byte for byte, by its lines, by its meaning and by the API's schemas."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.inject.golden import GOLDEN, Golden, edited, objects_of, text_of
from tests.peers.install import Peers

VERSIONS = ("1.30", "1.33", "newest")
each = pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
each_in_lines = pytest.mark.parametrize(
    "golden", [one for one in GOLDEN if one.name != "list.json"], ids=lambda golden: golden.name
)

# Lines that change, as they were and as they are. Two hold empty braces that something goes into.
CHANGED = {
    "helm.yaml": {"      targetPort: http": "      targetPort: 8808"},
    "kompose.yaml": {"      targetPort: 8000": "      targetPort: 8808"},
    "kustomize.yaml": {"    targetPort: 8000": "    targetPort: 8808"},
    "operator.yaml": {"    targetPort: 'http'": "    targetPort: 8808"},
    "anchors.yaml": {"      targetPort: *port": "      targetPort: 8808"},
    "pod.yaml": {"    lifecycle: {}": "    lifecycle:"},
    "daemonset.yaml": {
        "      initContainers: []": "      initContainers:",
        'env: [{name: MODE, value: "yes"}]}': 'env: [{name: MODE, value: "yes"}], '
        '"lifecycle": {"preStop": {"sleep": {"seconds": 25}}}}',
        "targetPort: mcp}]}": "targetPort: 8808}]}",
    },
}


def sidecar_for(port: int) -> dict[str, Any]:
    return {
        "name": "epochgate",
        "image": "epochgate:0.1.0",
        "restartPolicy": "Always",
        "env": [
            {"name": "EPOCHGATE_UPSTREAM", "value": f"http://127.0.0.1:{port}"},
            {"name": "EPOCHGATE_LISTEN", "value": "0.0.0.0:8808"},
            {"name": "EPOCHGATE_HEALTH", "value": "0.0.0.0:8810"},
            {"name": "EPOCHGATE_UNKNOWN_SESSIONS", "value": "refuse"},
        ],
        "ports": [{"name": "mcp", "containerPort": 8808}, {"name": "health", "containerPort": 8810}],
        "startupProbe": {
            "httpGet": {"path": "/startupz", "port": 8810},
            "periodSeconds": 1,
            "timeoutSeconds": 3,
            "failureThreshold": 60,
        },
        "livenessProbe": {
            "httpGet": {"path": "/livez", "port": 8810},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": 8810},
            "periodSeconds": 5,
            "timeoutSeconds": 3,
            "failureThreshold": 2,
        },
        "lifecycle": {"preStop": {"exec": {"command": ["epochgate", "drain"]}}},
        "resources": {
            "requests": {"cpu": "100m", "memory": "362Mi"},
            "limits": {"memory": "1253Mi"},
        },
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def named(objects: list[dict[str, Any]], kinds: str, name: str) -> dict[str, Any]:
    found = [one for one in objects if one["kind"] in kinds.split() and one["metadata"]["name"] == name]
    assert len(found) == 1, name
    return found[0]


def wanted(golden: Golden, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects of the input with the sidecar and what belongs to it, and no other difference."""
    objects = copy.deepcopy(objects)
    workload = named(objects, "Deployment StatefulSet DaemonSet ReplicaSet Pod", golden.workload)
    pod = workload["spec"] if workload["kind"] == "Pod" else workload["spec"]["template"]["spec"]
    container = sidecar_for(golden.port)
    if golden.name == "daemonset.yaml":
        del container["ports"][0]["name"]  # the server's port is named mcp
    pod["initContainers"] = [*pod.get("initContainers", []), container]
    if golden.grace_s is not None:
        assert "terminationGracePeriodSeconds" not in pod
        pod["terminationGracePeriodSeconds"] = golden.grace_s
    if not golden.has_pre_stop:
        server = next(one for one in pod["containers"] if one["name"] == golden.container)
        server["lifecycle"] = {**server.get("lifecycle", {}), "preStop": {"sleep": {"seconds": 25}}}
    for name, port in golden.services:
        named(objects, "Service", name)["spec"]["ports"][port]["targetPort"] = 8808
    return objects


@each
def test_it_comes_out_as_expected(golden: Golden) -> None:
    plan = edited(golden.name, text_of(golden.name), golden.request)

    assert not plan.is_refused
    assert plan.texts == [text_of(f"expected/{golden.name}")]


@each
def test_the_difference_is_the_sidecar_and_what_belongs_to_it(golden: Golden) -> None:
    before, after = text_of(golden.name), text_of(f"expected/{golden.name}")

    assert objects_of(after) == wanted(golden, objects_of(before))


@each_in_lines
def test_lines_are_added_and_only_target_ports_change(golden: Golden) -> None:
    """With the new lines taken out, the result is the input, but for the lines in CHANGED."""
    before = text_of(golden.name)
    for old, new in CHANGED.get(golden.name, {}).items():
        assert f"{old}\n" in before
        before = before.replace(f"{old}\n", f"{new}\n")
    after = iter(text_of(f"expected/{golden.name}").splitlines(keepends=True))

    missing = [line for line in before.splitlines(keepends=True) if line not in after]

    assert missing == []


def test_in_json_a_line_gets_a_comma_at_most() -> None:
    before = text_of("list.json").replace('"targetPort": 8000', '"targetPort": 8808')
    after = iter([line.removesuffix(",") for line in text_of("expected/list.json").splitlines()])

    assert [line for line in before.splitlines() if line.removesuffix(",") not in after] == []


@each
def test_injecting_twice_changes_nothing(golden: Golden) -> None:
    once = text_of(f"expected/{golden.name}")

    plan = edited(golden.name, once, golden.request)

    assert not plan.is_refused
    assert plan.texts == [once]


@each
def test_line_breaks_of_windows_stay(golden: Golden) -> None:
    before = text_of(golden.name).replace("\n", "\r\n")

    plan = edited(golden.name, before, golden.request)

    assert plan.texts == [text_of(f"expected/{golden.name}").replace("\n", "\r\n")]


@each
def test_a_missing_last_line_break_stays_missing(golden: Golden) -> None:
    plan = edited(golden.name, text_of(golden.name).rstrip("\n"), golden.request)

    assert plan.texts == [text_of(f"expected/{golden.name}").rstrip("\n")]


@each
def test_a_byte_order_mark_stays(golden: Golden) -> None:
    plan = edited(golden.name, "\ufeff" + text_of(golden.name), golden.request)

    assert plan.texts == ["\ufeff" + text_of(f"expected/{golden.name}")]


def test_objects_of_other_kinds_stay_byte_for_byte() -> None:
    before = text_of("operator.yaml")
    own, marker, _ = before.partition("---\napiVersion: apps/v1\nkind: Deployment")

    assert marker
    assert text_of("expected/operator.yaml").startswith(own)


OTHERS = ("mcp.example.dev", "monitoring.coreos.com")
VALIDATE = """
import json, sys, kubernetes_validate
for version, one in json.load(sys.stdin):
    version = kubernetes_validate.latest_version() if version == "newest" else version
    try:
        kubernetes_validate.validate(one, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        print(version, one["kind"], one["metadata"]["name"], error)
"""


def test_what_comes_out_is_valid_for_the_api(peers: Peers) -> None:
    objects = [one for golden in GOLDEN for one in objects_of(text_of(f"expected/{golden.name}"))]
    known = [
        one
        for one in objects
        if one["apiVersion"].partition("/")[0] not in ("mcp.example.dev", "monitoring.coreos.com")
    ]
    asked = json.dumps([(version, one) for version in VERSIONS for one in known], default=str)

    ran = subprocess.run(
        [str(peers.kubernetes), "-c", VALIDATE],
        input=asked,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert len(known) == 30
    assert ran.stdout == ""


@pytest.mark.parametrize("release", ["kubectl_31", "kubectl_37"])
def test_kubectl_reads_it_as_it_is_meant(peers: Peers, tmp_path: Path, release: str) -> None:
    """Its reader is another one than ours. It builds what it reads, one manifest beside the other."""
    kubectl: Path = getattr(peers, release) / "kubectl"
    wanted = []
    for golden in GOLDEN:
        (tmp_path / golden.name).write_text(text_of(f"expected/{golden.name}"))
        wanted += wanted_of(golden)
    (tmp_path / "kustomization.yaml").write_text(json.dumps({"resources": [one.name for one in GOLDEN]}))

    ran = subprocess.run(
        [str(kubectl), "kustomize", str(tmp_path)], stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )

    built = objects_of(ran.stdout)
    assert len(built) == 32
    assert [one for one in wanted if one not in built] == []


def wanted_of(golden: Golden) -> list[dict[str, Any]]:
    objects = wanted(golden, objects_of(text_of(golden.name)))
    return [one for one in objects if one["apiVersion"] in ("v1", "apps/v1")]
