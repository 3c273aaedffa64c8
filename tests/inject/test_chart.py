"""The chart and inject add the same container; the chart's has its settings in a file besides."""

from __future__ import annotations

from typing import Any

import yaml  # type: ignore[import-untyped]  # it ships no types

from epochgate.inject.sidecar import sidecar
from tests.helm.charts import SIDECAR, Engine, values
from tests.peers.install import Peers


def test_the_charts_sidecar_is_the_one_that_inject_adds(peers: Peers) -> None:
    engine = Engine(peers)
    objects = engine.render(values(SIDECAR))
    engine.close()
    (pod,) = [one["spec"]["template"]["spec"] for one in objects if one["kind"] == "Deployment"]
    (container,) = [one for one in pod["initContainers"] if one["name"] == "epochgate"]

    (settings,) = [
        yaml.safe_load(one["data"]["config.yaml"]) for one in objects if one["kind"] == "ConfigMap"
    ]

    wanted: dict[str, Any] = sidecar().container(8000)
    strangers = wanted["env"].pop()
    assert (strangers["name"], strangers["value"]) == (
        "EPOCHGATE_UNKNOWN_SESSIONS",
        settings["unknown_sessions"],
    )
    variables = {one["name"]: one["value"] for one in container.pop("env")}
    assert {one["name"]: one["value"] for one in wanted.pop("env")}.items() <= variables.items()
    assert variables.keys() == {
        "EPOCHGATE_UPSTREAM",
        "EPOCHGATE_LISTEN",
        "EPOCHGATE_HEALTH",
        "EPOCHGATE_ADMIN",
        "EPOCHGATE_CONFIG",
    }
    assert container.pop("args") == ["run"]
    assert container.pop("imagePullPolicy") == "IfNotPresent"
    assert [one["mountPath"] for one in container.pop("volumeMounts")] == ["/etc/epochgate"]
    assert container == wanted
    assert pod["terminationGracePeriodSeconds"] == 45
    assert pod["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": 25}}}
