"""The wheel, in an environment that has only what is pinned for run time, as a user without rights."""

from __future__ import annotations

from epochgate import __version__
from tests.deploy.life import VARIABLES, Work, contained, serves_and_drains, working_server
from tests.deploy.packaging import pins
from tests.deploy.sandbox import Installed, unprivileged
from tests.peers.install import SYSTEM_PYTHON

LIST = """
from importlib.metadata import distributions
print(*(f"{one.name}=={one.version}" for one in distributions()))
"""
TRY_TO_WRITE = """
import os, pathlib
folders = [place for place, _, _ in os.walk("/") if not place.startswith("/proc")]
def is_writable(folder):
    try:
        pathlib.Path(folder, "x").touch()
    except OSError:
        return False
    return True
print(os.getpid(), os.getuid(), sum(map(is_writable, folders)), "/dev/shm" in folders)
"""


def test_what_runs_and_what_builds_is_what_the_tests_ran_with() -> None:
    """The releases of requirements/run.txt and build.txt are those of dev.txt, hash by hash."""
    tested = pins("dev.txt")
    for name in ("run.txt", "build.txt"):
        for release, hashes in pins(name).items():
            assert hashes, release
            assert hashes == tested[release]


def test_the_environment_holds_what_is_pinned_and_the_wheel_alone(epochgate: Installed) -> None:
    listing = (
        "from importlib.metadata import distributions as d; print(*(f'{x.name}=={x.version}' for x in d()))"
    )
    listed = epochgate.run(str(epochgate.python), "-I", "-c", listing)

    assert listed.stderr == ""
    found = {release.lower().replace("_", "-") for release in listed.stdout.split()}
    assert found == {*pins("run.txt"), f"epochgate=={__version__}"}


def test_nothing_in_the_sandbox_can_be_written(epochgate: Installed) -> None:
    """What the other tests rest on."""
    tried = epochgate.run(str(SYSTEM_PYTHON), "-c", TRY_TO_WRITE)

    assert (tried.stdout, tried.stderr) == ("1 65532 0 True\n", "")


def test_the_program_says_its_version(epochgate: Installed) -> None:
    said = epochgate.run(str(epochgate.program), "--version")

    assert (said.returncode, said.stdout, said.stderr) == (0, f"epochgate {__version__}\n", "")


def test_config_prints_the_effective_settings(epochgate: Installed) -> None:
    said = epochgate.run(
        str(epochgate.program), "config", "--upstream", "http://127.0.0.1:8000", "--hold", "7m"
    )

    assert (said.returncode, said.stderr) == (0, "")
    assert "hold: 420.0  # --hold\n" in said.stdout


def test_the_demo_plays_the_fault_and_its_cure(epochgate: Installed) -> None:
    said = epochgate.run(str(epochgate.program), "demo")

    assert (said.returncode, said.stderr) == (0, "")
    assert "244,310" in said.stdout


async def test_it_serves_answers_probes_and_drains_as_process_1(epochgate: Installed) -> None:
    work = Work()
    async with working_server(work) as server:
        variables = {**VARIABLES, "EPOCHGATE_UPSTREAM": f"http://127.0.0.1:{server.port}"}
        command = epochgate.command([str(epochgate.program), "run"])
        async with contained(command, variables, unprivileged()) as proxy:
            await serves_and_drains(proxy, work)
