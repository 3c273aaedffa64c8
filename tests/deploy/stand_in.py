"""A stand-in of the image's base: the Debian release that it is made from, with Debian's own Python.

It has decoys where the base has its pip. The base itself would take its registry. What is made is kept
until this file changes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.peers.install import image_programs, kept

SUITE = "trixie"
PYTHON = "3.13"
PACKAGES = "python3,python3-venv,ca-certificates"
DEADLINE_S = 900.0
DECOYS = (
    "usr/local/bin/pip3.13",
    "usr/local/lib/python3.13/ensurepip/__init__.py",
    "usr/local/lib/python3.13/site-packages/pip/__main__.py",
    "usr/local/lib/python3.13/site-packages/pip-25.1.dist-info/METADATA",
)


def run(command: Sequence[object]) -> str:
    """What a command prints; what it complains of is shown if it fails."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def stand_in() -> Path:
    """Its files."""
    return kept(f"base-{SUITE}", [Path(__file__)], _make) / "files"


def _make(folder: Path, pins: Sequence[Path]) -> None:
    files = folder / "files"
    command = [image_programs()["debootstrap"], "--variant=minbase", f"--include={PACKAGES}"]
    run([*command, SUITE, files, _mirror()])
    assert (files / "usr" / "bin" / f"python{PYTHON}").exists()
    for decoy in DECOYS:
        path = files / decoy
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def _mirror() -> str:
    """Where this machine's apt gets its packages."""
    return run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]).split()[0]
