"""Randomised runs of the whole core: cut points, faults and server behaviours, drawn from a seed."""

from __future__ import annotations

import os

import pytest

from tests.properties.simulation import is_spliced, play, story

RUNS = int(os.environ.get("EPOCHGATE_SIM_RUNS", "200"))
CHUNKS = 20  # tests, so that one failure does not hide the rest
SHOWN = 3  # stories printed for a failing chunk


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_run_breaks_a_guarantee(chunk: int) -> None:
    """0 splices, 0 double answers, 0 hangs, no stranger, no hidden run, nothing lost (G1 to G5)."""
    failed = []
    for seed in range(chunk, RUNS, CHUNKS):
        outcome = play(seed)
        if outcome.violations:
            failed.append(outcome)
    stories = "\n\n".join(story(outcome) for outcome in failed[:SHOWN])
    seeds = [outcome.seed for outcome in failed]
    assert not failed, f"{stories}\n\nagain: python -m tests.properties.simulation SEED, for {seeds}"


def test_the_same_runs_without_the_guard_show_splices() -> None:
    """The oracle can fail: a transparent relay splices in some of the very same runs."""
    spliced = [seed for seed in range(RUNS) if is_spliced(play(seed, "relay").violations)]
    assert len(spliced) >= RUNS // 100, f"only {spliced} of {RUNS} runs"


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_gives_the_same_run_every_time(seed: int) -> None:
    assert story(play(seed)) == story(play(seed))
