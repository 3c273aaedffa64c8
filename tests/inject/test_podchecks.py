"""What in a workload is refused or warned of: each with its line and what to change there."""

from __future__ import annotations

import pytest

from epochgate.inject.sidecar import sidecar
from epochgate.inject.targets import Request
from tests.inject.samples import (
    BOTH,
    PLAIN,
    POD,
    PORTS,
    ROUTE,
    SERVER,
    SPEC,
    asked,
    names_of,
    plan_of,
    refused,
    result_of,
    said,
    warning,
    with_lines,
)

THE_POD = [
    (
        with_lines(BOTH, POD, "      hostNetwork: true"),
        PLAIN,
        refused(12, "hostNetwork: 8808, 8809, 8810 and the server's own port would be the node's: remove it"),
    ),
    (
        with_lines(BOTH, POD, "      nodeSelector: {kubernetes.io/os: windows}"),
        PLAIN,
        refused(12, "epochgate runs on Linux only"),
    ),
    (
        with_lines(BOTH, PORTS, "              hostPort: 8000"),
        PLAIN,
        warning(17, "hostPort leads past epochgate to the server: remove it"),
    ),
    (
        with_lines(BOTH, PORTS, "        - name: epochgate\n          image: b"),
        PLAIN,
        refused(
            17, "`epochgate` stands among the containers, where it ends with the server: remove it there"
        ),
    ),
    (
        with_lines(BOTH, POD, "      initContainers: {}\n      terminationGracePeriodSeconds: 30"),
        PLAIN,
        refused(
            13, "terminationGracePeriodSeconds: 30 is too short for the drain: change it to 45 (at least 35)"
        ),
    ),
    (
        with_lines(BOTH, POD, "      terminationGracePeriodSeconds:"),
        PLAIN,
        refused(
            12,
            "terminationGracePeriodSeconds: nothing is too short for the drain: change it to 45 (at "
            "least 35)",
        ),
    ),
    (
        with_lines(BOTH, POD, "      terminationGracePeriodSeconds: 60").replace(
            SERVER, f"{SERVER}\n          lifecycle: {{preStop: {{sleep: {{seconds: 60}}}}}}"
        ),
        PLAIN,
        refused(
            12, "terminationGracePeriodSeconds: 60 is too short for the drain: change it to 80 (at least 70)"
        ),
    ),
    (
        with_lines(BOTH, SERVER, "          lifecycle: {preStop: {exec: {command: [stop]}}}"),
        PLAIN,
        warning(
            15,
            "server has a preStop of its own: let it last at least 25 s, for as long as answers may be owed",
        ),
    ),
    (
        with_lines(
            BOTH, SERVER, "          lifecycle:\n            preStop:\n              sleep: {seconds: 5}"
        ),
        PLAIN,
        warning(17, "server sleeps 5 s, the drain takes up to 25: change it to 25"),
    ),
    (
        with_lines(BOTH, SERVER, "          livenessProbe: {httpGet: {port: 8000, scheme: HTTPS}}"),
        PLAIN,
        refused(
            15,
            "the server speaks https, and the sidecar would speak http to it: write the sidecar "
            "yourself, with the certificates that both ways need",
        ),
    ),
    (
        with_lines(BOTH, SERVER, "          startupProbe: {tcpSocket: {port: 8000, host: weather.example}}"),
        PLAIN,
        warning(
            15,
            "the startupProbe goes to a host of its own: to the server it should go without one, or it "
            "passes through epochgate",
        ),
    ),
    (
        with_lines(
            BOTH, SERVER, "          readinessProbe: {exec: {command: [curl, 'http://weather/ready']}}"
        ),
        PLAIN,
        warning(15, "the readinessProbe goes through the Service: let it go to 127.0.0.1:8000"),
    ),
    (
        result_of(BOTH).replace("image: epochgate:", "image: old:"),
        PLAIN,
        refused(
            22,
            "the container `epochgate` is not what would be added (it differs in image): give --image "
            "and --env as it has them, or remove lines 22 to 82 and inject anew",
        ),
    ),
    (
        with_lines(BOTH, POD, "      initContainers: none"),
        PLAIN,
        refused(12, "initContainers is no list: make it one"),
    ),
    (
        with_lines(BOTH, SERVER, "          lifecycle: none"),
        PLAIN,
        refused(15, "lifecycle is no mapping: make it one"),
    ),
]
THE_WORKLOAD = [
    (
        BOTH.replace("metadata:\n", "metadata:\n  ownerReferences: [{kind: MCPServer, name: w}]\n", 1),
        PLAIN,
        warning(4, "MCPServer/w owns it and may undo the change: change MCPServer/w instead"),
    ),
    (
        with_lines(BOTH, SPEC, "  updateStrategy: {type: OnDelete}").replace("Deployment", "StatefulSet"),
        PLAIN,
        warning(
            8,
            "its pods stay as they are until they are deleted, and nobody listens where the Service "
            "leads: apply the Service when they are new",
            "StatefulSet/weather",
        ),
    ),
    (
        BOTH.replace("Deployment", "ReplicaSet"),
        PLAIN,
        warning(
            1,
            "a ReplicaSet leaves the pods that there are as they are, and nobody listens where the "
            "Service leads: apply the Service when they are new",
            "ReplicaSet/weather",
        ),
    ),
    (
        with_lines(BOTH, SPEC, "  paused: true"),
        PLAIN,
        warning(
            8,
            "paused: its pods stay as they are, and nobody listens where the Service leads: apply the "
            "Service when they are new",
        ),
    ),
]


CASES = [*THE_POD, *THE_WORKLOAD]


@pytest.mark.parametrize(("text", "request_", "line"), CASES, ids=names_of(CASES))
def test_it_is_said_with_its_line_and_what_to_change(text: str, request_: Request, line: str) -> None:
    assert said(text, request_) == [line]


def test_what_is_refused_is_left_as_it_was() -> None:
    text = with_lines(BOTH, POD, "      hostNetwork: true")

    plan = plan_of(text)

    assert plan.is_refused
    assert plan.texts == [text]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    text = with_lines(BOTH, POD, "      hostNetwork: true\n      terminationGracePeriodSeconds: 30") + ROUTE

    assert [line.split(":")[1] for line in said(text)] == ["12", "13", "36"]


def test_a_grace_period_that_is_long_enough_stays() -> None:
    text = with_lines(BOTH, POD, "      terminationGracePeriodSeconds: 35")

    assert said(text) == []
    assert result_of(text).count("terminationGracePeriodSeconds") == 1


def test_a_longer_drain_needs_a_longer_stay() -> None:
    request = asked(sidecar=sidecar(variables={"EPOCHGATE_DRAIN": "90s"}))

    edited = result_of(BOTH, request)

    assert "                seconds: 90\n" in edited
    assert "      terminationGracePeriodSeconds: 110\n" in edited
    assert said(with_lines(BOTH, POD, "      terminationGracePeriodSeconds: 45"), request) == [
        refused(
            12,
            "terminationGracePeriodSeconds: 45 is too short for the drain: change it to 110 (at least 100)",
        )
    ]


def test_a_port_that_the_server_does_not_declare_is_warned_of() -> None:
    assert warning(
        16, "server declares 8000, not 9999: if it does not listen there, give another --port"
    ) in said(BOTH, Request(sidecar(), port=9999))
