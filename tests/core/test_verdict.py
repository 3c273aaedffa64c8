"""The judge: its tables are total, every row decides something, and their order is the stated one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from epochgate.core import axes, verdict
from epochgate.core.axes import AnswerEvidence, BreakEvidence, CursorEvidence, Evidence, MessageEvidence
from epochgate.core.verdict import OUTSIDE, RESUME_LABELS, Row, Scope, Verdict, judge
from tests.core.verdict_cases import CASES, Case

TABLES: dict[type[Any], tuple[Row, ...]] = {
    MessageEvidence: verdict.MESSAGE_TABLE,
    AnswerEvidence: verdict.ANSWER_TABLE,
    BreakEvidence: verdict.BREAK_TABLE,
    CursorEvidence: verdict.CURSOR_TABLE,
}
KINDS = pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)


def combinations(kind: type[Any]) -> Iterator[Evidence]:
    of_kind = axes.axes(kind)
    for values in itertools.product(*of_kind.values()):
        yield kind(**dict(zip(of_kind, values, strict=True)))


def first_fit(evidence: Evidence) -> int:
    table = TABLES[type(evidence)]
    return next(at for at, row in enumerate(table) if row.fits(evidence))


@KINDS
def test_every_combination_has_a_ruling(kind: type[Any]) -> None:
    for evidence in combinations(kind):
        assert judge(evidence) is TABLES[kind][first_fit(evidence)].ruling


@KINDS
def test_every_row_decides_something(kind: type[Any]) -> None:
    deciding = {first_fit(evidence) for evidence in combinations(kind)}

    assert deciding == set(range(len(TABLES[kind])))


@KINDS
def test_every_axis_of_a_row_is_an_axis_of_its_evidence(kind: type[Any]) -> None:
    of_kind = axes.axes(kind)
    for row in TABLES[kind]:
        for name, values in row.when.items():
            assert set(values) < set(of_kind[name])  # a row that names them all says nothing by it


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.ruling.reason}: {case.name}")
def test_the_evidence_amounts_to(case: Case) -> None:
    assert judge(case.evidence) == case.ruling


def test_a_restart_always_says_how_far_it_reaches() -> None:
    for table in TABLES.values():
        for row in table:
            if row.ruling.verdict is Verdict.RESTART:
                assert row.ruling.scope is not Scope.NONE, row


def test_the_session_is_lost_only_by_what_proves_it() -> None:
    """404, mismatch, replaced, id reset; everything else is about one stream (R21)."""
    reasons = {
        row.ruling.reason
        for table in TABLES.values()
        for row in table
        if row.ruling.verdict is Verdict.RESTART and row.ruling.scope is Scope.SESSION
    }

    assert reasons == {
        "epoch_mismatch",
        "event_id_reset",
        "request_id_reset",
        "session_gone",
        "session_replaced",
    }


def test_a_message_of_another_epoch_is_never_relayed_but_as_drift() -> None:
    for evidence in combinations(MessageEvidence):
        assert isinstance(evidence, MessageEvidence)
        if evidence.epoch is not axes.Match.DIFFERENT or evidence.size is not axes.Size.FITS:
            continue
        ruling = judge(evidence)
        assert ruling.verdict is not Verdict.RELAY or ruling.reason == "drift"


def test_a_resumed_leg_relays_only_what_is_proven() -> None:
    proven = {axes.Match.EQUAL, axes.Match.HEADER_EQUAL}
    for evidence in combinations(MessageEvidence):
        assert isinstance(evidence, MessageEvidence)
        if evidence.leg is not axes.Leg.RESUMED or judge(evidence).verdict is not Verdict.RELAY:
            continue
        is_own = evidence.claim in (axes.Claim.ANSWER, axes.Claim.PROGRESS)
        assert evidence.epoch in proven or evidence.claim is axes.Claim.PING
        assert is_own or evidence.epoch is axes.Match.EQUAL or evidence.claim is axes.Claim.PING


def test_every_verdict_that_is_counted_is_a_label() -> None:
    """`epochgate_resumes_total` exists at 0 for each of them from the start."""
    for stream in ("request", "standalone"):
        for table in (verdict.MESSAGE_TABLE, verdict.ANSWER_TABLE, verdict.BREAK_TABLE):
            for row in table:
                if row.ruling.verdict in (Verdict.RESTART, Verdict.FAIL, Verdict.PASS):
                    label = ("upstream", stream, row.ruling.verdict.value, row.ruling.reason)
                    assert label in RESUME_LABELS
        for ruling in OUTSIDE.values():
            assert ("upstream", stream, ruling.verdict.value, ruling.reason) in RESUME_LABELS
        assert ("upstream", stream, "resume", "epoch_match") in RESUME_LABELS
        assert ("upstream", stream, "resume", "server_poll") in RESUME_LABELS
        assert ("client", stream, "resume", "journal") in RESUME_LABELS
        assert ("client", stream, "resume", "superseded") in RESUME_LABELS
        assert ("client", stream, "refuse", "cursor_unknown") in RESUME_LABELS
        assert ("client", stream, "fail", "expired") in RESUME_LABELS
        assert ("client", stream, "end", "finished") in RESUME_LABELS


def test_labels_are_closed_and_few() -> None:
    assert len(RESUME_LABELS) < 100
    assert {leg for leg, *_ in RESUME_LABELS} == {"client", "upstream"}
    assert {stream for _, stream, *_ in RESUME_LABELS} == {"request", "standalone"}
