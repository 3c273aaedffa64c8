"""Services, replicas and policies: what leads clients past the sidecar, or nowhere."""

from __future__ import annotations

import pytest

from epochgate.inject.targets import Request
from tests.inject.samples import (
    BOTH,
    DEPLOYMENT,
    PLAIN,
    PORTS,
    ROUTE,
    SECOND,
    SPEC,
    asked,
    names_of,
    refused,
    said,
    warning,
    with_lines,
)

AUTOSCALER = """\
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: weather}
spec:
  scaleTargetRef: {kind: Deployment, name: weather}
  maxReplicas: 4
"""
SCALED = """\
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: weather}
spec:
  scaleTargetRef: {name: weather}
"""
POLICY = """\
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: weather}
spec:
  podSelector: {}
  ingress:
    - ports:
        - port: 8000
"""


def alone(line: int, how_many: str, service_line: int, one: str = "Deployment/weather") -> str:
    return refused(
        line,
        f"{how_many}, and a session lives in one pod: set `sessionAffinity: ClientIP` in Service/weather "
        f"(a.yaml:{service_line}), or give --affinity-elsewhere if an ingress keeps sessions in their pod or "
        "the server has none",
        one,
    )


REPLICAS = [
    (with_lines(BOTH, SPEC, "  replicas: 3"), alone(8, "replicas: 3", 19)),
    (with_lines(BOTH, SPEC, "  replicas: many"), alone(8, "replicas: many", 19)),
    (
        BOTH.replace("Deployment", "DaemonSet"),
        alone(1, "a DaemonSet has a pod on each node", 18, "DaemonSet/weather"),
    ),
    (BOTH + AUTOSCALER, alone(1, "HorizontalPodAutoscaler/weather (a.yaml:33) may start several pods", 18)),
    (BOTH + SCALED, alone(1, "ScaledObject/weather (a.yaml:28) may start several pods", 18)),
]
NO_SERVICE = warning(
    1,
    "no Service here selects its pods (app=weather); clients pass epochgate by until the one that does leads "
    "to 8808: kubectl patch service NAME --type=json "
    """-p='[{"op": "replace", "path": "/spec/ports/0/targetPort", "value": 8808}]'""",
)
AROUND = [
    (DEPLOYMENT, PLAIN, NO_SERVICE),
    (
        BOTH.replace("kind: Service\nmetadata:", "kind: Service\nmetadata:\n  namespace: b"),
        PLAIN,
        warning(
            1,
            "Service/weather (a.yaml:18) would select it, but is of namespace b: write the same into "
            "both, or its targetPort: 8808 yourself",
        ),
    ),
    (
        BOTH.replace("targetPort: 8000", "targetPort: 9000"),
        PLAIN,
        warning(
            1,
            "Service/weather leads to 9000 (line 26), not to the server's 8000: what listens there has "
            "to send to 8808, or give the right --port",
        ),
    ),
    (
        BOTH.replace("  selector: {app: weather}", "  clusterIP: None\n  selector: {app: weather}"),
        PLAIN,
        warning(
            27,
            "headless: clients choose the port of a pod themselves, and those that connect to the "
            "server's pass epochgate by: let them connect to 8808",
            "Service/weather",
        ),
    ),
    (
        with_lines(BOTH, "      targetPort: 8000", "      appProtocol: kubernetes.io/h2c"),
        PLAIN,
        refused(
            27,
            "appProtocol: kubernetes.io/h2c: the sidecar speaks HTTP/1.1 without TLS: change it",
            "Service/weather",
        ),
    ),
    (
        BOTH + SECOND,
        asked(workloads=("weather",)),
        refused(
            26,
            "also leads to the pods of Deployment/second (a.yaml:28), which get no sidecar: narrow its "
            "selector, or give --workload for both",
            "Service/weather",
        ),
    ),
    (
        BOTH + POLICY,
        PLAIN,
        refused(35, "lets clients reach port 8000 only: let them reach 8808", "NetworkPolicy/weather"),
    ),
    (
        with_lines(BOTH, PORTS, "              name: http") + POLICY.replace("8000", "http"),
        PLAIN,
        refused(36, "lets clients reach port 8000 only: let them reach 8808", "NetworkPolicy/weather"),
    ),
    (
        BOTH + ROUTE,
        PLAIN,
        refused(34, "targetPort: 8000 is that of the pod: change it to 8808", "Route/weather"),
    ),
]


@pytest.mark.parametrize(("text", "request_", "line"), AROUND, ids=names_of(AROUND))
def test_it_is_said_with_its_line_and_what_to_change(text: str, request_: Request, line: str) -> None:
    assert said(text, request_) == [line]


@pytest.mark.parametrize(("text", "line"), REPLICAS, ids=names_of(REPLICAS))
def test_several_pods_are_refused_unless_something_keeps_sessions_on_theirs(text: str, line: str) -> None:
    assert said(text) == [line]
    assert said(text, asked(has_affinity_elsewhere=True)) == []
    kept = text.replace(
        "  selector: {app: weather}\n  ports",
        "  sessionAffinity: ClientIP\n  selector: {app: weather}\n  ports",
    )
    assert said(kept) == []


RIGHT = {
    "no replicas at the moment": with_lines(BOTH, SPEC, "  replicas: 0"),
    "an autoscaler of something else": BOTH
    + AUTOSCALER.replace("name: weather}\n  max", "name: other}\n  max"),
    "an autoscaler of another namespace": BOTH
    + AUTOSCALER.replace("metadata: {", "metadata: {namespace: b, "),
    "a policy that lets everything in": BOTH
    + POLICY.replace("    - ports:\n        - port: 8000\n", "    - {}\n"),
    "a policy of other pods": BOTH
    + POLICY.replace("podSelector: {}", "podSelector: {matchLabels: {app: b}}"),
    "a policy with the new port in a range": BOTH
    + POLICY.replace("- port: 8000", "- {port: 8000, endPort: 9000}"),
    "a policy that names a port which the server does not have": BOTH
    + POLICY.replace("port: 8000", "port: web\n        - {port: 8000, protocol: UDP}"),
    "a route to a named port": BOTH + ROUTE.replace("8000", "http"),
    "a headless Service whose own port is the new one": BOTH.replace(
        "  selector: {app: weather}", "  clusterIP: None\n  selector: {app: weather}"
    ).replace("port: 80\n", "port: 8808\n"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of(name: str) -> None:
    assert said(RIGHT[name]) == []
