"""Which workload gets the sidecar and which container is the server; what is refused if that is not clear."""

from __future__ import annotations

import pytest

from epochgate.inject.targets import Request
from tests.inject.samples import (
    BOTH,
    DEPLOYMENT,
    JOB,
    PLAIN,
    PORTS,
    SECOND,
    SERVER,
    SERVICE,
    asked,
    names_of,
    refused,
    result_of,
    said,
    with_lines,
)

CRON_JOB = JOB.replace("Job", "CronJob").replace("{template", "{jobTemplate: {spec: {template")
CRON_JOB = CRON_JOB.rstrip() + "}}\n"
NEIGHBOUR = "        - name: web\n          image: b"


def nowhere(text: str) -> str:
    return f"a.yaml: refused: {text}"


WHICH_WORKLOAD = [
    (
        DEPLOYMENT + SECOND,
        PLAIN,
        nowhere(
            "2 workloads, Deployment/weather (a.yaml:1), Deployment/second (a.yaml:18): give --workload "
            'deployment/weather, or annotate it with epochgate.dev/inject: "true"'
        ),
    ),
    (
        SERVICE,
        PLAIN,
        nowhere("no Deployment, StatefulSet, DaemonSet, ReplicaSet or Pod in it: nothing to add to"),
    ),
    (
        JOB,
        PLAIN,
        refused(2, "a Job serves nobody: inject into what clients connect to", "Job/load"),
    ),
    (
        CRON_JOB,
        PLAIN,
        refused(2, "a CronJob serves nobody: inject into what clients connect to", "CronJob/load"),
    ),
    (
        BOTH + JOB,
        asked(workloads=("job/load",)),
        refused(28, "a Job serves nobody: inject into what clients connect to", "Job/load"),
    ),
    (
        BOTH.replace("  name: weather\n", '  name: weather\n  annotations: {"helm.sh/hook": test}\n', 1),
        PLAIN,
        refused(1, "a hook of Helm serves nobody: inject into what clients connect to"),
    ),
    (
        BOTH.replace("apps/v1", "extensions/v1beta1"),
        PLAIN,
        refused(1, "extensions/v1beta1 is not known here: write apps/v1"),
    ),
    (
        BOTH.replace("apps/v1", "argoproj.io/v1alpha1").replace("Deployment", "Rollout"),
        PLAIN,
        refused(
            1,
            "argoproj.io/v1alpha1 is not known here: put the sidecar into its pod template, "
            "docs/inject.md shows it",
            "Rollout/weather",
        ),
    ),
    (
        BOTH,
        asked(workloads=("sts/weather",)),
        nowhere("--workload sts/weather: not in it; it has Deployment/weather (a.yaml:1)"),
    ),
    (
        BOTH + "---\n" + DEPLOYMENT.replace("Deployment", "StatefulSet"),
        asked(workloads=("weather",)),
        nowhere(
            "--workload weather: Deployment/weather (a.yaml:1), StatefulSet/weather (a.yaml:28); give "
            "the kind too: deployment/weather"
        ),
    ),
    (
        BOTH.replace("      containers:", "      container:"),
        asked(workloads=("weather",)),
        refused(1, "its pod has no list of containers: write it out"),
    ),
    (
        BOTH.replace(SERVER, f"{SERVER}\n{SERVER}"),
        PLAIN,
        refused(15, "the key `image` stands twice: remove one"),
    ),
]
WHICH_PORT = [
    (
        BOTH.replace(f"          ports:\n{PORTS}\n", ""),
        PLAIN,
        refused(12, "server declares no containerPort: give --port"),
    ),
    (
        with_lines(BOTH, PORTS, "            - containerPort: 9090"),
        PLAIN,
        refused(
            12,
            "it has the ports 8000 of server (line 16), 9090 of server (line 17): give that of the "
            "server by --port",
        ),
    ),
    (
        BOTH,
        asked(container="web"),
        refused(12, "--container web: not in it; it has server"),
    ),
    (
        with_lines(BOTH, PORTS, NEIGHBOUR),
        asked(port=7000),
        refused(12, "port 7000 may be that of server, web: give --container"),
    ),
    (
        BOTH.replace("containerPort: 8000", "containerPort: http"),
        PLAIN,
        refused(16, "containerPort is no plain number: write it as one"),
    ),
    (
        BOTH.replace("containerPort: 8000", "containerPort: 010"),
        PLAIN,
        refused(16, "containerPort is no plain number: write it as one"),
    ),
    (
        BOTH.replace("8000", "8808"),
        PLAIN,
        refused(16, "port 8808 is one of epochgate's, 8808, 8809, 8810: let the server take another"),
    ),
    (
        with_lines(BOTH, PORTS, f"{NEIGHBOUR}\n          ports: [{{containerPort: 8810}}]"),
        asked(port=8000),
        refused(19, "web takes port 8810, which epochgate needs: change it"),
    ),
]


CASES = [*WHICH_WORKLOAD, *WHICH_PORT]


@pytest.mark.parametrize(("text", "request_", "line"), CASES, ids=names_of(CASES))
def test_what_is_not_clear_is_refused_with_what_to_give(text: str, request_: Request, line: str) -> None:
    assert said(text, request_) == [line]


@pytest.mark.parametrize(
    "text",
    [
        BOTH + JOB,
        BOTH + SECOND.replace("  name: second", '  name: second\n  annotations: {"helm.sh/hook": test}'),
        BOTH
        + SECOND.replace(
            "  name: second", '  name: second\n  annotations: {epochgate.dev/inject: "false"}'
        ).replace("app: weather", "app: second"),
        with_lines(BOTH, PORTS, "            - {containerPort: 8000, protocol: UDP}"),
    ],
    ids=[
        "a Job beside",
        "a test of Helm with the same labels",
        "one that is not to be touched",
        "a UDP port",
    ],
)
def test_what_cannot_be_the_server_is_passed_over(text: str) -> None:
    assert said(text) == []
    assert result_of(text).count("- name: epochgate\n") == 1


def test_all_workloads_that_are_annotated_get_it() -> None:
    annotated = '  annotations: {epochgate.dev/inject: "true"}\n'
    both = (DEPLOYMENT + SECOND).replace("metadata:\n  name", f"metadata:\n{annotated}  name") + SERVICE

    assert result_of(both).count("- name: epochgate\n") == 2
    assert (
        result_of(BOTH + SECOND, asked(workloads=("weather", "deploy/second"))).count("- name: epochgate\n")
        == 2
    )


@pytest.mark.parametrize(
    "word",
    ["weather", "deployment/weather", "Deployment/weather", "deploy/weather", "deployments.apps/weather"],
)
def test_a_workload_is_named_as_kubectl_does(word: str) -> None:
    assert result_of(BOTH, asked(workloads=(word,))) == result_of(BOTH)


def test_a_port_that_nobody_declares_is_that_of_the_only_container() -> None:
    text = DEPLOYMENT.replace(f"          ports:\n{PORTS}\n", "")

    assert "value: http://127.0.0.1:9001" in result_of(text, asked(port=9001))
