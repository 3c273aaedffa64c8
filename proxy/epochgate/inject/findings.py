"""What is said about manifests: why nothing was done, what to look at, what was done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from epochgate.inject.manifests import Object


class Weight(Enum):
    """`REFUSED` keeps everything from being written, `WARNING` only with `--strict`."""

    REFUSED = "refused"
    WARNING = "warning"
    DONE = "done"


class Remark(NamedTuple):
    """A finding about one object, in a line of its file."""

    weight: Weight
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One line for people: where, how grave, what it is and what to change."""

    place: str
    weight: Weight
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.weight.value}: {self.text}"


class Stop(Exception):
    """A finding that nothing can follow."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(text)
        self.finding = Finding(place, Weight.REFUSED, text)


Remarks = Iterator[Remark]


def refused(line: int, text: str) -> Remark:
    return Remark(Weight.REFUSED, line, text)


def warning(line: int, text: str) -> Remark:
    return Remark(Weight.WARNING, line, text)


def about(one: Object, remark: Remark) -> Finding:
    return Finding(f"{one.source.name}:{remark.line}", remark.weight, f"{one}: {remark.text}")
