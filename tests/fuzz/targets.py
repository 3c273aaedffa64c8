"""The targets by name, and the inputs that are kept for each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

# Each a module of this folder: WORDS spell its inputs, `one` takes an input and raises if all is not well.
NAMES = (
    "framing",
    "sse_events",
    "learned",
    "messages",
    "marks",
    "epochs",
    "scanning",
    "cursors",
    "heads",
    "configured",
    "sessions",
)
# Shares of the time; the others have one.
SHARES = {"sessions": 6, "messages": 2, "epochs": 2, "configured": 2}
MAX_BYTES = {"sessions": 320, "framing": 160}
USUAL_MAX_BYTES = 96
# Of the corpus in the tree: all of it is run again by every check.
MAX_KEPT_BYTES = {"sessions": 24_000, "configured": 4_000}
USUAL_MAX_KEPT_BYTES = 8_000
CORPUS = Path(__file__).with_name("corpus")


def target(name: str) -> Callable[[bytes], None]:
    one: Callable[[bytes], None] = importlib.import_module(f"tests.fuzz.{name}").one
    return one


def words(name: str) -> tuple[bytes, ...]:
    found: tuple[bytes, ...] = importlib.import_module(f"tests.fuzz.{name}").WORDS
    return found


def max_bytes(name: str) -> int:
    return MAX_BYTES.get(name, USUAL_MAX_BYTES)


def max_kept_bytes(name: str) -> int:
    return MAX_KEPT_BYTES.get(name, USUAL_MAX_KEPT_BYTES)


def kept(name: str) -> list[Path]:
    return sorted((CORPUS / name).glob("*"))
