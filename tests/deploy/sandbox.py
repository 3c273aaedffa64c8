"""The installed proxy with nothing around it: no rights, a root that cannot be written, process 1.

bubblewrap makes the sandbox. Who is root here starts it as the image's user, everybody else as themselves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.packaging import DEADLINE_S
from tests.peers.install import Peers

USER = 65532  # of the image


def unprivileged() -> int | None:
    """The user to start a sandbox as, or None if the present one has no rights anyway."""
    return USER if os.geteuid() == 0 else None


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with the proxy in it, and what contains it."""

    folder: Path
    bwrap: Path

    @property
    def program(self) -> Path:
        return self.folder / "bin" / "epochgate"

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python3"

    def command(self, words: Sequence[str], *options: str) -> list[str]:
        """`words` in the sandbox: the system's Python, the environment, and nothing that can be written."""
        system = ["--ro-bind", "/usr", "/usr"]
        for name in ("bin", "lib", "lib64"):
            if Path("/", name).exists():
                system += ["--symlink", f"usr/{name}", f"/{name}"]
        own = ["--ro-bind", str(self.folder), str(self.folder)]
        readonly = ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", "--remount-ro", "/"]
        user = ["--unshare-user", "--uid", str(USER), "--gid", str(USER), "--cap-drop", "ALL"]
        process = ["--unshare-pid", "--as-pid-1", "--unshare-ipc", "--die-with-parent"]
        return [str(self.bwrap), *system, *own, *readonly, *user, *process, *options, "--", *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run to the end in the sandbox, without any variable of this process."""
        user = unprivileged()
        return subprocess.run(
            self.command(words),
            env={},
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )


def installed(wheel: Path, peers: Peers, folder: Path) -> Installed:
    """Add the wheel to a copy of the pinned packages, without a network and without dependencies."""
    environment = folder / "epochgate"
    shutil.copytree(peers.runtime.parents[1], environment, symlinks=True)
    into = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python3")]
    add = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*into, *add], check=True, capture_output=True, timeout=DEADLINE_S)
    return Installed(environment, peers.bwrap)
