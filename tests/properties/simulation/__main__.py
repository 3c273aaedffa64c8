"""Play schedules from the command line; `--help` says how."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack

from tests.properties.simulation import play, story
from tests.properties.simulation.mutations import MUTATIONS, mutated
from tests.properties.simulation.pool import Failure, new_pool, play_all

AGAIN = "python -m tests.properties.simulation"
TELL_EVERY_S = 10.0


def main() -> int:
    options = _parser().parse_args()
    if options.seeds is not None:
        return _play_many(range(options.start, options.start + options.seeds), options.mutation)
    with ExitStack() as stack:
        if options.mutation is not None:
            stack.enter_context(mutated(options.mutation))
        outcome = play(options.seed, "relay" if options.relay else "core")
    print(story(outcome))
    return 1 if outcome.violations else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=AGAIN, description="The simulation of the core.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("seed", nargs="?", type=int, help="play one schedule and print all of it")
    what.add_argument("--seeds", type=int, metavar="N", help="play N schedules and print which fail")
    parser.add_argument("--start", type=int, default=0, metavar="SEED", help="the first of them (default 0)")
    parser.add_argument("--relay", action="store_true", help="with a plain relay in the place of the guard")
    names = [mutation.name for mutation in MUTATIONS]
    parser.add_argument("--mutation", choices=names, help="with this bug in the guard")
    return parser


def _play_many(seeds: range, mutation: str | None) -> int:
    begun = told = time.monotonic()
    played, failed = 0, 0
    with new_pool() as pool:
        for count, failures in play_all(pool, seeds, mutation=mutation):
            played += count
            failed += len(failures)
            for failure in failures:
                _tell(failure, mutation)
            if time.monotonic() - told >= TELL_EVERY_S:
                told = time.monotonic()
                print(
                    f"{played} of {len(seeds)} schedules, {failed} failed, {told - begun:.0f} s", flush=True
                )
    print(f"{played} schedules, {failed} failed, {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


def _tell(failure: Failure, mutation: str | None) -> None:
    with_bug = "" if mutation is None else f" --mutation {mutation}"
    print(f"seed {failure.seed} failed; all of it again: {AGAIN} {failure.seed}{with_bug}")
    for violation in failure.violations[:3]:
        print(f"  {violation[:300]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
