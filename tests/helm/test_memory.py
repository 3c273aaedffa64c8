"""Request and limit of memory follow from the caps, by the formula of docs/kubernetes.md."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deploy.image import MEMORY_LIMIT_BYTES
from tests.helm.charts import GATEWAY, Engine, container, pod_of, values
from tests.peers.install import TREE

# Settings and values -> request and limit.
AMOUNTS: list[tuple[dict[str, Any], str, str]] = [
    # 10,000 × 48 Ki = 468.75 Mi, 10,000 × 8 Ki = 78.125 Mi
    # 64 + 468.75 + 78.125 + 2 × 256 + 8 × 16.25 = 1252.9; 64 + 1188.9 / 4 = 361.2
    ({}, "362Mi", "1253Mi"),
    ({"settings__journal_total": "64MiB", "settings__journal_session": "64MiB"}, "266Mi", "869Mi"),
    ({"settings__journal_total": 67108864}, "266Mi", "869Mi"),
    ({"settings__max_sessions": 100}, "246Mi", "789Mi"),
    ({"settings__max_body": "1GiB"}, "2378Mi", "9317Mi"),
    ({"settings__write_buffer": "1.25MiB"}, "364Mi", "1261Mi"),
    ({"memory": {"requestPercent": 100}}, "1253Mi", "1253Mi"),
    ({"memory": {"requestPercent": 0}}, "64Mi", "1253Mi"),
    ({"memory": {"processMi": 100, "perSessionKi": 100, "journalFactor": 1.5}}, "493Mi", "1669Mi"),
    ({"memory": {"keptStreams": 1000, "perStreamKi": 10.5}}, "345Mi", "1186Mi"),
    ({"memory": {"busyRequests": 0}}, "329Mi", "1123Mi"),
    # Nothing that a running process takes: it would make a new pod.
    ({"settings__max_tombstones": 4096, "settings__max_streams": 512}, "362Mi", "1253Mi"),
]


@pytest.mark.parametrize(("changed", "request_", "limit"), AMOUNTS, ids=[str(row[0]) for row in AMOUNTS])
def test_memory_follows_from_the_caps(
    changed: dict[str, Any], request_: str, limit: str, helm: Engine
) -> None:
    resources = container(helm.render(values(GATEWAY, **changed)), "epochgate")["resources"]

    assert resources == {"requests": {"cpu": "100m", "memory": request_}, "limits": {"memory": limit}}


def test_the_page_says_what_the_defaults_come_to(helm: Engine) -> None:
    objects = helm.render(values(GATEWAY))
    resources = container(objects, "epochgate")["resources"]
    page = (TREE / "docs" / "kubernetes.md").read_text()

    assert "`terminationGracePeriodSeconds` (45 s)" in page
    assert pod_of(objects)["spec"]["terminationGracePeriodSeconds"] == 45
    assert resources["limits"]["memory"] == f"{MEMORY_LIMIT_BYTES >> 20}Mi" == "1253Mi"
    assert "64 + 469 + 78 + 512 + 130 = 1,253 Mi, and a request of 362 Mi" in page
    little = values(GATEWAY, settings__max_sessions=500, **SMALL)
    assert container(helm.render(little), "epochgate")["resources"]["limits"]["memory"] == "424Mi"
    assert "500 sessions and 64 MiB\nneed 424 Mi at most" in page


SMALL = {"settings__journal_total": "64MiB", "settings__journal_session": "64MiB"}


@pytest.mark.parametrize(
    ("given", "rendered"),
    [
        ({"limits": {"memory": "1Gi"}}, {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}),
        ({"requests": {"memory": "2Gi"}}, {"requests": {"cpu": "100m", "memory": "2Gi"}}),
        (
            {"requests": {"cpu": "100m"}, "limits": None},
            {"requests": {"cpu": "100m", "memory": "362Mi"}, "limits": {"memory": "1253Mi"}},
        ),
        (
            {"limits": {"cpu": 2}},
            {"requests": {"cpu": "100m", "memory": "362Mi"}, "limits": {"cpu": 2, "memory": "1253Mi"}},
        ),
    ],
)
def test_memory_that_is_given_is_taken_as_it_stands(
    given: dict[str, Any], rendered: dict[str, Any], helm: Engine
) -> None:
    assert container(helm.render(values(GATEWAY, resources=given)), "epochgate")["resources"] == rendered
