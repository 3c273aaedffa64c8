"""What cannot be right is refused, each with a sentence that says what would be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from epochgate.loading import BadSettings, load
from tests.helm.charts import GATEWAY, SIDECAR, Engine, Helm, Refused, values

SENTENCES = yaml.safe_load((Path(__file__).parent / "refusals.yaml").read_text())
IDS = [row["sentence"].partition(";")[0][:60] for row in SENTENCES]


@pytest.mark.parametrize("row", SENTENCES, ids=IDS)
def test_what_cannot_be_right_is_refused_in_one_sentence(row: dict[str, Any], helm: Engine) -> None:
    with pytest.raises(Refused) as refused:
        helm.render(values(row["values"], **row["changed"]))

    _, *sentences = str(refused.value).splitlines()
    assert sentences == [row["sentence"]]


def test_all_that_is_wrong_is_told_at_once(helms: tuple[Helm, ...]) -> None:
    with pytest.raises(Refused) as refused:
        helms[0].render(values(GATEWAY, replicaCount=2, ports__admin=8810, admin__exposed=True))

    assert "replicaCount: with state.store memory" in str(refused.value)
    assert "\nports.health: 8810 is ports.admin already" in str(refused.value)
    assert "admin.exposed: without a token" in str(refused.value)


@pytest.mark.parametrize(
    ("store", "state"), [("memory", "memory"), ("sqlite", "sqlite:/a"), ("redis", "redis://a")]
)
def test_a_store_is_taken_when_the_process_takes_it(store: str, state: str, helm: Engine) -> None:
    given = values(GATEWAY, state={"store": store, "redis": {"existingSecret": "a"}})
    try:
        load({"upstream": "http://a:1", "state": state}, {})
    except BadSettings:
        with pytest.raises(Refused, match=f"has no {store}"):
            helm.render(given)
    else:
        assert helm.render(given)


PLACE = {"name": "a", "key": "b"}
EMPTY = """
    settings resources server__lifecycle commonLabels commonAnnotations podLabels podAnnotations annotations
    nodeSelector affinity tolerations extraEnv extraVolumes imagePullSecrets service__annotations
    service__labels securityContext podSecurityContext topologySpreadConstraints
""".split()


@pytest.mark.parametrize(
    "changed",
    [
        {"settings__drain": 35},
        {"settings__drain": "35s"},
        {"server__lifecycle": {"preStop": {"sleep": {"seconds": 35}}}},
        {"settings__upstream": "http://localhost:8000/a"},
        {"settings__upstream": "https://[::1]:8000"},
        {"admin": {"exposed": True, "token": {"existingSecret": "a"}}},
        {"extraEnv": [{"name": "EPOCHGATE_ADMIN_TOKEN", "valueFrom": {"secretKeyRef": PLACE}}]},
        {"extraEnv": [{"name": "EPOCHGATE_HOLD", "valueFrom": {"configMapKeyRef": PLACE}}]},
        {"strategy__rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        {"global": {"registry": "x"}, "enabled": True},
        # What stands in a file without anything behind it.
        dict.fromkeys(EMPTY),
        dict.fromkeys(["probes__startup", "resources__requests", "resources__limits"]),
    ],
)
def test_what_is_right_is_taken(changed: dict[str, Any], helm: Engine) -> None:
    assert helm.render(values(SIDECAR, **changed))


# What the schema of the values refuses, with the place that it names.
SCHEMA: list[tuple[dict[str, Any], str]] = [
    ({"mode": "deamonset"}, "mode"),
    ({"replicas": 2}, "replicas"),
    ({"replicaCount": -1}, "replicaCount"),
    ({"server__image__tag": 1.1}, "server/image/tag"),
    ({"settings__hodl": "5m"}, "hodl"),
    ({"settings__hold": "5 weeks"}, "settings/hold"),
    ({"settings__hold": -1}, "settings/hold"),
    ({"settings__reissue": "sometimes"}, "settings/reissue"),
    ({"settings__listen": ":9000"}, "listen"),
    ({"settings__state": "memory"}, "state"),
    ({"settings__admin_token": "secret"}, "admin_token"),
    ({"settings__tls_key_passphrase": "secret"}, "tls_key_passphrase"),
    ({"settings__upstream_key_passphrase": "secret"}, "upstream_key_passphrase"),
    ({"state__store": "postgres"}, "state/store"),
    ({"ports__traffic": 70000}, "ports/traffic"),
    ({"image__digest": "sha256:12"}, "image/digest"),
    ({"sessionAffinity": "cookie"}, "sessionAffinity"),
    ({"service__publishNotReadyAddresses": "maybe"}, "service/publishNotReadyAddresses"),
    ({"tests__path": "mcp"}, "tests/path"),
    ({"bindAddresses": []}, "bindAddresses"),
]


@pytest.mark.parametrize(("changed", "place"), SCHEMA, ids=[place for _, place in SCHEMA])
def test_the_schema_refuses_what_is_no_value(changed: dict[str, Any], place: str, helm: Engine) -> None:
    with pytest.raises(Refused, match="the specifications of the schema") as refused:
        helm.render(values(SIDECAR, **changed))

    assert place in str(refused.value)


def test_each_helm_goes_by_the_schema(helms: tuple[Helm, ...]) -> None:
    for helm in helms[:2]:
        with pytest.raises(Refused, match=r"settings.hold") as refused:
            helm.render(values(SIDECAR, settings={"hold": "5 weeks", "hodl": 1}))
        assert "hodl" in str(refused.value)
