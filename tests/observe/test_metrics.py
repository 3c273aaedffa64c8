"""A fresh page holds every series that the tables can name, each at 0, and the table is the docs' own."""

from __future__ import annotations

import platform
from itertools import product

import pytest
from prometheus_client import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from epochgate import __version__
from epochgate.core.era import KNOWN_METHODS, TrafficClass
from epochgate.core.states import SessionState, Up
from epochgate.core.verdict import ANSWER_TABLE, BREAK_TABLE, MESSAGE_TABLE, RESUME_LABELS, Verdict
from epochgate.observe.metrics import METRICS, Kind, Metrics, status_label

_BUILD = frozenset({("python", platform.python_version()), ("version", __version__)})


def _families(metrics: Metrics) -> dict[str, Family]:
    page = metrics.page().decode()
    return {family.name: family for family in text_string_to_metric_families(page)}


def _series(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """Values by label values, in the order of the table's label names."""
    labels = {metric.name: metric.labels for metric in METRICS}[name]
    samples = _families(metrics)[f"epochgate_{name}"].samples
    plain = [sample for sample in samples if not sample.name.endswith(("_bucket", "_sum"))]
    return {tuple(sample.labels[label] for label in labels): sample.value for sample in plain}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_fresh_page_has_exactly_the_series_of_the_table_at_0(metric: object) -> None:
    row = next(row for row in METRICS if row is metric)
    found = _series(Metrics(), row.name)
    assert found.keys() == set(row.series)
    if row.name != "build_info":
        assert set(found.values()) == {0}


def test_a_fresh_page_has_nothing_but_the_table_and_the_process() -> None:
    names = {name for name in _families(Metrics()) if not name.startswith("process_")}
    assert names == {f"epochgate_{metric.name}" for metric in METRICS}


def test_every_verdict_that_the_judge_can_reach_has_a_series() -> None:
    found = set(_series(Metrics(), "resumes"))
    assert found == RESUME_LABELS
    for row in (*MESSAGE_TABLE, *ANSWER_TABLE, *BREAK_TABLE):
        if row.ruling.verdict in (Verdict.RESTART, Verdict.FAIL, Verdict.PASS):
            for stream in ("request", "standalone"):
                assert ("upstream", stream, row.ruling.verdict.value, row.ruling.reason) in found


def test_every_reason_to_drop_has_a_series() -> None:
    found = {reason for (reason,) in _series(Metrics(), "dropped_messages")}
    assert found == {"foreign", "late", "duplicate", "unproven", "stale_answer"}


def test_heals_and_reissues_have_every_pair() -> None:
    triggers = "session_gone epoch_mismatch session_replaced id_reset stream_restart question_void".split()
    outcomes = "healed incompatible parked lost".split()
    assert set(_series(Metrics(), "heals")) == set(product(triggers, outcomes))
    reissued = set(_series(Metrics(), "reissues"))
    for method in KNOWN_METHODS:
        if not method.startswith("notifications/"):
            assert {(method, outcome) for outcome in ("sent", "withheld", "exhausted")} <= reissued


def test_every_state_of_the_machines_has_a_series() -> None:
    assert set(_series(Metrics(), "sessions")) == {(state.value,) for state in SessionState}
    kinds = ("request", "standalone")
    assert set(_series(Metrics(), "streams")) == set(product(kinds, [state.value for state in Up]))


def test_every_class_meets_every_method() -> None:
    words = {"GET", "DELETE", "batch", "response", "other"}
    pairs = {(traffic.value, method) for traffic in TrafficClass for method in KNOWN_METHODS | words}
    assert set(_series(Metrics(), "request_duration_seconds")) == pairs
    assert {labels[:2] for labels in _series(Metrics(), "requests")} == pairs


def test_buckets_reach_the_length_of_the_work() -> None:
    reach = {
        metric.name: (metric.buckets[0], metric.buckets[-1])
        for metric in METRICS
        if metric.kind is Kind.HISTOGRAM
    }
    assert reach == {
        "heal_duration_seconds": (0.01, 120),
        "discarded_work_seconds": (0.005, 3600),
        "request_duration_seconds": (0.005, 3600),
    }


def test_the_build_is_told() -> None:
    samples = _families(Metrics())["epochgate_build_info"].samples
    assert [(frozenset(sample.labels.items()), sample.value) for sample in samples] == [(_BUILD, 1)]


def test_populations_are_read_at_the_scrape() -> None:
    metrics = Metrics()
    counted: dict[tuple[str, ...], int] = {("sessions", "live"): 1}
    metrics.watch_populations(lambda: counted)
    metrics.refresh()
    assert _series(metrics, "sessions")["live",] == 1
    assert _series(metrics, "sessions")["opening",] == 0
    counted.clear()
    metrics.refresh()
    assert set(_series(metrics, "sessions").values()) == {0}


def test_the_journal_is_read_at_the_scrape() -> None:
    metrics = Metrics()
    metrics.watch_journal(lambda: 4096)
    assert _series(metrics, "journal_bytes") == {(): 4096}


@pytest.mark.parametrize(
    ("status", "label"),
    [(200, "200"), (404, "404"), (299, "2xx"), (599, "5xx"), (999, "9xx"), (None, "none")],
)
def test_statuses_are_a_closed_set(status: int | None, label: str) -> None:
    assert status_label(status) == label


def test_a_counter_is_summed_up_by_one_of_its_labels() -> None:
    metrics = Metrics()
    metrics.counter("heals", "session_gone", "healed").inc()
    metrics.counter("heals", "epoch_mismatch", "healed").inc(2)
    metrics.counter("heals", "epoch_mismatch", "lost").inc()
    metrics.counter("epoch_drift").inc(3)
    assert metrics.totals("heals", "outcome") == {"healed": 3, "incompatible": 0, "lost": 1, "parked": 0}
    assert metrics.totals("epoch_drift", "") == {"": 3}
