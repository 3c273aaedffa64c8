"""The objects of a release fit each other, whatever values are given."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from tests.helm.charts import NAMES, Engine, Object, container, one, pod_of, values
from tests.helm.semantics import problems

EVERYTHING = "sidecar-everything"


@pytest.fixture(scope="module")
def everything(helm: Engine) -> list[Object]:
    return helm.render(values(EVERYTHING))


@pytest.fixture(scope="module")
def many(helm: Engine) -> list[Object]:
    return helm.render(values("gateway-many"))


@pytest.mark.parametrize("name", NAMES)
def test_a_release_has_no_problem(name: str, helm: Engine) -> None:
    assert problems(helm.render(values(name))) == []


def epochgate(objects: list[Object]) -> Object:
    return container(objects, "epochgate")


# What is broken -> the problem that is found.
BROKEN: list[tuple[str, Callable[[list[Object]], object], str]] = [
    (
        "label",
        lambda objects: pod_of(objects)["metadata"]["labels"].pop("app.kubernetes.io/name"),
        "Service ledger-epochgate: selects no pod of the Deployment",
    ),
    (
        "target",
        lambda objects: one(objects, "Service")["spec"]["ports"][0].update(targetPort="mcp"),
        "Service ledger-epochgate: targetPort mcp is no number of a container's port",
    ),
    (
        "policy",
        lambda objects: one(objects, "NetworkPolicy")["spec"]["ingress"][0]["ports"][0].update(port=1),
        "NetworkPolicy ledger-epochgate: opens 1, which nobody listens on",
    ),
    (
        "monitor",
        lambda objects: one(objects, "PodMonitor")["spec"]["podMetricsEndpoints"][0].update(port="web"),
        "PodMonitor ledger-epochgate: no container has a port named web",
    ),
    (
        "volume",
        lambda objects: pod_of(objects)["spec"]["volumes"].pop(0),
        "Deployment ledger-epochgate: epochgate: no volume epochgate-config",
    ),
    (
        "mount",
        lambda objects: epochgate(objects)["volumeMounts"].pop(0),
        "Deployment ledger-epochgate: volume epochgate-config is mounted nowhere",
    ),
    (
        "configmap",
        lambda objects: objects.remove(one(objects, "ConfigMap", "-epochgate")),
        "Deployment ledger-epochgate: no ConfigMap ledger-epochgate",
    ),
    (
        "root",
        lambda objects: container(objects, "server")["securityContext"].update(runAsUser=0),
        "Deployment ledger-epochgate: server: runAsUser is not restricted",
    ),
    (
        "capability",
        lambda objects: epochgate(objects)["securityContext"]["capabilities"].update(add=["NET_ADMIN"]),
        "Deployment ledger-epochgate: epochgate: capabilities is not restricted",
    ),
    (
        "seccomp",
        lambda objects: (
            pod_of(objects)["spec"]["securityContext"].pop("seccompProfile")
            and epochgate(objects)["securityContext"].pop("seccompProfile")
        ),
        "Deployment ledger-epochgate: epochgate: seccompProfile is not restricted",
    ),
    (
        "probe",
        lambda objects: epochgate(objects)["livenessProbe"]["httpGet"].update(port=8811),
        "Deployment ledger-epochgate: epochgate: livenessProbe: port 8811 is none of its own",
    ),
    (
        "listener",
        lambda objects: epochgate(objects)["env"][1].update(value="0.0.0.0:8000"),
        "Deployment ledger-epochgate: epochgate: does not listen on port 8808, named mcp",
    ),
    (
        "probe on traffic",
        lambda objects: epochgate(objects)["livenessProbe"]["httpGet"].update(port=8808),
        "Deployment ledger-epochgate: epochgate: livenessProbe: no listener for probes on its port",
    ),
    (
        "grace",
        lambda objects: pod_of(objects)["spec"].update(terminationGracePeriodSeconds=39),
        "Deployment ledger-epochgate: server: sleeps 30 s of 39",
    ),
    (
        "quantity",
        lambda objects: container(objects, "server")["resources"]["limits"].update(memory="512MiB"),
        "Deployment ledger-epochgate: server: limits.memory: 512MiB is no quantity",
    ),
    (
        "variable",
        lambda objects: epochgate(objects)["env"].append({"name": "TZ", "value": "x"}),
        "Deployment ledger-epochgate: epochgate: variable TZ is there twice",
    ),
    (
        "account",
        lambda objects: objects.remove(one(objects, "ServiceAccount")),
        "Deployment ledger-epochgate: no ServiceAccount ledger-epochgate",
    ),
    (
        "name",
        lambda objects: one(objects, "Service")["metadata"].update(name="-ledger"),
        "Service -ledger: not a name",
    ),
]


@pytest.mark.parametrize(("harm", "problem"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_what_does_not_fit_is_found(
    everything: list[Object], harm: Callable[[list[Object]], object], problem: str
) -> None:
    objects = copy.deepcopy(everything)
    harm(objects)

    assert problem in problems(objects)


def test_an_autoscaler_and_a_number_of_replicas_do_not_go_together(many: list[Object]) -> None:
    objects = copy.deepcopy(many)
    one(objects, "Deployment")["spec"]["replicas"] = 3

    assert problems(objects) == [
        "HorizontalPodAutoscaler ledger-epochgate: the Deployment says how many as well"
    ]


def test_a_monitor_that_selects_two_services_is_found(many: list[Object]) -> None:
    objects = copy.deepcopy(many)
    one(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"].pop("app.kubernetes.io/component")

    assert problems(objects) == ["ServiceMonitor ledger-epochgate: selects 2 Services"]
