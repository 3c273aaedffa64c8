"""When a change of followed files counts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from epochgate.shell.following import LOOK_INTERVAL_S, SETTLE_S, Followed


class Over(Exception):
    """The script is at its end."""


async def _play(file: Path, *contents: str | None) -> tuple[list[str], list[float]]:
    """Write these between the looks, None for nothing. What stood there at each change, and the pauses."""
    script = iter(contents)
    told: list[str] = []
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        try:
            content = next(script)
        except StopIteration:
            raise Over from None
        if content is not None:
            await asyncio.to_thread(file.write_text, content)

    async def on_change() -> None:
        told.append(await asyncio.to_thread(file.read_text))

    with pytest.raises(Over):
        await Followed([str(file)], pause=pause).follow(on_change)
    return told, pauses


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "followed"
    path.write_text("old")
    return path


async def test_a_change_counts_when_it_is_still_there_shortly_afterwards(file: Path) -> None:
    told, pauses = await _play(file, "new", None, None)
    assert told == ["new"]
    assert pauses == [LOOK_INTERVAL_S, SETTLE_S, LOOK_INTERVAL_S, LOOK_INTERVAL_S]


async def test_what_is_half_written_does_not_count(file: Path) -> None:
    told, pauses = await _play(file, "ha", "half", "whole", None, None)
    assert told == ["whole"]
    assert pauses[:4] == [LOOK_INTERVAL_S, SETTLE_S, SETTLE_S, SETTLE_S]


async def test_a_change_that_is_taken_back_at_once_is_none(file: Path) -> None:
    told, _ = await _play(file, "ha", "old", None)
    assert told == []


async def test_a_file_that_is_emptied_before_it_is_written_is_told_once(file: Path) -> None:
    told, _ = await _play(file, "", "new", None, None)
    assert told == ["new"]


async def test_without_files_there_is_nothing_to_follow() -> None:
    async def never() -> None:
        raise AssertionError

    await Followed([None]).follow(never)
