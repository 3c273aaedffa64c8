"""Every combination of values renders the same with each Helm, and to what Kubernetes takes."""

from __future__ import annotations

import pytest

from tests.conftest import IS_LONG
from tests.helm.charts import (
    CHART,
    CUSTOM,
    GATEWAY,
    NAMES,
    SIDECAR,
    Engine,
    Helm,
    Object,
    Refused,
    ask,
    values,
)
from tests.peers.install import Peers

RELEASES = ("1.30", "1.33")
LEAST = (SIDECAR, GATEWAY)


@pytest.fixture(scope="module")
def rendered(helm: Engine) -> dict[str, list[Object]]:
    """Name of values -> what is made of them."""
    return {name: in_order(helm.render(values(name))) for name in NAMES}


def in_order(objects: list[Object]) -> list[Object]:
    return sorted(objects, key=lambda each: (each["kind"], each["metadata"]["name"]))


@pytest.mark.parametrize("name", NAMES)
def test_each_helm_renders_the_same_for_each_release(
    name: str, helms: tuple[Helm, ...], rendered: dict[str, list[Object]]
) -> None:
    oldest, between, newest = helms
    for each in (oldest, between, newest) if IS_LONG or name in LEAST else (oldest, newest):
        assert in_order(each.render(values(name))) == rendered[name]


def test_a_cluster_that_is_too_old_is_refused(peers: Peers) -> None:
    with pytest.raises(Refused, match=r"chart requires kubeVersion: >=1\.30\.0-0"):
        Helm(peers.kubectl_31 / "helm", "1.29").render(values(SIDECAR))


def test_every_object_is_valid_in_the_oldest_and_the_newest_release(
    peers: Peers, newest: str, rendered: dict[str, list[Object]]
) -> None:
    objects = [each for made in rendered.values() for each in made if each["kind"] not in CUSTOM]

    assert ask(peers, ["validate", *RELEASES, newest], objects) == []


def test_the_schemas_find_a_field_that_is_none(peers: Peers, rendered: dict[str, list[Object]]) -> None:
    (service,) = [each for each in rendered[SIDECAR] if each["kind"] == "Service"]
    wrong = {**service, "spec": {**service["spec"], "tpye": "ClusterIP"}}

    (found,) = ask(peers, ["validate", "1.30"], [wrong])

    assert "'tpye' was unexpected" in found


def test_objects_of_the_prometheus_operator_are_the_same_after_a_round_trip_through_its_types(
    peers: Peers, rendered: dict[str, list[Object]]
) -> None:
    objects = [each for made in rendered.values() for each in made if each["kind"] in CUSTOM]

    assert {each["kind"] for each in objects} == set(CUSTOM)
    assert ask(peers, ["again"], objects) == objects


@pytest.mark.parametrize("name", NAMES if IS_LONG else LEAST)
def test_the_linters_of_helm_3_and_4_have_nothing_against_it(name: str, helms: tuple[Helm, ...]) -> None:
    assert all("0 chart(s) failed" in each.lint(values(name)) for each in helms[:2])


def test_the_linter_of_helms_engine_has_nothing_against_it(peers: Peers) -> None:
    reports = ask(peers, ["lint", str(CHART)], [values(name) for name in NAMES])

    assert reports == [["1 Chart.yaml: icon is recommended"]] * len(NAMES)


def test_a_linter_finds_a_value_of_the_wrong_kind(peers: Peers, helms: tuple[Helm, ...]) -> None:
    wrong = values(SIDECAR, replicaCount="two")

    (report,) = ask(peers, ["lint", str(CHART)], [wrong])

    assert any("replicaCount" in line for line in report)
    with pytest.raises(Refused, match="replicaCount"):
        helms[0].lint(wrong)


def test_the_examples_of_the_chart_itself_are_what_is_required_and_no_more() -> None:
    for name, stem in ((SIDECAR, "sidecar"), (GATEWAY, "gateway")):
        example = (CHART / "ci" / f"{stem}-values.yaml").read_text()
        assert example == (CHART.parents[1] / "tests" / "helm" / "values" / f"{name}.yaml").read_text()
