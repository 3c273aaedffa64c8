"""Request and limit of memory follow from the caps, by the formula of docs/kubernetes.md."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helm.charts import GATEWAY, Engine, container, values

# Settings and values -> request and limit. 10,000 sessions of 48 Ki are 468.75 Mi.
AMOUNTS: list[tuple[dict[str, Any], str, str]] = [
    # 64 + 468.75 + 2 × 256 + 8 × 16.25 = 1174.75; 64 + 1110.75 / 4 = 341.7
    ({}, "342Mi", "1175Mi"),
    ({"settings__journal_total": "64MiB", "settings__journal_session": "64MiB"}, "246Mi", "791Mi"),
    ({"settings__journal_total": 67108864}, "246Mi", "791Mi"),
    ({"settings__max_sessions": 100}, "226Mi", "711Mi"),
    ({"settings__max_body": "1GiB"}, "2358Mi", "9239Mi"),
    ({"settings__write_buffer": "1.25MiB"}, "344Mi", "1183Mi"),
    ({"memory": {"requestPercent": 100}}, "1175Mi", "1175Mi"),
    ({"memory": {"requestPercent": 0}}, "64Mi", "1175Mi"),
    (
        {"memory": {"processMi": 100, "perSessionKi": 100, "journalFactor": 1.5, "busyRequests": 0}},
        "441Mi",
        "1461Mi",
    ),
    # Nothing that a running process takes: it would make a new pod.
    ({"settings__max_tombstones": 4096, "settings__max_streams": 512}, "342Mi", "1175Mi"),
]


@pytest.mark.parametrize(("changed", "request_", "limit"), AMOUNTS, ids=[str(row[0]) for row in AMOUNTS])
def test_memory_follows_from_the_caps(
    changed: dict[str, Any], request_: str, limit: str, helm: Engine
) -> None:
    resources = container(helm.render(values(GATEWAY, **changed)), "epochgate")["resources"]

    assert resources == {"requests": {"cpu": "100m", "memory": request_}, "limits": {"memory": limit}}


@pytest.mark.parametrize(
    ("given", "rendered"),
    [
        ({"limits": {"memory": "1Gi"}}, {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}),
        ({"requests": {"memory": "2Gi"}}, {"requests": {"cpu": "100m", "memory": "2Gi"}}),
        (
            {"limits": {"cpu": 2}},
            {"requests": {"cpu": "100m", "memory": "342Mi"}, "limits": {"cpu": 2, "memory": "1175Mi"}},
        ),
    ],
)
def test_memory_that_is_given_is_taken_as_it_stands(
    given: dict[str, Any], rendered: dict[str, Any], helm: Engine
) -> None:
    assert container(helm.render(values(GATEWAY, resources=given)), "epochgate")["resources"] == rendered
