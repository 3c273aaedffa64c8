"""atheris in an environment of its own: beside the tests' environment, for the same interpreter, once.

It is put on the path of the fuzzing processes only, which otherwise run with what the tests run with.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.peers.install import cache

PINS = Path(__file__).with_name("atheris.txt")
NEWEST = (3, 13)


class NoFuzzer(RuntimeError):
    """atheris cannot be had here; the text says why."""


def ensure() -> Path:
    """The folder to put on the path, filled if it is new. Raises `NoFuzzer`."""
    if sys.version_info[:2] > NEWEST or sys.platform != "linux":
        raise NoFuzzer("atheris has no wheels for this interpreter; use CPython 3.11 to 3.13 on Linux")
    digest = hashlib.sha256(sys.version.encode() + PINS.read_bytes()).hexdigest()[:12]
    folder = cache() / f"atheris-{digest}"
    if (folder / "complete").exists():
        return folder
    print(f"set-up: {folder} (once)", flush=True)
    shutil.rmtree(folder, ignore_errors=True)  # a set-up that was interrupted
    folder.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary=:all:"]
    done = subprocess.run([*pip, "--target", str(folder), "-r", str(PINS)], check=False)
    if done.returncode:
        raise NoFuzzer(f"pip failed with code {done.returncode}")
    (folder / "complete").touch()
    return folder
