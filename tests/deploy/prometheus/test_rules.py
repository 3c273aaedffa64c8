"""The rules are sound, and each alert fires when it should and not when it should not."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from tests.deploy.prometheus.reading import RULES, Json, alerts, rules, selectors, targets
from tests.peers.install import Peers

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*.test.yaml"))
LEVELS = {"instance", *(f"instance_{labels}" for labels in ("leg_verdict_reason", "trigger_outcome"))}
LEVELS |= {"instance_outcome", "instance_reason"}

each_alert = pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])


def promtool(peers: Peers, *words: str | Path) -> str:
    """What it says; fails with that if it finds fault."""
    done = subprocess.run([peers.promtool, *words], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_the_rules(peers: Peers) -> None:
    assert f"SUCCESS: {len(rules())} rules found" in promtool(peers, "check", "rules", RULES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.partition(".")[0])
def test_the_alerts_fire_when_they_should(peers: Peers, case: Path) -> None:
    assert "SUCCESS" in promtool(peers, "test", "rules", case)


@each_alert
def test_each_alert_is_seen_firing_and_silent(rule: Json) -> None:
    assert rule["alert"] in expected_in("texts.test.yaml"), "what it says is not shown"
    assert rule["alert"] in expected_in("events.test.yaml") | expected_in("states.test.yaml")


def expected_in(name: str) -> set[str]:
    """The alerts that a file of tests expects."""
    return set(re.findall(r"\bEpochgate\w+", (HERE / name).read_text()))


@each_alert
def test_each_alert_tells_what_an_operator_has_to_know(rule: Json) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"


def test_what_is_recorded_is_named_by_level_metric_and_operations_and_used() -> None:
    recorded = [rule["record"] for rule in rules() if "record" in rule]
    expressions = [rule["expr"] for rule in rules()] + [target["expr"] for _, target in targets()]
    used = {one.metric for expression in expressions for one in selectors(expression)}

    assert {name.split(":")[0] for name in recorded} == LEVELS
    assert all(len(name.split(":")) == 3 for name in recorded)
    assert set(recorded) == {name for name in used if ":" in name}


def test_no_alert_asks_how_a_counter_grew_without_the_processes_that_are_new() -> None:
    """Whatever is counted before a process's first scrape, `increase` and `rate` alone do not see."""
    for rule in alerts():
        assert re.findall(r"\b(increase|rate|delta)\(", rule["expr"]) == []
    for rule in rules():
        name, expression = rule.get("record", ""), rule["expr"]
        if "increase(" in expression:
            (metric,) = set(re.findall(r"increase\((\w+)\[15m\]\)", expression))
            assert name.endswith(f":{metric.removesuffix('_total')}:increase15m")
            assert re.search(
                rf"\({metric} and (ignoring \([\w, ]+\) )?instance:process_age_seconds:below15m\)\s+"
                rf"> increase\({metric}\[15m\]\)\s+or increase\({metric}\[15m\]\)",
                expression,
            )


def test_the_cases_are_run_with_the_rules_that_are_shipped() -> None:
    assert len(CASES) == 3
    for case in CASES:
        (named,) = yaml.safe_load(case.read_text())["rule_files"]
        assert (HERE / named).resolve() == RULES
