"""Randomised runs of the whole core: cut points, faults and server behaviours, drawn from a seed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.conftest import IS_LONG
from tests.properties.simulation import play, story
from tests.properties.simulation.mutations import MUTATIONS, QUICK, Mutation
from tests.properties.simulation.pool import new_pool, play_all

SCHEDULES = int(os.environ.get("EPOCHGATE_SIM_RUNS") or (200_000 if IS_LONG else 2_000))
CHUNKS = 20  # tests, so that one failure does not hide the rest
SHOWN = 3  # stories printed for a failing chunk
PLAYED_BY_RELAY = 1_000
SOUGHT = [mutation for mutation in MUTATIONS if IS_LONG or mutation.name in QUICK]
# The processes of the pool start once; a chunk of the long run takes minutes on a busy machine.
pytestmark = pytest.mark.timeout(1800 if IS_LONG else 300)


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with new_pool() as processes:
        yield processes


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_run_breaks_a_guarantee(pool: ProcessPoolExecutor, chunk: int) -> None:
    """0 splices, 0 double answers, 0 hangs, no stranger, no hidden run, nothing lost, no trespass."""
    seeds = range(chunk * SCHEDULES // CHUNKS, (chunk + 1) * SCHEDULES // CHUNKS)
    failed = [failure for _, failures in play_all(pool, seeds) for failure in failures]
    stories = "\n\n".join(failure.story for failure in failed[:SHOWN])
    again = "\n".join(f"python -m tests.properties.simulation {failure.seed}" for failure in failed)
    assert not failed, f"{stories}\n\nto replay:\n{again}"


def test_the_same_runs_without_the_guard_show_splices(pool: ProcessPoolExecutor) -> None:
    """The oracle can fail: a transparent relay splices in some of the very same runs."""
    outcomes = play_all(pool, range(PLAYED_BY_RELAY), "relay")
    spliced = [failure.seed for _, failures in outcomes for failure in failures if failure.is_splice]
    assert len(spliced) >= 2, spliced


@pytest.mark.parametrize("mutation", SOUGHT, ids=lambda mutation: mutation.name)
def test_a_bug_in_the_guard_is_found(pool: ProcessPoolExecutor, mutation: Mutation) -> None:
    """And by that bug alone: the schedule in which it shows breaks nothing without it."""
    outcomes = play_all(pool, range(mutation.within), mutation=mutation.name)
    found = next((failures[0] for _, failures in outcomes if failures), None)
    assert found is not None, f"{mutation.name} was not found in {mutation.within} schedules"
    assert play(found.seed).violations == []


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_gives_the_same_run_every_time(seed: int) -> None:
    assert story(play(seed)) == story(play(seed))
