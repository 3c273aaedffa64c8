"""Whatever the layout: the edited text means what it meant, and the additions; nothing else differs."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from epochgate.inject import reading
from epochgate.inject.manifests import Source
from epochgate.inject.nodes import Mapping, Node, Scalar, Sequence
from epochgate.inject.plan import inject
from epochgate.inject.sidecar import sidecar
from epochgate.inject.targets import Request
from tests.inject.layouts import Layout

SIDECAR = sidecar()
REQUEST = Request(SIDECAR)
FIRST = {"name": "migrate", "image": "weather:1", "command": ["sh", "-c"], "args": ["a\nb\n"]}
INITS: list[Any] = [None, [], [FIRST], [FIRST, {"name": "second", "image": "x"}]]
LIFECYCLES: list[Any] = [None, {}, {"postStart": {"exec": {"command": ["true"]}}}]
ABSENT = object()


@st.composite
def objects(draw: Any) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """A Deployment, its Service, and the values that stand in it twice."""
    labels = {"app": "weather", "version": "yes", "release": "0"}
    server: dict[str, Any] = {
        "name": "server",
        "image": "weather:1.2",
        "ports": [{"containerPort": 8000, "name": "http"}],
    }
    pod: dict[str, Any] = {"containers": [server]}
    if (lifecycle := draw(st.sampled_from([ABSENT, *LIFECYCLES]))) is not ABSENT:
        server["lifecycle"] = copy.deepcopy(lifecycle)
    if (inits := draw(st.sampled_from([ABSENT, *INITS]))) is not ABSENT:
        pod["initContainers"] = copy.deepcopy(inits)
    if draw(st.booleans()):
        pod["terminationGracePeriodSeconds"] = 60
    if draw(st.booleans()):
        server["env"] = [{"name": "A", "value": "1"}, {"name": "SCRIPT", "value": "one\n  two\n\nthree\n"}]
    if draw(st.booleans()):
        pod["volumes"] = [{"name": "v", "emptyDir": {}}]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "weather", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    port: dict[str, Any] = {"port": 80, "targetPort": draw(st.sampled_from(["http", 8000]))}
    if draw(st.booleans()):
        port = {"port": 8000, "name": "web"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "weather"},
        "spec": {"selector": {"app": "weather"}, "ports": [port]},
    }
    return deployment, service, [labels]


def with_sidecar(deployment: dict[str, Any]) -> dict[str, Any]:
    """What has to come out, from what went in."""
    wanted = copy.deepcopy(deployment)
    pod = wanted["spec"]["template"]["spec"]
    pod["initContainers"] = [*(pod.get("initContainers") or []), SIDECAR.container(8000)]
    pod.setdefault("terminationGracePeriodSeconds", 45)
    server = pod["containers"][0]
    server["lifecycle"] = {**(server.get("lifecycle") or {}), "preStop": {"sleep": {"seconds": 25}}}
    return wanted


def with_target(service: dict[str, Any]) -> dict[str, Any]:
    wanted = copy.deepcopy(service)
    wanted["spec"]["ports"][0]["targetPort"] = 8808
    return wanted


@settings(phases=(Phase.explicit, Phase.generate))  # a smaller seed is not a simpler layout
@given(objects(), st.integers(0, 2**32))
def test_the_difference_is_the_sidecar_whatever_the_layout(
    drawn: tuple[dict[str, Any], dict[str, Any], list[Any]], seed: int
) -> None:
    deployment, service, shared = drawn
    chance = random.Random(seed)
    written = Layout(chance, shared).document(deployment)
    beside = Layout(chance, []).document(service)
    note(f"{written}\n{beside}")
    assert yaml.safe_load(written) == deployment
    sources = [Source.of("deployment.yaml", written), Source.of("service.yaml", beside)]

    plan = inject(sources, REQUEST)

    assert [str(finding) for finding in plan.findings if finding.weight.value == "refused"] == []
    assert [yaml.safe_load(text) for text in plan.texts] == [with_sidecar(deployment), with_target(service)]
    again = [Source.of(source.name, text) for source, text in zip(sources, plan.texts, strict=True)]
    assert inject(again, REQUEST).texts == plan.texts


def places(node: Node) -> object:
    """Everything that is known of a node and what stands in it."""
    where = (type(node), node.start, node.end, node.line, node.column, node.tag, node.anchor)
    match node:
        case Mapping():
            return (*where, [(places(key), places(value)) for key, value in node.pairs])
        case Sequence():
            return (*where, node.dash, [places(item) for item in node.items])
        case Scalar():
            return (*where, node.value)
        case _:
            return where


@settings(phases=(Phase.explicit, Phase.generate))
@given(objects(), st.integers(0, 2**32))
def test_both_readers_see_the_same_places(
    drawn: tuple[dict[str, Any], dict[str, Any], list[Any]], seed: int
) -> None:
    written = Layout(random.Random(seed), drawn[2]).document(drawn[0])

    with pytest.MonkeyPatch.context() as patch:
        fast = [places(root) for root in reading.read(written)]
        patch.setattr(reading, "FAST", yaml.SafeLoader)
        slow = [places(root) for root in reading.read(written)]

    assert fast == slow
