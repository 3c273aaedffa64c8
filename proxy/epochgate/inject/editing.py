"""Edits of one text: lines added behind what is there, a value changed in its place, nothing else.

Each edit is recorded twice: as characters to put into the text, and as what it means for the tree. The second
is what `check` compares the edited text with, so that a layout that fools the first is refused.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from epochgate.inject import writing
from epochgate.inject.nodes import (
    MAPPING,
    SEQUENCE,
    TEXT,
    TRUTH,
    WHOLE,
    Alias,
    Entry,
    Mapping,
    Node,
    Refused,
    Scalar,
    Sequence,
    meaning,
)
from epochgate.inject.reading import read
from epochgate.inject.writing import Indents

_COMMENT = re.compile(r"(?:[ \t]*\r?\n)*( *)#[^\n]*(?:\n|\Z)")


class _Splice(NamedTuple):
    """`depth` orders what goes in at one place: the deeper value ends first."""

    start: int
    end: int
    depth: int
    text: str


@dataclass(slots=True)
class Editor:
    """Takes edits of `text`, whose documents `roots` are, and gives the edited text."""

    text: str
    roots: list[Node]
    _splices: list[_Splice] = field(default_factory=list)
    _added: dict[Node, list[tuple[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    _changed: dict[tuple[Node, str], Any] = field(default_factory=dict)

    def add(self, mapping: Mapping, key: str, value: Any, behind: Node, indents: Indents) -> None:
        """Put `key: value` behind the value `behind` of the mapping. Raises `Refused`."""
        self._refuse_shared(mapping)
        self._added[mapping].append((key, value))
        if mapping.is_flow:
            self._into_braces(mapping, value, key)
            return
        column = mapping.pairs[0][0].column
        lines = writing.in_lines({key: value}, column, indents)
        self._lines_behind(behind.end, column, lines)

    def fill(self, mapping: Mapping, held: Entry, value: Any, indents: Indents) -> None:
        """Give an empty entry of the mapping its value. Raises `Refused`."""
        written = held.written
        self._refuse_shared(written)
        is_nowhere = mapping.is_flow and written.start == written.end
        if written.anchor or is_nowhere:
            raise Refused(held.key.line, f"`{_name(held)}` is empty here: remove it")
        self._changed[mapping, _name(held)] = value
        if mapping.is_flow:
            self._splices.append(_Splice(written.start, written.end, 0, writing.as_json(value)))
            return
        column = held.key.column
        _, *lines = writing.in_lines({_name(held): value}, column, indents)
        line = self.text.rfind("\n", 0, written.start) + 1
        if written.start > line and not self.text[line : written.start].strip():
            in_its_place = self._break(written.start).join(lines)  # it has a line of its own
            self._splices.append(_Splice(line, written.end, 0, in_its_place))
            return
        start = len(self.text[: written.start].rstrip(" "))
        self._splices.append(_Splice(start, written.end, 0, ""))
        self._lines_behind(written.end, column, lines)

    def append(self, sequence: Sequence, value: Any, indents: Indents) -> None:
        """Put an item behind the last one. Raises `Refused`."""
        self._refuse_shared(sequence)
        self._added[sequence].append(("", value))
        if sequence.is_flow:
            self._into_braces(sequence, value)
            return
        lines = writing.in_lines([value], sequence.dash, indents)
        self._lines_behind(sequence.end, sequence.dash, lines)

    def change(self, mapping: Mapping, held: Entry, value: int) -> None:
        """Put a number in the place of a scalar. Raises `Refused`."""
        self._refuse_shared(mapping)
        written = held.written
        if written.aliases:
            raise Refused(written.line, _shared(written))
        self._changed[mapping, _name(held)] = value
        self._splices.append(_Splice(written.start, written.end, 0, str(value)))

    def result(self) -> str:
        """The edited text. Raises `Refused` if it does not mean what the edits say."""
        parts, at = [], 0
        for splice in sorted(self._splices, key=lambda one: (one.start, -one.depth)):
            parts += [self.text[at : splice.start], splice.text]
            at = splice.end
        edited = "".join([*parts, self.text[at:]])
        self._check(edited)
        return edited

    # --- where it goes --------------------------------------------------------------------------------

    def _lines_behind(self, end: int, column: int, lines: list[str]) -> None:
        """Put lines behind the one in which `end` is, and behind the comments that belong to it."""
        newline = self.text.find("\n", end)
        at = len(self.text) if newline < 0 else newline + 1
        while (comment := _COMMENT.match(self.text, at)) and len(comment[1]) > column:
            at = comment.end()
        break_ = self._break(at)
        written = "".join(f"{line}{break_}" for line in lines)
        if self.text[at - 1] != "\n":  # the file ends without a line break, and goes on doing so
            written = break_ + written.removesuffix(break_)
        self._splices.append(_Splice(at, at, column, written))

    def _break(self, at: int) -> str:
        """The line break that the line before `at` has."""
        newline = self.text.rfind("\n", 0, at)
        return "\r\n" if newline > 0 and self.text[newline - 1] == "\r" else "\n"

    def _into_braces(self, node: Mapping | Sequence, value: Any, key: str = "") -> None:
        """Put an item into `[...]` or a pair into `{...}`, in lines of its own if the last has its own."""
        inside = f"{writing.as_json(key)}: " if key else ""
        first, last = (node.items[-1],) * 2 if isinstance(node, Sequence) else node.pairs[-1]
        margin = self.text[self.text.rfind("\n", 0, first.start) + 1 : first.start]
        end = last.end
        if not margin or margin.strip():
            self._splices.append(_Splice(end, end, 0, f", {inside}{writing.as_json(value)}"))
            return
        break_ = self._break(first.start) + margin
        written = break_.join((inside + writing.as_json(value, 2)).splitlines())
        self._splices.append(_Splice(end, end, len(margin), f",{break_}{written}"))

    def _refuse_shared(self, node: Node) -> None:
        """What an alias elsewhere shares must not change under it."""
        above: Node | None = node
        while above is not None:
            if above.aliases:
                raise Refused(above.line, _shared(above))
            above = above.parent

    # --- what it means --------------------------------------------------------------------------------

    def _check(self, edited: str) -> None:
        touched = min(splice.start for splice in self._splices) if self._splices else 0
        line = self.text.count("\n", 0, touched) + 1
        wrong = Refused(line, "this layout cannot be edited safely: write it in lines, as kubectl does")
        try:
            roots = read(edited)
        except Refused:
            raise wrong from None
        if [_shape(root) for root in roots] != [self._wanted(root) for root in self.roots]:
            raise wrong

    def _wanted(self, node: Node) -> object:
        """The shape that the edits give `node`."""
        match node:
            case Mapping():
                pairs = [(_shape(key), self._wanted_under(node, key, written)) for key, written in node.pairs]
                pairs += [(_shape_of(key), _shape_of(value)) for key, value in self._added.get(node, [])]
                return (node.tag, node.anchor, frozenset(pairs))
            case Sequence():
                held = [self._wanted(item) for item in node.items]
                held += [_shape_of(value) for _, value in self._added.get(node, [])]
                return (node.tag, node.anchor, tuple(held))
            case _:
                return _shape(node)

    def _wanted_under(self, mapping: Mapping, key: Node, written: Node) -> object:
        name = key.value if isinstance(key, Scalar) else ""
        if (mapping, name) in self._changed:
            return _shape_of(self._changed[mapping, name])
        return self._wanted(written)


def _shape(node: Node) -> object:
    """What a node says, whatever its layout; equal shapes mean the same."""
    match node:
        case Scalar():
            return (node.tag, node.anchor, node.value)
        case Alias():
            return ("alias", node.anchor)
        case Mapping():
            return (
                node.tag,
                node.anchor,
                frozenset((_shape(key), _shape(value)) for key, value in node.pairs),
            )
        case Sequence():
            return (node.tag, node.anchor, tuple(_shape(item) for item in node.items))
        case _:
            raise AssertionError(node)


def _shape_of(value: Any) -> object:
    match value:
        case bool():
            return (TRUTH, None, str(value).lower())
        case int():
            return (WHOLE, None, str(value))
        case str():
            return (TEXT, None, value)
        case dict():
            return (
                MAPPING,
                None,
                frozenset((_shape_of(key), _shape_of(held)) for key, held in value.items()),
            )
        case list():
            return (SEQUENCE, None, tuple(_shape_of(item) for item in value))
        case _:
            raise AssertionError(value)


def says(node: Node, value: Any) -> bool:
    """Whether the node means exactly this value, also by aliases; the order of keys does not count."""
    node = meaning(node)
    match value:
        case dict():
            if not isinstance(node, Mapping) or len(node.pairs) != len(value):
                return False
            held = {key.value: inner for key, inner in node.pairs if isinstance(key, Scalar)}
            return all(key in held and says(held[key], inner) for key, inner in value.items())
        case list():
            if not isinstance(node, Sequence) or len(node.items) != len(value):
                return False
            return all(says(item, inner) for item, inner in zip(node.items, value, strict=True))
        case _:
            return isinstance(node, Scalar) and (node.tag, None, node.value) == _shape_of(value)


def _name(held: Entry) -> str:
    return held.key.value if isinstance(held.key, Scalar) else ""


def _shared(node: Node) -> str:
    others = ", ".join(sorted({str(alias.line) for alias in node.aliases}, key=int))
    return f"`&{node.anchor}` is also what line {others} names, and would change there too: write it out"
