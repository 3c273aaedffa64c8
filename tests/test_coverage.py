"""Branch coverage of `core/` is complete, each module by its own test file alone.

A module that is covered only by chance, by tests of another, is not tested: so each file runs by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "proxy" / "epochgate" / "core"
MODULES = sorted(path.stem for path in CORE.glob("*.py") if path.stem != "__init__")
# Declarations only: nothing in them branches, and every script of the core uses them.
DECLARATIONS = ("axes", "commands", "enums", "errors", "events", "policy", "records", "values")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Future[str]]:
    """What is missing in each module, under way in as many processes as there are cores."""
    place = tmp_path_factory.mktemp("coverage")
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    return {name: pool.submit(_find_missing, name, place) for name in MODULES if name not in DECLARATIONS}


def _find_missing(module: str, place: Path) -> str:
    data, report = place / f"{module}.data", place / f"{module}.json"
    run = [sys.executable, "-m", "coverage"]
    own = f"tests/core/test_{module}.py"
    measure = [*run, "run", "--branch", f"--include=*/core/{module}.py", f"--data-file={data}"]
    subprocess.run([*measure, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", own], **_QUIET)
    subprocess.run([*run, "json", "-q", f"--data-file={data}", "-o", str(report)], **_QUIET)
    (found,) = json.loads(report.read_text())["files"].values()
    missing = [str(line) for line in found["missing_lines"]]
    return ", ".join([*missing, *(f"{start}->{end}" for start, end in found["missing_branches"])])


_QUIET: dict[str, Any] = {"cwd": ROOT, "check": True, "capture_output": True}


@pytest.mark.parametrize("module", [name for name in MODULES if name not in DECLARATIONS])
def test_a_module_of_the_core_is_covered_by_its_own_tests(
    module: str, runs: Mapping[str, Future[str]]
) -> None:
    assert (ROOT / "tests" / "core" / f"test_{module}.py").is_file()
    assert runs[module].result() == ""
