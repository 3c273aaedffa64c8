"""Every input that the fuzzer found worth keeping, once more and without the fuzzer."""

from __future__ import annotations

import pytest

from tests.fuzz import targets


@pytest.mark.parametrize("name", targets.NAMES)
def test_all_is_well_with_every_kept_input(name: str) -> None:
    one = targets.target(name)
    inputs = targets.kept(name)
    assert inputs

    for path in inputs:
        print(f"python -m tests.fuzz {name} --input {path}")  # the last one is what a failure is about
        one(path.read_bytes())


def test_the_kept_inputs_are_few() -> None:
    sizes = [path.stat().st_size for name in targets.NAMES for path in targets.kept(name)]

    assert sum(sizes) <= 200_000
