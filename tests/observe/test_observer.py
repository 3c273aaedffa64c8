"""Every fact moves its series and says its line; nothing else does."""

from __future__ import annotations

import time
from typing import get_args

import pytest
import structlog
from structlog.testing import CapturedCall, CapturingLogger

from epochgate.core.commands import (
    Counted,
    Discarded,
    Drifted,
    Dropped,
    Fact,
    HealBegun,
    HealEnded,
    Judged,
    Reissued,
    Relayed,
    UpstreamFailed,
)
from epochgate.observe.metrics import Metrics
from epochgate.observe.observer import Observer
from epochgate.settings import AccessLog


def _observer(access: AccessLog = AccessLog.NOTABLE) -> tuple[Observer, list[CapturedCall]]:
    """An observer, and the lines of level info and above that it says."""
    capturing = CapturingLogger()
    log = structlog.wrap_logger(
        capturing, processors=[], wrapper_class=structlog.make_filtering_bound_logger("info")
    )
    return Observer(Metrics(), log, access), capturing.calls


def _moved(observer: Observer) -> dict[str, float]:
    observer.metrics.refresh()
    page = observer.metrics.page().decode().splitlines()
    values = (
        line.rpartition(" ") for line in page if line.startswith("epochgate_") and "_bucket" not in line
    )
    return {
        name.removeprefix("epochgate_"): float(value)
        for name, _, value in values
        if float(value) and not name.startswith("epochgate_build_info")
    }


CASES: list[tuple[Fact, dict[str, float], str | None]] = [
    (Relayed(3), {"relayed_events_total": 3}, None),
    (
        Judged("upstream", "request", "restart", "epoch_mismatch"),
        {'resumes_total{leg="upstream",reason="epoch_mismatch",stream="request",verdict="restart"}': 1},
        "warning",
    ),
    (
        Judged("upstream", "request", "resume", "epoch_match"),
        {'resumes_total{leg="upstream",reason="epoch_match",stream="request",verdict="resume"}': 1},
        "info",
    ),
    (Dropped("foreign"), {'dropped_messages_total{reason="foreign"}': 1}, None),
    (HealBegun("session_gone", 2), {}, "info"),
    (
        HealEnded("session_gone", "healed", 2, 1.5),
        {
            'heals_total{outcome="healed",trigger="session_gone"}': 1,
            "heal_duration_seconds_count": 1,
            "heal_duration_seconds_sum": 1.5,
        },
        "warning",
    ),
    (
        Reissued("tools/call", "sent", "outcome_unknown"),
        {'reissues_total{method="tools/call",outcome="sent"}': 1},
        "warning",
    ),
    (
        Reissued("x/made-up", "withheld", "destructive"),
        {'reissues_total{method="other",outcome="withheld"}': 1},
        "warning",
    ),
    (
        Discarded(50, 2.0),
        {
            "discarded_events_total": 50,
            "discarded_work_seconds_count": 1,
            "discarded_work_seconds_sum": 2,
        },
        "warning",
    ),
    (Drifted(2), {"epoch_drift_total": 1}, "warning"),
    (Counted("affinity_faults"), {"affinity_faults_total": 1}, "warning"),
    (Counted("unproven_polls"), {"unproven_polls_total": 1}, "info"),
    (Counted("standalone_gaps"), {"standalone_gaps_total": 1}, "info"),
    (Counted("unknown_cursors"), {"unknown_cursors_total": 1}, "info"),
    (Counted("journal_evictions"), {"journal_evictions_total": 1}, None),
    (UpstreamFailed("reset"), {'upstream_errors_total{kind="reset"}': 1}, "info"),
]


@pytest.mark.parametrize(("fact", "moved", "level"), CASES, ids=lambda value: type(value).__name__)
def test_a_fact_moves_its_series_and_says_its_line(
    fact: Fact, moved: dict[str, float], level: str | None
) -> None:
    observer, lines = _observer()
    observer.saw("0123abcd", fact)
    assert _moved(observer) == moved
    assert [line.method_name for line in lines] == ([] if level is None else [level])


def test_every_kind_of_fact_is_among_the_cases() -> None:
    assert {type(fact) for fact, _, _ in CASES} == set(get_args(Fact))


def test_lines_about_a_session_name_it() -> None:
    observer, lines = _observer()
    for fact, _, _ in CASES:
        observer.saw("0123abcd", fact)
    assert {line.kwargs["session"] for line in lines} == {"0123abcd"}


@pytest.mark.parametrize(
    ("access", "status", "verdicts", "is_logged"),
    [
        (AccessLog.ALL, 200, (), True),
        (AccessLog.NOTABLE, 200, (), False),
        (AccessLog.NOTABLE, 202, (), False),
        (AccessLog.NOTABLE, 404, (), True),
        (AccessLog.NOTABLE, None, (), True),
        (AccessLog.NOTABLE, 200, ("restart epoch_mismatch",), True),
        (AccessLog.OFF, 500, ("restart epoch_mismatch",), False),
    ],
)
def test_an_exchange_has_a_line_if_there_is_something_to_say(
    access: AccessLog, status: int | None, verdicts: tuple[str, ...], is_logged: bool
) -> None:
    observer, lines = _observer(access)
    observer.request_ended("session", "tools/call", status, 0.25, "0123abcd", verdicts)
    assert len(lines) == is_logged
    label = "none" if status is None else status
    assert _moved(observer) == {
        f'requests_total{{class="session",method="tools/call",status="{label}"}}': 1,
        'request_duration_seconds_count{class="session",method="tools/call"}': 1,
        'request_duration_seconds_sum{class="session",method="tools/call"}': 0.25,
    }


@pytest.mark.parametrize(
    ("access", "asked"), [(AccessLog.ALL, 1), (AccessLog.NOTABLE, 0), (AccessLog.OFF, 0)]
)
def test_ids_are_asked_for_only_where_a_line_is_written(access: AccessLog, asked: int) -> None:
    observer, lines = _observer(access)
    questions = []

    def ids() -> dict[str, list[str]]:
        questions.append(1)
        return {"ids": ["7"], "stamps": ["10000000000007"]}

    observer.request_ended("session", "tools/call", 200, 0.25, "0123abcd", (), ids)
    assert len(questions) == asked
    shown = [(line.kwargs["ids"], line.kwargs["stamps"]) for line in lines]
    assert shown == [(["7"], ["10000000000007"])] * asked


def test_a_method_that_nobody_knows_is_other() -> None:
    observer, _ = _observer()
    observer.request_ended("plain", "x/made-up", 200, 0.0)
    assert _moved(observer)['requests_total{class="plain",method="other",status="200"}'] == 1


@pytest.mark.parametrize(("kind", "is_logged"), [("failed", True), ("timeout", True), ("not_begun", False)])
def test_a_client_that_fails_to_begin_tls_has_a_line_unless_it_asked_for_none(
    kind: str, is_logged: bool
) -> None:
    observer, lines = _observer()
    observer.handshake_failed(kind, "http request")
    assert [line.kwargs["reason"] for line in lines] == ["http request"] * is_logged
    assert _moved(observer) == {f'tls_handshake_failures_total{{kind="{kind}"}}': 1}


def test_a_relayed_fact_costs_next_to_nothing() -> None:
    observer, _ = _observer()
    fact = Relayed(1)
    rounds, best_s = 2_000, 1.0
    for _ in range(20):
        begun = time.perf_counter()
        for _ in range(rounds):
            observer.saw("0123abcd", fact)
        best_s = min(best_s, (time.perf_counter() - begun) / rounds)
    # 0.5 us on the machine this was written on; the bound leaves room for a slower one.
    assert best_s < 5e-6
