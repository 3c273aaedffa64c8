"""What rules, dashboard and runbook name is there: sections, metrics, labels, and values of closed sets."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from epochgate.observe.metrics import METRICS, Kind, Metric
from epochgate.settings import Settings
from tests.deploy.prometheus.reading import ROOT, RUNBOOK, Selector, alerts, rules, selectors, targets

FROM_OUTSIDE = {"namespace", "pod", "job", "kubectl describe pod"}
TARGET = {"namespace", "job", "pod", "instance"}  # labels that Prometheus gives each series of a target
OWN = {metric.full_name: metric for metric in METRICS}
OTHERS = {"up", "ALERTS"}
PARTS = {
    f"{metric.full_name}_{part}": metric
    for metric in METRICS
    if metric.kind is Kind.HISTOGRAM
    for part in ("bucket", "sum", "count")
}
RECORDED = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}


def named() -> Iterator[tuple[str, Selector]]:
    """Every selector of every place, with where it stands."""
    for rule in rules():
        for selector in selectors(rule["expr"]):
            yield rule.get("alert") or rule["record"], selector
    for where, target in targets():
        for selector in selectors(target["expr"]):
            yield where, selector
    for text in re.findall(r"`((?:epochgate|process)_\w+(?:\{[^}]*\})?)`", RUNBOOK.read_text()):
        for selector in selectors(text):
            yield "runbook", selector


each_name = pytest.mark.parametrize(
    ("where", "selector"),
    [pytest.param(*one, id=f"{one[0]}-{one[1].metric}") for one in dict.fromkeys(named())],
)


def process_metrics() -> set[str]:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return {sample.name for family in registry.collect() for sample in family.samples}


@each_name
def test_each_metric_that_is_named_is_there(where: str, selector: Selector) -> None:
    assert selector.metric in OWN | PARTS | RECORDED or selector.metric in OTHERS | process_metrics()


@each_name
def test_each_label_that_is_matched_is_there_and_has_that_value(where: str, selector: Selector) -> None:
    metric = _behind(selector.metric)
    for label, values in selector.matchers:
        if metric is None or label in TARGET:
            assert label in TARGET | {"alertname", "alertstate", "severity"}
            continue
        at = metric.labels.index(label)
        assert set(values) <= {series[at] for series in metric.series}


def _behind(name: str) -> Metric | None:
    """The metric of ours that a name stands for; None for those of others."""
    if name in RECORDED:
        first = selectors(RECORDED[name])[0].metric
        return _behind(first)
    return OWN.get(name) or PARTS.get(name)


def test_each_alert_has_a_section_in_the_runbook_and_each_section_an_alert() -> None:
    sections = re.findall(r"(?m)^## (.+)$", RUNBOOK.read_text())
    assert sorted(sections) == sorted(rule["alert"] for rule in alerts())


def test_each_section_answers_the_same_questions() -> None:
    for section in RUNBOOK.read_text().split("\n## ")[1:]:
        answered = re.findall(r"(?m)^- \*\*(.+?)\*\*", section)
        assert answered == ["It means", "Users saw", "Look", "Do", "Silence"], section.splitlines()[0]


def test_each_term_of_the_runbook_is_one_of_the_proxys() -> None:
    """Settings, reasons, states and log lines; those of metrics are looked at above."""
    source = "".join(path.read_text() for path in (ROOT / "proxy").rglob("*.py"))
    said = {text for pair in re.findall(r'"([^"\n]+)"|\b(\w+)=', source) for text in pair}
    spaced = {metric.name.replace("_", " ") for metric in METRICS}
    known = said | spaced | set(Settings.model_fields) | FROM_OUTSIDE
    labels = {label for metric in METRICS for label in metric.labels}
    for term in re.findall(r"`([a-z][a-z_ ]+)`", RUNBOOK.read_text()):
        assert term in known | labels or term.startswith(("epochgate_", "process_")), term
