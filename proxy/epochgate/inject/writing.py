"""Values as YAML text: in lines of their own, or in one line as JSON, which goes wherever braces go."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml  # type: ignore[import-untyped]  # it ships no types

# Words that need no quotes: none of them begins or ends anything in YAML.
_PLAIN = re.compile(r"[A-Za-z0-9/_](?:[A-Za-z0-9/_.@=+-]|:(?=[A-Za-z0-9/]))*", re.ASCII)
_QUANTITY = re.compile(r"[1-9][0-9]*(?:m|[KMG]i)", re.ASCII)
_RESOLVER: Any = yaml.resolver.Resolver()
_TEXT = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True)
class Indents:
    """How many columns deeper than its key a mapping begins (`nested`), and a list (`dash`); and how far the
    content of an item stands from its dash (`item`)."""

    nested: int = 2
    dash: int = 2
    item: int = 2


def in_lines(value: Any, column: int, indents: Indents) -> list[str]:
    """The lines of a mapping whose keys, or of a list whose dashes, stand in `column`."""
    margin = " " * column
    if isinstance(value, Mapping):
        return [line for key, inner in value.items() for line in _of_key(margin, key, inner, indents)]
    dash = f"{margin}-{' ' * (indents.item - 1)}"
    written = []
    for item in value:
        if is_collection(item):
            first, *others = in_lines(item, column + indents.item, indents)
            written += [dash + first.lstrip(), *others]
        else:
            written.append(dash + scalar(item))
    return written


def _of_key(margin: str, key: str, value: Any, indents: Indents) -> list[str]:
    if not is_collection(value):
        return [f"{margin}{key}: {scalar(value)}"]
    deeper = indents.nested if isinstance(value, Mapping) else indents.dash
    return [f"{margin}{key}:", *in_lines(value, len(margin) + deeper, indents)]


def is_collection(value: Any) -> bool:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str)


def scalar(value: str | int | bool) -> str:
    """Quoted wherever a reader of YAML might take a word for something else."""
    if isinstance(value, str) and (_QUANTITY.fullmatch(value) or _means_itself(value)):
        return value
    return as_json(value)


def _means_itself(word: str) -> bool:
    """False for what needs quotes, and for `yes`, `1e3`, `0o7`: words that are none to some reader."""
    if not _PLAIN.fullmatch(word):
        return False
    tag = _RESOLVER.resolve(yaml.ScalarNode, word, (True, False))
    return bool(tag == _TEXT and not word[0].isdigit() and word.lower() not in ("y", "n"))


def as_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
