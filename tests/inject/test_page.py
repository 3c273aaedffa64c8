"""docs/inject.md says what the command does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from epochgate.cli import main
from epochgate.inject.sidecar import sidecar

PAGE = (Path(__file__).parents[2] / "docs" / "inject.md").read_text()


def test_the_container_to_copy_is_the_one_that_is_added() -> None:
    (block,) = re.findall(r"(?s)```yaml\n(.*?)```", PAGE)

    assert yaml.safe_load(block) == [sidecar().container(8000)]


def test_the_page_and_the_help_have_the_same_flags(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["inject", "--help"])

    flags = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help", "--filename", "--output"}
    assert flags == set(re.findall(r"`(--[a-z-]+)", PAGE))
