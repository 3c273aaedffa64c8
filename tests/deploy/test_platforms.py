"""Each pinned package comes as a wheel for the machines that the image is for: nothing has to be compiled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import IS_LONG
from tests.deploy.packaging import ROOT, pins
from tests.deploy.stand_in import PYTHON
from tests.peers.install import kept

MACHINES = ("x86_64", "aarch64")
PYTHONS = ("3.11", "3.12", "3.13")
EVERY = [(python, machine) for python in PYTHONS for machine in MACHINES]
DEADLINE_S = 300.0


@pytest.mark.parametrize(("python", "machine"), EVERY if IS_LONG else [(PYTHON, "aarch64")])
def test_every_pin_is_a_wheel(python: str, machine: str) -> None:
    """pip takes them by hash alone, for glibc 2.28 or older; they are kept until the pins change."""

    def download(folder: Path, pinned: Sequence[Path]) -> None:
        target = ["--python-version", python, "--implementation", "cp"]
        for platform in ("manylinux_2_28", "manylinux2014"):
            target += ["--platform", f"{platform}_{machine}"]
        how = ["--quiet", "--only-binary", ":all:", "--require-hashes", "--no-deps", "--dest", str(folder)]
        command = [sys.executable, "-m", "pip", "download", *target, *how, "-r", str(pinned[0])]
        subprocess.run(command, check=True, timeout=DEADLINE_S)

    folder = kept(f"wheels-{machine}-{python}", [ROOT / "requirements" / "run.txt"], download)

    names = [wheel.name.split("-") for wheel in folder.glob("*.whl")]
    found = {f"{name.lower().replace('_', '-')}=={version}" for name, version, *_ in names}
    assert found == set(pins("run.txt"))
    assert any(name[-1].endswith(f"{machine}.whl") for name in names)
