"""Writes what a release consists of: wheel, sdist, chart, bill of materials, and the checksums of them.

`python -m deploy.dist` writes them into dist/. The same commit gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from epochgate import __version__
from tests.peers.install import MissingTool, ReleaseTools, ensure_release_tools

ROOT = Path(__file__).parents[1]
SUMS = "SHA256SUMS"


def make(to: Path, tools: ReleaseTools, chart: Path = ROOT / "helm" / "epochgate") -> list[Path]:
    """Write everything into the folder `to`, in place of an earlier release, and return the files.

    Raises `subprocess.CalledProcessError` if a tool fails; then `to` is as it was.
    """
    variables = {**os.environ, "SOURCE_DATE_EPOCH": _committed_at()}
    with tempfile.TemporaryDirectory(prefix="epochgate-dist-") as name:
        folder = Path(name)
        _run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], variables)
        _package_chart(tools.helm, chart, folder, variables)
        _write_bill(tools, folder / f"epochgate-{__version__}.cdx.json", variables)
        made = sorted(folder.iterdir())
        sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made]
        (folder / SUMS).write_text("".join(sums))
        to.mkdir(parents=True, exist_ok=True)
        for old in (*to.glob("epochgate-*"), to / SUMS):
            old.unlink(missing_ok=True)
        return [Path(shutil.copyfile(path, to / path.name)) for path in (*made, folder / SUMS)]


def _committed_at() -> str:
    """The time that every file gets: what the environment says, else that of the commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    return _run(["git", "log", "-1", "--format=%ct"], os.environ).strip()


def _package_chart(helm: Path, chart: Path, folder: Path, variables: Mapping[str, str]) -> None:
    """The chart's archive, with the package's version whatever the chart says."""
    versions = ["--version", __version__, "--app-version", __version__]
    _run([str(helm), "package", str(chart), *versions, "--destination", str(folder)], variables)


def _write_bill(tools: ReleaseTools, to: Path, variables: Mapping[str, str]) -> None:
    """What runs: the pinned packages as they are installed, below the project, in CycloneDX's form."""
    how = ["--output-reproducible", "--no-validate", "--of", "JSON", "-o", str(to)]
    top = ["--pyproject", str(ROOT / "pyproject.toml")]
    command = [str(tools.cyclonedx), "-m", "cyclonedx_py", "environment", *how, *top, str(tools.runtime)]
    _run(command, variables)
    bill = json.loads(to.read_text())
    # The project's file leaves its version to the package.
    bill["metadata"]["component"] |= {"version": __version__, "purl": f"pkg:pypi/epochgate@{__version__}"}
    to.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n")


def _run(command: Sequence[str], variables: Mapping[str, str]) -> str:
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        done.check_returncode()
    return done.stdout


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.dist", description=__doc__)
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="the folder (default: dist)")
    given = parser.parse_args(argv)
    try:
        made = make(given.to, ensure_release_tools())
    except (MissingTool, OSError) as error:
        print(f"dist: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"dist: {' '.join(error.cmd)} failed with code {error.returncode}", file=sys.stderr)
        return 1
    print(*made, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
