"""A Deployment and its Service, and pieces to put into them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from epochgate.inject.manifests import Source
from epochgate.inject.plan import Plan, inject
from epochgate.inject.sidecar import sidecar
from epochgate.inject.targets import Request

SIDECAR = sidecar()
PLAIN = Request(SIDECAR)

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: weather
spec:
  selector:
    matchLabels: {app: weather}
  template:
    metadata:
      labels: {app: weather}
    spec:
      containers:
        - name: server
          image: weather:1
          ports:
            - containerPort: 8000
"""
SERVICE = """\
---
apiVersion: v1
kind: Service
metadata:
  name: weather
spec:
  selector: {app: weather}
  ports:
    - port: 80
      targetPort: 8000
"""
BOTH = DEPLOYMENT + SERVICE
SECOND = "---\n" + DEPLOYMENT.replace("name: weather", "name: second")
JOB = """\
---
apiVersion: batch/v1
kind: Job
metadata: {name: load}
spec: {template: {metadata: {labels: {app: weather}}, spec: {containers: [{name: a, image: b}]}}}
"""
ROUTE = """\
---
apiVersion: route.openshift.io/v1
kind: Route
metadata: {name: weather}
spec:
  to: {kind: Service, name: weather}
  port:
    targetPort: 8000
"""
# Lines of them, behind which others are put.
SPEC = "    matchLabels: {app: weather}"
POD = "    spec:"
SERVER = "          image: weather:1"
PORTS = "            - containerPort: 8000"


def with_lines(text: str, behind: str, lines: str) -> str:
    """`lines` put behind the one line that is `behind`."""
    assert text.count(f"{behind}\n") == 1, behind
    return text.replace(f"{behind}\n", f"{behind}\n{lines}\n")


def asked(**changes: object) -> Request:
    return replace(PLAIN, **changes)  # type: ignore[arg-type]  # each of its own type


def refused(line: int, text: str, one: str = "Deployment/weather") -> str:
    return f"a.yaml:{line}: refused: {one}: {text}"


def warning(line: int, text: str, one: str = "Deployment/weather") -> str:
    return f"a.yaml:{line}: warning: {one}: {text}"


def plan_of(text: str, request: Request = PLAIN) -> Plan:
    return inject([Source.of("a.yaml", text)], request)


def said(text: str, request: Request = PLAIN) -> list[str]:
    """What is refused or warned of."""
    return [str(one) for one in plan_of(text, request).findings if one.weight.value != "done"]


def result_of(text: str, request: Request = PLAIN) -> str:
    """The edited text; fails if it was refused."""
    plan = plan_of(text, request)
    assert [str(one) for one in plan.findings if one.weight.value == "refused"] == []
    return plan.texts[0]


def names_of(*tables: Sequence[tuple[Any, ...]]) -> list[str]:
    """What cases are called: by the beginning of what is said, which is their last column."""
    said = [str(case[-1]).partition(": ")[2] for table in tables for case in table]
    return ["-".join(re.findall(r"[A-Za-z0-9]+", text)[:9]) for text in said]
