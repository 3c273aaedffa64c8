"""One object, written as YAML in a layout of chance: indents, order, comments, quotes, braces, aliases."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import yaml  # type: ignore[import-untyped]  # it ships no types

COMMENTS = ["# note", "# - name: old", "# key: value", "#", "# it's {not} [yaml] & *that", "#\tä"]
_PLAIN = re.compile(r"[A-Za-z0-9/][A-Za-z0-9/_.:-]*")


class Layout:
    """Writes one document. `shared` are values that stand twice: the second time perhaps as an alias."""

    def __init__(self, chance: random.Random, shared: list[Any]) -> None:
        self._random = chance
        self._shared = {id(value): f"a{number}" for number, value in enumerate(shared)}
        self._anchored: set[int] = set()

    def document(self, value: dict[str, Any]) -> str:
        lines = self._mapping(value, 0)
        break_: str = self._random.choice(["\n", "\n", "\r\n"])
        head: str = self._random.choice(["", "---\n", "# top\n---\n", "--- # one\n", "\ufeff"])
        tail: str = self._random.choice(["\n", "", "\n\n", "\n# end\n", "\n...\n"])
        return (head + "\n".join(lines) + tail).replace("\n", break_)

    def _chance(self, one_in: int) -> bool:
        return self._random.randint(1, one_in) == one_in

    def _mapping(self, value: dict[str, Any], column: int) -> list[str]:
        lines = []
        for key in self._random.sample(list(value), len(value)):
            name = self._key(key)
            lines += self._between(column)
            lines += self._under(f"{' ' * column}{name}:", value[key], column, is_key=True)
        return lines

    def _under(self, opening: str, value: Any, column: int, *, is_key: bool) -> list[str]:
        """`opening` is a key with its colon, or a dash."""
        anchor = ""
        if id(value) in self._shared:
            name = self._shared[id(value)]
            if id(value) in self._anchored:
                return [f"{opening} *{name}{self._comment()}"]
            if self._chance(2):
                self._anchored.add(id(value))
                anchor = f" &{name}"
        if isinstance(value, str | int) or value is None:
            return self._scalar(opening, value, column)
        if not value or self._chance(12):
            written = f"{self._in_braces(value, column + 2)}{self._comment()}".split("\n")
            if is_key and self._chance(4):
                return [f"{opening}{anchor}", " " * (column + 2) + written[0], *written[1:]]
            return [f"{opening}{anchor} {written[0]}", *written[1:]]
        if isinstance(value, dict):
            deeper = column + self._random.randint(1 if is_key else 2, 5)
            inner = self._mapping(value, deeper)
        else:
            deeper = column + self._random.randint(0 if is_key else 2, 4)
            inner = self._sequence(value, deeper)
        can_be_beside = not is_key and not anchor and inner[0].strip() and inner[0].lstrip()[0] != "#"
        if can_be_beside and not self._chance(4):
            return [f"{opening.ljust(deeper)}{inner[0][deeper:]}", *inner[1:]]
        return [f"{opening}{anchor}{self._comment()}", *self._between(column), *inner]

    def _sequence(self, values: list[Any], column: int) -> list[str]:
        lines: list[str] = []
        for value in values:
            lines += self._between(column)
            lines += self._under(f"{' ' * column}-", value, column, is_key=False)
        return lines

    def _scalar(self, opening: str, value: str | int | None, column: int) -> list[str]:
        if isinstance(value, str) and "\n" in value:
            deeper = " " * (column + self._random.randint(1, 4))
            return [f"{opening} |", *(deeper + line for line in value.splitlines())]
        written = self._word(value)
        if written and self._chance(10):
            return [opening, " " * (column + 2) + written]
        gap = " " * self._random.randint(1, 3)
        return [f"{opening}{gap}{written}{self._comment()}".rstrip()]

    def _word(self, value: str | int | bool | None) -> str:
        if value is None:
            return str(self._random.choice(["", "~", "null"]))
        if isinstance(value, bool | int):
            return json.dumps(value)
        plain = [value] if _PLAIN.fullmatch(value) and yaml.safe_load(value) == value else []
        return str(self._random.choice([*plain, json.dumps(value), f"'{value}'"]))

    def _key(self, key: str) -> str:
        return str(self._random.choice([key, key, key, json.dumps(key), f"{key} "]))

    def _in_braces(self, value: Any, column: int) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value)
        inner = column + self._random.randint(1, 4)
        if isinstance(value, dict):
            begin, end = "{}"
            parts = [f"{self._key(key)}: {self._in_braces(held, inner)}" for key, held in value.items()]
        else:
            begin, end = "[]"
            parts = [self._in_braces(item, inner) for item in value]
        if not parts or not self._chance(4):
            return begin + self._random.choice([", ", ","]).join(parts) + end
        gap = "\n" + " " * inner
        lines = [f"{part},{self._comment()}" for part in parts[:-1]]
        last = parts[-1] + self._random.choice(["", ",", " "]) + self._comment()
        return begin + gap + gap.join([*lines, last]) + "\n" + " " * inner + end

    def _comment(self) -> str:
        return f"  {self._random.choice(COMMENTS)}" if self._chance(8) else ""

    def _between(self, column: int) -> list[str]:
        """Blank lines and comments in front of a key. Deeper ones would belong to a block of text."""
        if not self._chance(6):
            return []
        margin = " " * self._random.randint(0, column)
        return [""] if self._chance(2) else [margin + self._random.choice(COMMENTS)]
