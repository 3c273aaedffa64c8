"""`python -m tests.fuzz all --minutes 30`: each target in its own process, for its share of the time.

The corpus in the tree is where each begins; what is found goes to the cache folder, crashes as well.
`--keep` writes the minimised corpus back to the tree. `TARGET --input FILE` runs one input again.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import targets
from tests.fuzz.environment import NoFuzzer, ensure
from tests.peers.install import TREE, cache

MEMORY_MIB = 1024
SECONDS_FOR_ONE = 20  # an input that takes longer is a find

_RUNS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_COVERED = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")


@dataclass(frozen=True, slots=True)
class Told:
    """What one process said at its end."""

    name: str
    runs: int
    edges: int
    features: int
    inputs: int
    crashes: tuple[Path, ...]

    def line(self) -> str:
        verdict = f"{len(self.crashes)} CRASHED" if self.crashes else "clean"
        return (
            f"{self.name:12} {self.runs:>10} runs {self.edges:>6} edges {self.features:>7} features "
            f"{self.inputs:>6} inputs  {verdict}"
        )


def fuzz(name: str, seconds: int, atheris: Path) -> Told:
    """Run one target to the end of its time or its first crash."""
    place = _place(name)
    _write_words(place / "words", name)
    arguments = [
        f"-max_total_time={seconds}",
        f"-max_len={targets.max_bytes(name)}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-timeout={SECONDS_FOR_ONE}",
        f"-artifact_prefix={place / 'crashes'}/",
        f"-dict={place / 'words'}",
        "-print_final_stats=1",
        str(place / "corpus"),
        str(targets.CORPUS / name),
    ]
    before = set((place / "crashes").iterdir())
    text = _work(name, arguments, atheris)
    (place / "log").write_text(text)
    crashes = tuple(sorted(set((place / "crashes").iterdir()) - before))
    covered = _COVERED.findall(text)
    edges, features, inputs = map(int, covered[-1]) if covered else (0, 0, 0)
    runs = _RUNS.search(text)
    if runs is None and not crashes:
        sys.stderr.write(text[-4000:])
        raise NoFuzzer(f"{name}: the process failed")
    return Told(name, int(runs[1]) if runs else _last_count(text), edges, features, inputs, crashes)


def _last_count(text: str) -> int:
    counts = re.findall(r"^#(\d+)\t", text, re.MULTILINE)
    return int(counts[-1]) if counts else 0


def minimise(name: str, atheris: Path) -> None:
    """Write the smallest inputs that reach all that is reached to the tree, few enough to be kept there."""
    place = _place(name)
    fresh = place / "merged"
    fresh.mkdir(exist_ok=True)
    for old in fresh.iterdir():
        old.unlink()
    limits = [f"-max_len={targets.max_bytes(name)}", f"-rss_limit_mb={MEMORY_MIB}", "-merge=1"]
    text = _work(name, [*limits, str(fresh), str(targets.CORPUS / name), str(place / "corpus")], atheris)
    if not any(fresh.iterdir()):
        sys.stderr.write(text[-4000:])
        raise NoFuzzer(f"{name}: nothing was merged")
    for old in targets.kept(name):
        old.unlink()
    size = 0
    for found in sorted(fresh.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
        size += found.stat().st_size
        if size <= targets.max_kept_bytes(name):
            (targets.CORPUS / name / found.name[:12]).write_bytes(found.read_bytes())


def _place(name: str) -> Path:
    place = cache() / "fuzz" / name
    for folder in (place / "corpus", place / "crashes", targets.CORPUS / name):
        folder.mkdir(parents=True, exist_ok=True)
    return place


def _write_words(path: Path, name: str) -> None:
    lines = ['"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in targets.words(name)]
    short = [line for line in lines if len(line) <= 4 * 60]
    path.write_text("\n".join([*short, *(f'"\\x{0x80 + at:02x}"' for at in range(len(lines)))]) + "\n")


def _work(name: str, arguments: Sequence[str], atheris: Path) -> str:
    path = os.pathsep.join([str(TREE / "proxy"), str(TREE), str(atheris)])
    program = cache() / "fuzz" / name / "program"
    command = f'exec nice {sys.executable} -m tests.fuzz.worker {name} "$0" "$@"'
    program.write_text(f"#!/bin/sh\n{command}\n")
    program.chmod(0o755)
    done = subprocess.run(
        [str(program), *arguments],
        cwd=TREE,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return done.stdout


def _fuzz_all(names: Sequence[str], minutes: float, jobs: int, *, keeps: bool) -> int:
    atheris = ensure()
    shares = sum(targets.SHARES.get(name, 1) for name in names)
    each = {name: minutes * 60 * jobs * targets.SHARES.get(name, 1) / shares for name in names}
    crashes: list[Path] = []
    with ThreadPoolExecutor(jobs) as pool:
        # The longest first, so that none is alone at the end.
        order = sorted(names, key=lambda name: -each[name])
        under_way = [pool.submit(fuzz, name, max(1, round(each[name])), atheris) for name in order]
        for ended in as_completed(under_way):
            print(ended.result().line(), flush=True)
            crashes += ended.result().crashes
        if keeps and not crashes:
            list(pool.map(lambda name: minimise(name, atheris), names))
    for crash in crashes:
        print(f"crash: python -m tests.fuzz {crash.parts[-3]} --input {crash}")
    return 1 if crashes else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=["all", *targets.NAMES])
    parser.add_argument("--minutes", type=float, default=30.0, help="for all targets together")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--keep", action="store_true", help="write the minimised corpus to the tree")
    parser.add_argument("--input", type=Path, help="run this one input, without the fuzzer")
    asked = parser.parse_args()
    if asked.input is not None:
        targets.target(asked.target)(asked.input.read_bytes())
        return 0
    names = targets.NAMES if asked.target == "all" else (asked.target,)
    try:
        return _fuzz_all(names, asked.minutes, asked.jobs, keeps=asked.keep)
    except (NoFuzzer, OSError) as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
