"""deploy/Dockerfile, built by buildah upon a stand-in of its base, and run by runc."""

from __future__ import annotations

import ast
import json
import shutil
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epochgate import __version__
from tests.deploy.packaging import ROOT
from tests.deploy.stand_in import run, stand_in
from tests.peers.install import image_programs

BASE = "localhost/stand-in"
IMAGE = f"localhost/epochgate:{__version__}"
MEMORY_LIMIT_BYTES = 1253 << 20  # what the chart gives with its defaults, as tests/helm/test_memory.py sees
# The settings of pip that say how an index is reached. Others name places of this machine.
_OF_INDEX = ("index-url", "extra-index-url", "trusted-host", "proxy", "cert", "timeout", "retries")

Json = dict[str, Any]


@dataclass
class Image:
    """The built image: its files in the open, and what it says about how to run them."""

    files: Path
    config: Json
    description: str = field(repr=False)  # everything that a registry would get besides the files
    secret: str


class Builder:
    """buildah with a storage of its own, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = image_programs()

    @property
    def command(self) -> list[str]:
        places = ["--root", str(self.folder / "root"), "--runroot", str(self.folder / "run")]
        return [str(self.programs["buildah"]), *places, "--storage-driver", "vfs"]

    def buildah(self, *words: object) -> str:
        return run([*self.command, *words]).strip()

    def import_stand_in(self) -> None:
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, stand_in(), "/")
        self.buildah("commit", "--quiet", "--rm", container, BASE)

    def build(self) -> Image:
        """`make image`, with what this machine's pip goes by for a secret."""
        secret = f"nowhere-{uuid.uuid4().hex}"
        settings = _pip_settings()
        (self.folder / "pip.conf").write_text(_pip_conf(settings, secret))
        given = ["--secret", f"id=pip.conf,src={self.folder / 'pip.conf'}", "--build-arg", f"BASE={BASE}"]
        if "cert" in settings:
            authorities = Path(settings["cert"]).parent
            given += ["--volume", f"{authorities}:{authorities}:ro"]
        flags = ["--isolation", "chroot", "--layers=false", "--pull-never", "--quiet", *given]
        told = [f"IMAGE_BUILDER={' '.join(self.command)}", f"IMAGE_FLAGS={' '.join(flags)}"]
        run(["make", "--silent", "-C", ROOT, "image", *told])
        container = self.buildah("from", "--pull-never", IMAGE)
        description = self.buildah("inspect", "--type", "image", IMAGE)
        files = Path(self.buildah("mount", container))
        return Image(files, json.loads(description)["OCIv1"]["config"], description, secret)

    def clear(self) -> None:
        self.buildah("rm", "--all")
        self.buildah("rmi", "--all", "--force")
        mounts = Path("/proc/self/mountinfo").read_text()
        assert str(self.folder) not in mounts, "something is still mounted where images were built"
        shutil.rmtree(self.folder)


@contextmanager
def built_image(folder: Path) -> Iterator[Image]:
    builder = Builder(folder)
    try:
        builder.import_stand_in()
        yield builder.build()
    finally:
        builder.clear()


def _pip_settings() -> dict[str, str]:
    """How this machine's pip reaches its index."""
    found = {}
    for line in run([sys.executable, "-m", "pip", "config", "list"]).splitlines():
        name, _, value = line.partition("=")
        name, value = name.rpartition(".")[2], str(ast.literal_eval(value))
        if name in _OF_INDEX and "file:" not in value:
            found[name] = value
    return found


def _pip_conf(settings: Mapping[str, str], secret: str) -> str:
    """What pip obeys, with the secret where people have theirs: in a place to find packages."""
    lines = [f"{name} = {value}" for name, value in settings.items()]
    return "\n".join(["[global]", *lines, f"find-links = /{secret}", ""])


class Bundle:
    """A container that runc can run: the image as a pod of the `restricted` profile has it."""

    def __init__(self, image: Image, folder: Path) -> None:
        self.name = f"epochgate-{uuid.uuid4().hex[:12]}"
        self.folder = folder
        self._image = image
        self._runc = [image_programs()["runc"], "--root", folder / "state"]

    def command(self, words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
        """What runs `words` after the image's entrypoint; none given: the image's own."""
        own = self._image.config
        (self.folder / "config.json").unlink(missing_ok=True)
        run([*self._runc, "spec", "--bundle", self.folder])
        spec: Json = json.loads((self.folder / "config.json").read_text())
        user, group = map(int, own["User"].split(":"))
        spec["process"] |= {
            "terminal": False,
            "user": {"uid": user, "gid": group},
            "args": [*own["Entrypoint"], *(words or own["Cmd"])],
            "env": [*own["Env"], *(f"{name}={value}" for name, value in variables.items())],
            "capabilities": {},
            "noNewPrivileges": True,
        }
        spec["root"] = {"path": str(self._image.files), "readonly": True}
        # The network is this machine's, so that the test can talk to it; then /sys cannot be mounted anew.
        spec["mounts"] = [one for one in spec["mounts"] if not one["destination"].startswith("/sys")]
        linux = spec["linux"]
        linux["namespaces"] = [one for one in linux["namespaces"] if one["type"] != "network"]
        linux["resources"]["memory"] = {"limit": MEMORY_LIMIT_BYTES}
        linux["cgroupsPath"] = f"/{self.name}"
        (self.folder / "config.json").write_text(json.dumps(spec))
        return [str(word) for word in (*self._runc, "run", "--bundle", self.folder, self.name)]

    def clear(self) -> None:
        run([*self._runc, "delete", "--force", self.name])


def memory_limit_bytes(pid: int) -> int:
    """What the control group of a process allows it, in either version of control groups."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return int(Path(f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes").read_text())
        if number == "0" and Path(f"/sys/fs/cgroup{path}/memory.max").exists():
            return int(Path(f"/sys/fs/cgroup{path}/memory.max").read_text())
    raise AssertionError(f"process {pid} is in no control group that limits memory")
