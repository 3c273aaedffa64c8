"""What of the values ends up where."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from epochgate import __version__
from epochgate.loading import load
from tests.helm.charts import (
    CHART,
    CUSTOM,
    GATEWAY,
    NAMES,
    SIDECAR,
    Engine,
    ask,
    container,
    one,
    pod_of,
    values,
)
from tests.helm.semantics import problems
from tests.peers.install import TREE, Peers


def kinds(objects: list[dict[str, Any]]) -> set[str]:
    return {each["kind"] for each in objects}


def test_chart_and_package_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_what_is_required_makes_these_objects(helm: Engine) -> None:
    least = {"Deployment", "Service", "ConfigMap", "ServiceAccount", "Pod"}

    assert kinds(helm.render(values(SIDECAR))) == least
    assert kinds(helm.render(values(GATEWAY))) == least | {"PodDisruptionBudget"}


def test_every_kind_of_object_is_in_some_combination(helm: Engine) -> None:
    every = set().union(*(kinds(helm.render(values(name))) for name in NAMES))

    assert every == {
        *CUSTOM, "ConfigMap", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "Pod",
        "PodDisruptionBudget", "Service", "ServiceAccount",
    }  # fmt: skip


def test_a_sidecar_is_native_and_starts_before_the_server(helm: Engine) -> None:
    spec = pod_of(helm.render(values(SIDECAR)))["spec"]
    (sidecar,) = spec["initContainers"]
    (server,) = spec["containers"]

    assert (sidecar["name"], sidecar["restartPolicy"], sidecar["args"]) == ("epochgate", "Always", ["run"])
    assert sidecar["image"] == f"epochgate:{__version__}"
    assert (server["name"], server["image"]) == ("server", "registry.example/ledger:2.4")
    assert {
        name: sidecar[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")
    } == {
        "startupProbe": {"path": "/startupz", "port": 8810},
        "livenessProbe": {"path": "/livez", "port": 8810},
        "readinessProbe": {"path": "/readyz", "port": 8810},
    }


def test_other_init_containers_run_before_the_sidecar(helm: Engine) -> None:
    spec = pod_of(helm.render(values("sidecar-everything")))["spec"]

    assert [each["name"] for each in spec["initContainers"]] == ["migrate", "epochgate"]
    assert [each["name"] for each in spec["containers"]] == ["server", "worker"]


@pytest.mark.parametrize(
    ("name", "changed", "is_published"),
    [
        (SIDECAR, {}, True),
        (GATEWAY, {}, False),
        ("sidecar-many-by-address", {}, False),
        (SIDECAR, {"service__publishNotReadyAddresses": False}, False),
        (GATEWAY, {"service__publishNotReadyAddresses": True}, True),
    ],
)
def test_a_single_sidecar_is_reached_while_its_server_restarts(
    name: str, changed: dict[str, Any], is_published: bool, helm: Engine
) -> None:
    service = one(helm.render(values(name, **changed)), "Service", "-epochgate")

    assert service["spec"]["publishNotReadyAddresses"] is is_published


def test_the_service_keeps_a_clients_address_with_its_pod(helm: Engine) -> None:
    spec = one(helm.render(values("sidecar-many-by-address")), "Service", "-epochgate")["spec"]

    assert spec["sessionAffinity"] == "ClientIP"
    assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 3600}}


def test_a_gateway_may_lose_one_pod_at_a_time_and_any_that_is_not_ready(helm: Engine) -> None:
    spec = one(helm.render(values(GATEWAY)), "PodDisruptionBudget")["spec"]

    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


def test_pods_are_spread_over_nodes_and_zones(helm: Engine) -> None:
    constraints = pod_of(helm.render(values(GATEWAY)))["spec"]["topologySpreadConstraints"]

    assert [each["topologyKey"] for each in constraints] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    assert {each["whenUnsatisfiable"] for each in constraints} == {"ScheduleAnyway"}


def test_the_policy_closes_the_servers_port_and_opens_those_of_epochgate(helm: Engine) -> None:
    closed = one(helm.render(values("sidecar-many-by-address")), "NetworkPolicy")["spec"]
    some = one(helm.render(values("sidecar-everything")), "NetworkPolicy")["spec"]

    assert closed["policyTypes"] == ["Ingress"]
    assert closed["ingress"] == [
        {"ports": [{"port": 8808, "protocol": "TCP"}]},
        {"ports": [{"port": 8810, "protocol": "TCP"}]},
    ]
    assert some["policyTypes"] == ["Ingress", "Egress"]
    assert [rule["ports"][0]["port"] for rule in some["ingress"]] == [8808, 8810, 8809]
    test = {"app.kubernetes.io/name": "epochgate-test", "app.kubernetes.io/instance": "ledger"}
    assert some["ingress"][0]["from"][1] == {"podSelector": {"matchLabels": test}}


def test_no_pod_gets_a_token_or_the_variables_of_every_service(helm: Engine) -> None:
    objects = helm.render(values(SIDECAR))
    specs = [pod_of(objects)["spec"], one(objects, "Pod")["spec"]]

    assert one(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    assert [spec["automountServiceAccountToken"] for spec in specs] == [False, False]
    assert [spec["enableServiceLinks"] for spec in specs] == [False, False]


def test_no_secret_is_made_and_none_stands_in_the_settings(helm: Engine) -> None:
    objects = helm.render(values("sidecar-everything"))
    gate = container(objects, "epochgate")

    assert "Secret" not in kinds(objects)
    assert {each["name"]: each["value"] for each in gate["env"] if "FILE" in each["name"]} == {
        "EPOCHGATE_ADMIN_TOKEN_FILE": "/etc/epochgate-secrets/admin/value",
        "EPOCHGATE_TLS_KEY_PASSPHRASE_FILE": "/etc/epochgate-secrets/tls-passphrase/passphrase",
        "EPOCHGATE_UPSTREAM_KEY_PASSPHRASE_FILE": "/etc/epochgate-secrets/upstream-passphrase/word",
    }


def test_the_url_of_a_shared_store_comes_from_its_secret(helm: Engine) -> None:
    env = container(helm.render(values("gateway-many")), "epochgate")["env"]

    assert env[-1] == {
        "name": "EPOCHGATE_STATE",
        "valueFrom": {"secretKeyRef": {"name": "sessions", "key": "url"}},
    }


def test_a_file_of_sessions_is_on_an_empty_dir(helm: Engine) -> None:
    objects = helm.render(values("sidecar-many-by-ingress"))
    gate = container(objects, "epochgate")

    assert {"name": "EPOCHGATE_STATE", "value": "sqlite:/data/sessions/state.db"} in gate["env"]
    assert {"name": "epochgate-state", "mountPath": "/data/sessions"} in gate["volumeMounts"]
    assert {"name": "epochgate-state", "emptyDir": {"sizeLimit": "2Gi"}} in pod_of(objects)["spec"]["volumes"]


def test_listeners_bind_to_each_address(helm: Engine) -> None:
    env = {
        each["name"]: each["value"]
        for each in container(helm.render(values("gateway-dual-stack")), "epochgate")["env"]
    }

    assert env["EPOCHGATE_LISTEN"] == "0.0.0.0:18808,[::]:18808"
    assert env["EPOCHGATE_HEALTH"] == "0.0.0.0:18810,[::]:18810"
    assert env["EPOCHGATE_ADMIN"] == "127.0.0.1:18809"


def test_settings_reach_the_process_as_they_were_given(helm: Engine, tmp_path: Any) -> None:
    given = values("gateway-settings")["settings"]
    file = tmp_path / "config.yaml"
    file.write_text(one(helm.render(values("gateway-settings")), "ConfigMap")["data"]["config.yaml"])

    settings = load({"config": str(file)}, {})

    assert settings.never_reissue == frozenset(given["never_reissue"])
    assert settings.gone_pattern == 'session|expired: "[0-9]+"'
    assert (settings.journal_total, settings.max_sessions) == (536870912, 1000000)
    assert (settings.drain, settings.drain_delay, settings.connect) == (1.5, 0.5, 0.25)
    assert (settings.access_log.value, settings.advertise_epoch) == ("off", True)


def test_rules_and_dashboard_are_the_files_of_the_chart(helm: Engine) -> None:
    objects = helm.render(values("gateway-watched"))
    rules = one(objects, "PrometheusRule")
    dashboard = one(objects, "ConfigMap", "-dashboard")
    wanted = yaml.safe_load((CHART / "files" / "rules.yaml").read_text())["groups"]
    for group in wanted:
        for rule in group["rules"]:
            if "alert" in rule:
                rule["labels"] = {**rule.get("labels", {}), "team": "ledgers"}

    assert rules["spec"] == {"groups": wanted}
    assert rules["metadata"]["labels"]["release"] == "prometheus"
    shown = json.loads(dashboard["data"]["epochgate.json"])
    assert shown == json.loads((CHART / "files" / "dashboard.json").read_text())
    assert dashboard["metadata"]["namespace"] == "monitoring"
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard["metadata"]["annotations"] == {"grafana_folder": "MCP"}


def test_labels_and_annotations_of_all_objects(helm: Engine) -> None:
    for each in helm.render(values("sidecar-everything")):
        if not each["metadata"]["name"].endswith("-more"):
            assert each["metadata"]["labels"]["team"] == "ledgers"
            assert each["metadata"]["annotations"]["example.com/owner"] == "ledgers"


def test_no_label_that_is_given_changes_what_selectors_go_by(helm: Engine) -> None:
    given = {"app.kubernetes.io/name": "other", "app.kubernetes.io/version": "9", "tier": "tools"}
    objects = helm.render(values(SIDECAR, commonLabels=given, podLabels={**given, "tier": "pods"}))

    assert problems(objects) == []
    assert pod_of(objects)["metadata"]["labels"]["tier"] == "pods"
    assert one(objects, "Service")["metadata"]["labels"]["app.kubernetes.io/name"] == "epochgate"


def test_further_objects_are_templates(helm: Engine) -> None:
    more = one(helm.render(values("sidecar-everything")), "ConfigMap", "-more")

    assert (more["metadata"]["name"], more["data"]) == ("ledger-epochgate-more", {"release": "ledger"})


def test_the_schema_of_the_settings_takes_what_the_process_takes(peers: Peers) -> None:
    right: list[Any] = [
        {},
        values("gateway-settings")["settings"],
        {"health": False, "listen": [":1", "unix:/a"]},
    ]
    right += [
        {name: value}
        for name, value in load({"upstream": "http://a:1"}, {}).effective().items()
        if name not in SECRET
    ]
    wrong: list[Any] = [
        {"hodl": 1},
        {"hold": "5 weeks"},
        {"max_body": 0},
        {"admin_token": "x"},
        {"stamp": "maybe"},
        [],
    ]
    schema = str(TREE / "config" / "settings.schema.json")

    found = ask(peers, ["schema", schema], [*right, *wrong])

    assert found[: len(right)] == [""] * len(right)
    assert all(found[len(right) :])


SECRET = ("admin_token", "tls_key_passphrase", "upstream_key_passphrase")
