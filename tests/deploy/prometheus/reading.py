"""What the rules and the dashboard say: their expressions, and which series those name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # it ships no types

ROOT = Path(__file__).parents[3]
RULES = ROOT / "helm" / "epochgate" / "files" / "rules.yaml"
DASHBOARD = ROOT / "helm" / "epochgate" / "files" / "dashboard.json"
RUNBOOK = ROOT / "docs" / "runbook.md"

Json = dict[str, Any]

_LISTS = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_SELECTOR = re.compile(r"(?<![\w:$])([a-zA-Z_:][\w:]*)(?:\s*\{([^}]*)\})?(?!\w|\s*\()")
_RANGE = re.compile(r"\[[^]]*\]")
_MATCHER = re.compile(r"""(\w+)\s*(=~|!~|!=|=)\s*("[^"]*")""")
_WORDS = {"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring"}


@dataclass(frozen=True)
class Selector:
    """A metric and what its labels are matched with; a regular expression as its alternatives."""

    metric: str
    matchers: tuple[tuple[str, tuple[str, ...]], ...]


def rules() -> list[Json]:
    """Every rule, in order."""
    found: list[Json] = [rule for group in _groups() for rule in group["rules"]]
    return found


def alerts() -> list[Json]:
    return [rule for rule in rules() if "alert" in rule]


def _groups() -> list[Json]:
    found: list[Json] = yaml.safe_load(RULES.read_text())["groups"]
    return found


def dashboard() -> Json:
    found: Json = json.loads(DASHBOARD.read_text())
    return found


def panels() -> list[Json]:
    """Every panel that shows something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def targets() -> Iterator[tuple[str, Json]]:
    """Every query of the dashboard, with where it stands."""
    for panel in panels():
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target
    for note in dashboard()["annotations"]["list"]:
        if "target" in note:
            yield f"annotation {note['name']}", note["target"]


def selectors(expression: str) -> list[Selector]:
    """The selectors of a PromQL expression."""
    found = []
    for name, body in _SELECTOR.findall(_RANGE.sub("", _LISTS.sub(" ", expression))):
        if name not in _WORDS:
            matchers = [(label, _alternatives(text)) for label, _, text in _MATCHER.findall(body)]
            found.append(Selector(name, tuple(matchers)))
    return found


def _alternatives(text: str) -> tuple[str, ...]:
    return tuple(text.strip('"').split("|"))
