"""What the matrix calls right, wrong and worse; what a splice or a hidden second run would look like."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.interop.matrix.outcomes import Cell, Ending, Outcome, compare
from tests.interop.matrix.peers import CLIENTS, SERVERS, releases
from tests.interop.matrix.report import PAGE, page
from tests.interop.matrix.run import Result
from tests.interop.matrix.scenarios import SCENARIOS
from tests.interop.matrix.work import Counting, LongOperation
from tests.interop.steered import Line, Steered

RIGHT, ERROR, TIMEOUT, CRASH, HANG, WRONG = Ending
WHEN = datetime(2026, 5, 4, 3, 2, tzinfo=UTC)


async def _told(tmp_path: Path, name: str, lines: Sequence[Line]) -> Steered:
    """A process that said these lines and ended."""
    path = tmp_path / name
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"event": "end"}]))
    process = await Steered.start(name, ["cat", str(path)], {})
    await process.wait_told("end")
    await process.stop()
    return process


def _execution(run: str) -> Line:
    return {"event": "execution", "run": run, "label": "call-1"}


def _progress(run: str, *steps: int) -> list[Line]:
    return [{"event": "progress", "call": "call-1", "progress": step, "message": run} for step in steps]


def _result(run: str, total: int = 36) -> Line:
    return {"event": "result", "call": "call-1", "text": json.dumps({"run": run, "sum": total})}


A, B = _execution("a"), _execution("b")


@pytest.mark.parametrize(
    ("executed", "progress", "answer", "max_runs", "wrong"),
    [
        ([A], _progress("a", 1, 2, 3, 4, 5, 6, 7, 8), _result("a"), 1, ""),
        ([A, B], [*_progress("a", 1, 2), *_progress("b", 3, 4)], _result("b"), 2, ""),
        ([A, B], _progress("a", 1, 2), _result("b"), 2, ""),
        ([A, B], _progress("a", 1, 2), _result("b"), 1, "ran 2 times"),
        (
            [A, B],
            [*_progress("a", 1), *_progress("b", 2)],
            _result("a"),
            2,
            "of an older run than progress",
        ),
        ([A, B], [*_progress("b", 1), *_progress("a", 2)], _result("b"), 2, "progress out of order"),
        ([A], _progress("a", 1, 3, 2), _result("a"), 1, "progress out of order"),
        ([A], _progress("a", 1, 1), _result("a"), 1, "progress out of order"),
        ([A], _progress("a", 1), _result("z"), 1, "of a run that was not made for this call"),
        ([A], _progress("z", 1), _result("a"), 1, "of a run that was not made for this call"),
        ([A], _progress("a", 1), _result("a", 35), 1, "a wrong sum"),
    ],
)
async def test_a_counted_answer_is_judged_by_the_runs_it_and_its_progress_name(
    tmp_path: Path, executed: list[Line], progress: list[Line], answer: Line, max_runs: int, wrong: str
) -> None:
    client = await _told(tmp_path, "client", progress)
    servers = [await _told(tmp_path, f"server-{run['run']}", [run]) for run in executed]

    assert Counting().judge(client, servers, "call-1", answer, max_runs) == wrong


async def test_lost_progress_is_noticed(tmp_path: Path) -> None:
    whole = await _told(tmp_path, "whole", _progress("a", 1, 2, 3, 4, 5, 6, 7, 8))
    lacking = await _told(tmp_path, "lacking", _progress("a", 1, 2, 3, 4, 6, 7, 8))

    assert Counting().all_progress(whole, "call-1")
    assert not Counting().all_progress(lacking, "call-1")


@pytest.mark.parametrize(
    ("seconds", "steps", "wrong"),
    [
        ("3.001", (1, 2, 3, 4, 5), ""),
        ("3.002", (1, 2, 3, 4, 5), "of another call"),
        ("3.001", (1, 2, 1, 3), "progress out of order"),
    ],
)
async def test_an_answer_of_server_everything_is_judged_by_its_duration_and_order(
    tmp_path: Path, seconds: str, steps: tuple[int, ...], wrong: str
) -> None:
    client = await _told(tmp_path, "client", _progress("", *steps))
    text = f"Long running operation completed. Duration: {seconds} seconds, Steps: 5."

    assert LongOperation().judge(client, [], "call-1", {"text": text}, 1) == wrong


@pytest.mark.parametrize(
    ("direct", "through", "cell"),
    [
        ((RIGHT, True), (RIGHT, True), Cell.WORKS),
        ((ERROR, True), (ERROR, True), Cell.SAME),
        ((ERROR, False), (ERROR, False), Cell.SAME),
        ((HANG, False), (RIGHT, True), Cell.BETTER),
        ((HANG, False), (ERROR, False), Cell.BETTER),
        ((ERROR, False), (ERROR, True), Cell.BETTER),
        ((RIGHT, True), (ERROR, True), Cell.WORSE),
        ((RIGHT, True), (RIGHT, False), Cell.WORSE),
        ((ERROR, True), (RIGHT, False), Cell.WORSE),
        ((ERROR, True), (TIMEOUT, True), Cell.WORSE),
        ((TIMEOUT, True), (CRASH, True), Cell.WORSE),
        ((CRASH, False), (HANG, False), Cell.WORSE),
        ((HANG, False), (WRONG, True), Cell.WORSE),
    ],
)
def test_a_cell_is_worse_if_it_is_worse_in_any_respect(
    direct: tuple[Ending, bool], through: tuple[Ending, bool], cell: Cell
) -> None:
    assert compare(Outcome(*direct, 1.0), Outcome(*through, 1.0)) is cell


@pytest.mark.parametrize(
    ("direct", "through", "complaint"),
    [
        ((HANG, False), (RIGHT, True), ""),
        ((HANG, False), (ERROR, True), ""),
        ((HANG, False), (HANG, False), "no end"),
        ((CRASH, False), (CRASH, False), "the client crashed"),
        ((TIMEOUT, True), (TIMEOUT, True), "the client's own timeout"),
        ((ERROR, False), (ERROR, False), "the session is lost for good"),
        ((RIGHT, True), (ERROR, True), "worse than directly"),
    ],
)
def test_what_is_as_bad_directly_is_complained_of_too(
    direct: tuple[Ending, bool], through: tuple[Ending, bool], complaint: str
) -> None:
    result = Result("FastMCP", "FastMCP", "call", Outcome(*direct, 1.0), Outcome(*through, 1.0))

    assert result.complaint == complaint


def test_the_page_tells_what_a_client_gets_when_the_server_restarts() -> None:
    lost, right = Outcome(HANG, False, 30.0), Outcome(RIGHT, True, 1.25)
    results = [
        Result("mcp-remote", server, "server restarted mid-call", lost, right)
        for server in ("FastMCP", "peer")
    ]
    text = page(results, WHEN, "1.2.3")

    assert "Run on 2026-05-04 03:02 UTC with epochgate 1.2.3" in text
    assert "2 cells, 0 works, 0 same, 2 better, 0 worse" in text
    assert "| mcp-remote | FastMCP, peer | no end, session lost | right answer (1.2 s) |" in text


# --- the page in the tree ---------------------------------------------------------------------------


def test_the_page_names_the_pinned_releases() -> None:
    text = PAGE.read_text()
    assert all(f"| {name} | `{release}` |" in text for name, release in releases().items())


def test_the_page_is_of_a_run_of_all_pairs_in_which_nothing_was_worse() -> None:
    text = PAGE.read_text()
    cells = len(CLIENTS) * len(SERVERS) * len(SCENARIOS)
    assert f": {cells} cells, " in text
    assert ", 0 worse." in text
    assert all(f"\n### {server.name}\n" in text for server in SERVERS)
    assert all(text.count(f"\n| {client.name} | works |") == len(SERVERS) for client in CLIENTS)
