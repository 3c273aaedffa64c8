"""deploy/Dockerfile as it is written. What it makes is in test_image.py, for long runs."""

from __future__ import annotations

import re
import subprocess

import pytest

from epochgate import __version__
from tests.deploy.packaging import DEADLINE_S, ROOT
from tests.deploy.stand_in import PYTHON, SUITE
from tests.peers.install import Peers

DOCKERFILE = ROOT / "deploy" / "Dockerfile"


def lint(peers: Peers, text: str) -> list[str]:
    """The rules that hadolint finds broken, each with its line."""
    program = peers.kubernetes.parent / "hadolint"
    said = subprocess.run(
        [program, "--no-color", "-"],
        input=text,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert said.stderr == ""
    return re.findall(r"(?m)^-:(\d+ [A-Z]{2}\d{4})", said.stdout)


def instructions() -> list[str]:
    text = re.sub(r"(?m)^#.*\n", "", DOCKERFILE.read_text())
    return [line for line in text.replace("\\\n", "").splitlines() if line]


def test_hadolint_finds_nothing(peers: Peers) -> None:
    assert lint(peers, DOCKERFILE.read_text()) == []


@pytest.mark.parametrize(
    ("line", "worse", "rule"),
    [
        ('CMD ["run"]', "CMD run", "DL3025"),
        ("WORKDIR /src", "WORKDIR src", "DL3000"),
    ],
)
def test_hadolint_would_find_something(peers: Peers, line: str, worse: str, rule: str) -> None:
    text = DOCKERFILE.read_text()
    assert text.count(line) == 1
    assert [found.split()[1] for found in lint(peers, text.replace(line, worse))] == [rule]


def test_its_base_is_a_slim_python_by_version_and_what_the_stand_in_stands_for() -> None:
    bases = [line for line in instructions() if line.startswith("ARG BASE=")]
    assert bases == [f"ARG BASE=python:{PYTHON}-slim-{SUITE}"]
    assert [line for line in instructions() if line.startswith("FROM")] == [
        "FROM ${BASE} AS build",
        "FROM ${BASE}",
    ]


def test_its_version_is_the_packages() -> None:
    assert f"ARG VERSION={__version__}" in instructions()


@pytest.mark.parametrize("name", ["README.md", "docs/operating.md", "docs/kubernetes.md", "docs/inject.md"])
def test_a_page_names_the_image_of_this_version(name: str) -> None:
    assert set(re.findall(r"\bepochgate:(\d[\d.]*\d)", (ROOT / name).read_text())) == {__version__}


def test_it_ends_as_a_numeric_user_and_a_program_without_a_shell() -> None:
    """So that `runAsNonRoot` can be checked, and process 1 is the one that gets the signal."""
    assert [line for line in instructions() if line.startswith(("USER", "ENTRYPOINT", "CMD"))] == [
        "USER 65532:65532",
        'ENTRYPOINT ["epochgate"]',
        'CMD ["run"]',
    ]


def test_every_package_is_installed_by_hash_or_without_an_index() -> None:
    installs = re.findall(r"/build/bin/pip.*? install ([^&]*)", "\n".join(instructions()))
    assert len(installs) == 3
    assert [one for one in installs if "--require-hashes" not in one and "--no-index" not in one] == []


def test_what_is_copied_is_sent_to_the_builder_and_nothing_else() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = [
        line.split()[1:-1] for line in instructions() if line.startswith("COPY") and "--from" not in line
    ]
    assert "*" in ignored
    assert {source.partition("/")[0] for sources in copied for source in sources} == sent
    assert [name for name in sent if not (ROOT / name).exists()] == []
