"""`make dist`: one version in everything, the same bytes again, and a source archive that is enough."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from deploy.dist import make
from epochgate import __version__
from tests.deploy.packaging import ROOT, built_wheel, git, pins
from tests.peers.install import ReleaseTools, ensure_release_tools

CHART = ROOT / "helm" / "epochgate"
SDIST = f"epochgate-{__version__}.tar.gz"
WHEEL = f"epochgate-{__version__}-py3-none-any.whl"
PACKED_CHART = f"epochgate-{__version__}.tgz"
BILL = f"epochgate-{__version__}.cdx.json"

JUDGE = """
import pathlib, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
print(JsonStrictValidator(SchemaVersion.V1_6).validate_str(pathlib.Path(sys.argv[1]).read_text()))
"""


@pytest.fixture(scope="module")
def tools() -> ReleaseTools:
    return ensure_release_tools()


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart; in a tree that has none, one of that name."""
    if CHART.is_dir():
        return CHART
    folder = tmp_path_factory.mktemp("chart")
    (folder / "Chart.yaml").write_text("{apiVersion: v2, name: epochgate, version: 9.9.9, appVersion: '9'}")
    return folder


@pytest.fixture(scope="module")
def dist(tools: ReleaseTools, chart: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    (folder / "epochgate-0.0.1.tar.gz").touch()  # an earlier release
    made = make(folder, tools, chart)
    assert set(made) == set(folder.iterdir())
    return folder


def test_a_release_is_five_files_of_one_version(dist: Path) -> None:
    assert {path.name for path in dist.iterdir()} == {WHEEL, SDIST, PACKED_CHART, BILL, "SHA256SUMS"}


def test_the_checksums_are_those_of_the_files(dist: Path) -> None:
    files = [dist / name for name in sorted((WHEEL, SDIST, PACKED_CHART, BILL))]
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files]

    assert (dist / "SHA256SUMS").read_text().splitlines() == sums


def test_the_same_commit_gives_the_same_bytes(
    dist: Path, tools: ReleaseTools, chart: Path, tmp_path: Path
) -> None:
    """Also where it was checked out at another time."""
    shutil.copytree(chart, tmp_path / "epochgate")
    for path in (tmp_path / "epochgate").rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    make(tmp_path / "again", tools, tmp_path / "epochgate")

    assert (tmp_path / "again" / "SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()


def test_the_source_archive_builds_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(dist / SDIST) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "wheel").mkdir()
    wheel = built_wheel(
        tmp_path / "wheel", tmp_path / SDIST.removesuffix(".tar.gz"), made_at=git("log", "-1", "--format=%ct")
    )

    assert wheel.read_bytes() == (dist / WHEEL).read_bytes()


def test_the_chart_has_the_version_of_the_package(dist: Path, tools: ReleaseTools) -> None:
    shown = subprocess.run(
        [tools.helm, "show", "chart", dist / PACKED_CHART], check=True, capture_output=True, text=True
    )
    chart = yaml.safe_load(shown.stdout)

    assert (chart["name"], chart["version"], chart["appVersion"]) == ("epochgate", __version__, __version__)


def test_the_bill_lists_what_is_pinned(dist: Path) -> None:
    bill = json.loads((dist / BILL).read_text())
    top = bill["metadata"]["component"]
    listed = {f"{one['name'].lower().replace('_', '-')}=={one['version']}" for one in bill["components"]}

    assert (bill["bomFormat"], top["name"], top["version"]) == ("CycloneDX", "epochgate", __version__)
    assert listed == set(pins("run.txt"))
    assert all(re.match(r"pkg:pypi/[\w.-]+@[\w.]+", one["purl"]) for one in bill["components"])
    assert all(one.get("licenses") for one in bill["components"])


def test_the_bill_keeps_to_its_schema(dist: Path, tools: ReleaseTools) -> None:
    judged = subprocess.run(
        [tools.cyclonedx, "-c", JUDGE, dist / BILL], capture_output=True, text=True, check=False
    )

    assert (judged.stdout, judged.stderr) == ("None\n", "")


def test_the_bill_names_no_place_of_the_machine_that_made_it(dist: Path) -> None:
    text = (dist / BILL).read_text()

    assert re.findall(r"file:|/home/|/root/|/tmp/", text) == []
