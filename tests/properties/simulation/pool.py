"""Many schedules at once, over as many processes as the machine has CPUs."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from tests.properties.simulation import is_spliced, play, story
from tests.properties.simulation.mutations import mutated
from tests.properties.simulation.world import Mode

BATCH = 25


@dataclass(frozen=True, slots=True)
class Failure:
    """A schedule in which a guarantee was broken; `story` is told when asked for."""

    seed: int
    violations: tuple[str, ...]
    is_splice: bool

    @property
    def story(self) -> str:
        return story(play(self.seed))


def new_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"))


def play_all(
    pool: ProcessPoolExecutor, seeds: range, mode: Mode = "core", mutation: str | None = None
) -> Iterator[tuple[int, list[Failure]]]:
    """After each batch of seeds: how many it were, and the failures among them, in the order of seeds."""
    batches = [seeds[at : at + BATCH] for at in range(0, len(seeds), BATCH)]
    tasks = [pool.submit(_play_batch, batch, mode, mutation) for batch in batches]
    try:
        for batch, task in zip(batches, tasks, strict=True):
            yield len(batch), task.result()
    finally:
        for task in tasks:
            task.cancel()


def _play_batch(seeds: range, mode: Mode, mutation: str | None) -> list[Failure]:
    failures: list[Failure] = []
    with ExitStack() as stack:
        if mutation is not None:
            stack.enter_context(mutated(mutation))
        for seed in seeds:
            violations = play(seed, mode).violations
            if violations:
                texts = tuple(str(violation) for violation in violations)
                failures.append(Failure(seed, texts, is_spliced(violations)))
    return failures
