"""Each promise has a test that carries its name: the rows of the verdict tables, and G1 to G9."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from epochgate.core.axes import BreakEvidence, Leg, MessageEvidence
from epochgate.core.verdict import OUTSIDE
from tests.core.test_verdict import TABLES, first_fit
from tests.core.verdict_cases import CASES
from tests.verdicts.rows import PROVOKED, PROVOKED_OUTSIDE, place_of

TESTS = Path(__file__).parent
for path in sorted((TESTS / "verdicts").glob("test_*.py")):
    import_module(f"tests.verdicts.{path.stem}")  # where each test says which row it provokes
GUARANTEES = (
    "g1_no_splice",
    "g2_no_stranger",
    "g3_one_answer",
    "g4_no_hidden_second_run",
    "g5_nothing_lost",
    "g6_transparent",
    "g7_loud",
    "g8_bounded",
    "g9_no_trespass",
)
ROWS = [(kind, at) for kind, table in TABLES.items() for at in range(len(table))]
each_row = pytest.mark.parametrize(
    ("kind", "at"), ROWS, ids=[f"{kind.__name__}-{at}-{TABLES[kind][at].ruling.reason}" for kind, at in ROWS]
)

# Rows that no server and no client can provoke in the running proxy, and why.
OUT_OF_REACH = {
    place_of(MessageEvidence, "no_epoch_captured", leg=Leg.RESUMED): "without epochs nothing is resumed",
    place_of(BreakEvidence, "session_ended"): "a session that ended has no stream that could break",
}


@each_row
def test_each_row_of_the_verdict_tables_is_decided_by_a_written_case(kind: type, at: int) -> None:
    cases = [case for case in CASES if type(case.evidence) is kind and first_fit(case.evidence) == at]

    assert cases, f"no case is decided by row {at} of {kind.__name__}: {TABLES[kind][at]}"


@each_row
def test_each_row_is_provoked_over_sockets_or_out_of_reach(kind: type, at: int) -> None:
    is_provoked = (kind, at) in PROVOKED

    assert is_provoked != ((kind, at) in OUT_OF_REACH), f"row {at} of {kind.__name__}: {TABLES[kind][at]}"


def test_each_ruling_outside_the_tables_is_provoked_over_sockets() -> None:
    assert set(PROVOKED_OUTSIDE) == set(OUTSIDE)


def test_each_restart_reason_happens_in_a_script_of_the_session() -> None:
    """A row that no script of the whole session ever meets may be dead in practice."""
    texts = [path.read_text() for path in sorted((TESTS / "core").glob("test_*.py"))]
    scripts = "".join(text for text in texts if "from tests.core.playbook import" in text)
    reasons = {
        row.ruling.reason
        for table in TABLES.values()
        for row in table
        if row.ruling.verdict.value == "restart"
    }
    missing = {reason for reason in reasons if f'"{reason}"' not in scripts}

    assert missing == set()


@pytest.mark.parametrize("name", GUARANTEES)
def test_each_guarantee_has_its_tests(name: str) -> None:
    path = TESTS / "guarantees" / f"test_{name}.py"

    assert path.is_file()
    assert "\ndef test_" in path.read_text() or "\nasync def test_" in path.read_text()
