"""The image of deploy/Dockerfile, as it is built and as it runs. Only in long runs, by root."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochgate import __version__
from tests.deploy.image import (
    BASE,
    MEMORY_LIMIT_BYTES,
    Bundle,
    Image,
    built_image,
    memory_limit_bytes,
)
from tests.deploy.life import VARIABLES, Work, contained, serves_and_drains, working_server
from tests.deploy.packaging import git
from tests.deploy.sandbox import USER
from tests.deploy.stand_in import DECOYS
from tests.peers.install import MissingTool

pytestmark = pytest.mark.timeout(1800)  # debootstrap and two downloads of all packages
IMPORT = "import epochgate.cli, epochgate.drain, epochgate.shell.process"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    try:
        with built_image(tmp_path_factory.mktemp("image")) as image:
            yield image
    except MissingTool as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def bundle(image: Image, tmp_path: Path) -> Iterator[Bundle]:
    bundle = Bundle(image, tmp_path)
    yield bundle
    bundle.clear()


def own_files(image: Image) -> Iterator[Path]:
    for folder, _, names in os.walk(image.files):
        for path in (Path(folder, name) for name in names):
            if path.is_file() and not path.is_symlink():
                yield path


async def test_it_serves_and_drains_as_process_1_without_rights(image: Image, bundle: Bundle) -> None:
    work = Work()
    async with working_server(work) as server:
        variables = {**VARIABLES, "EPOCHGATE_UPSTREAM": f"http://127.0.0.1:{server.port}"}
        async with contained(bundle.command([], variables), {"PATH": os.environ["PATH"]}) as proxy:
            told = dict(re.findall(r"(\w+):\t(.+)", status(proxy.pid)))
            assert told["Uid"].split() == told["Gid"].split() == [str(USER)] * 4
            assert told["NSpid"].split()[-1] == "1"
            assert (int(told["CapBnd"], 16), int(told["CapEff"], 16), told["NoNewPrivs"]) == (0, 0, "1")
            assert root_options(proxy.pid) >= {"ro"}
            assert memory_limit_bytes(proxy.pid) == MEMORY_LIMIT_BYTES
            await serves_and_drains(proxy, work)


def status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def root_options(pid: int) -> set[str]:
    mounts = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    (options,) = [fields[5] for fields in mounts if fields[4] == "/"]
    return set(options.split(","))


def test_it_says_its_version(bundle: Bundle) -> None:
    said = subprocess.run(bundle.command(["--version"], {}), capture_output=True, text=True, check=True)

    assert said.stdout == f"epochgate {__version__}\n"


def test_its_labels_say_what_it_is(image: Image) -> None:
    labels = image.config["Labels"]

    assert labels["org.opencontainers.image.title"] == "epochgate"
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.revision"] == git("rev-parse", "HEAD")
    assert labels["org.opencontainers.image.base.name"] == BASE


def test_nothing_of_the_index_stays(image: Image) -> None:
    """pip was told of a place by the secret; neither a file nor the image's history knows it."""
    needle = image.secret.encode()

    assert not (image.files / "etc" / "pip.conf").exists()
    assert [path for path in own_files(image) if needle in path.read_bytes()] == []
    assert image.secret not in image.description


def test_no_pip_and_no_compiler_are_in_it(image: Image) -> None:
    folders = [image.files / name for name in ("usr/bin", "usr/local/bin", "opt/epochgate/bin")]
    programs = {path.name for folder in folders for path in folder.iterdir()}
    packages = {path.name for path in (image.files / "opt/epochgate/lib").glob("python3*/site-packages/*")}

    assert [decoy for decoy in DECOYS if (image.files / decoy).exists()] == []
    assert [name for name in programs if re.fullmatch(r"(pip|cc|gcc|[gc]\+\+|clang|ld)[\d.-]*", name)] == []
    assert {"aiohttp", "epochgate"} < packages
    assert [name for name in packages if re.match(r"(pip|setuptools|hatchling)\b", name)] == []


def test_all_code_is_compiled(image: Image) -> None:
    """Nothing can be written when it runs, so whatever is not compiled would be compiled at each start."""
    python = ["/opt/epochgate/bin/python3", "-v", "-c", IMPORT]
    inside = ["/usr/sbin/chroot", f"--userspec={USER}:{USER}", str(image.files)]
    tried = subprocess.run([*inside, *python], env={}, capture_output=True, text=True, check=True)
    read = re.findall(r"# code object from '?(/[^'\n]+)", tried.stderr)

    assert len(read) > 300
    assert [path for path in read if not path.endswith(".pyc")] == []


def test_its_user_can_write_to_none_of_its_files(image: Image) -> None:
    files = [path for path in own_files(image) if path.is_relative_to(image.files / "opt")]

    assert len(files) > 1000
    assert {(path.stat().st_uid, path.stat().st_gid) for path in files} == {(0, 0)}
    assert [path for path in files if path.stat().st_mode & stat.S_IWOTH] == []
