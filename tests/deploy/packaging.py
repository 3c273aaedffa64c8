"""Building the wheel without a network, and folders that users without rights can look into."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0


def built_wheel(folder: Path, source: Path = ROOT, made_at: str = "1000000000") -> Path:
    """The wheel of a source tree, made in `folder` by the build backend alone, with `made_at` as time."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    variables = {**os.environ, "SOURCE_DATE_EPOCH": made_at}
    subprocess.run(command, cwd=source, env=variables, check=True, capture_output=True, timeout=DEADLINE_S)
    (wheel,) = folder.glob("*.whl")
    return wheel


def git(*words: str) -> str:
    """What git says of this tree."""
    said = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return said.stdout.strip()


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that everybody may read; those of pytest are their owner's."""
    with tempfile.TemporaryDirectory(prefix="epochgate-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def pins(name: str) -> dict[str, set[str]]:
    """The hashes of each pinned release in a file of `requirements/`."""
    found: dict[str, set[str]] = {}
    for entry in (ROOT / "requirements" / name).read_text().replace("\\\n", "").splitlines():
        release, *hashes = entry.split()
        found[release] = {word for word in hashes if word.startswith("--hash=")}
    return found
