"""YAML as a tree of nodes that know where in the text they stand.

Anchors and aliases are kept apart: an `Alias` stands where it is written, and what it names knows of it. A
node's `end` is the end of its last character, never that of the blank lines and comments behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml  # type: ignore[import-untyped]  # it ships no types

TEXT = "tag:yaml.org,2002:str"
WHOLE = "tag:yaml.org,2002:int"
TRUTH = "tag:yaml.org,2002:bool"
NOTHING = "tag:yaml.org,2002:null"
MERGE = "tag:yaml.org,2002:merge"
MAPPING = "tag:yaml.org,2002:map"
SEQUENCE = "tag:yaml.org,2002:seq"


# libyaml's reader, which is ten times faster and the model of kubectl's, where PyYAML was built with it.
FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Refused(Exception):
    """What cannot be done, in a line of the file, and what to change there."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """`start` and `end` count characters, `line` from 1, `column` from 0; anchor and tag are inside."""

    start: int
    end: int
    line: int
    column: int
    parent: Node | None
    tag: str
    anchor: str | None = None
    aliases: list[Alias] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class Scalar(Node):
    value: str


@dataclass(slots=True, eq=False, kw_only=True)
class Mapping(Node):
    is_flow: bool
    pairs: list[tuple[Node, Node]] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class Sequence(Node):
    """`dash` is the column of the dashes; 0 in flow style, which has none."""

    is_flow: bool
    dash: int
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class Alias(Node):
    target: Node


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands under a key: `written` may be an alias, `node` is what it means.

    `is_own` is False if the mapping has the key from another one, by `<<`.
    """

    key: Node
    written: Node
    node: Node
    is_own: bool

    @property
    def is_empty(self) -> bool:
        """`key:`, `key: null`, `key: {}` and `key: []` say the same: nothing."""
        match self.node:
            case Scalar(tag=tag):
                return tag == NOTHING
            case Mapping(pairs=inner) | Sequence(items=inner):
                return not inner
            case _:
                return False


def read(text: str) -> list[Node]:
    """The root of each document. Raises `Refused` for what is not YAML."""
    try:
        return _Reader(text, FAST).documents()
    except yaml.YAMLError:
        return _read_slowly(text)
    except RecursionError:
        raise Refused(1, "nested too deeply") from None


def _read_slowly(text: str) -> list[Node]:
    """With the reader that is there everywhere and says best what is wrong."""
    try:
        return _Reader(text, yaml.SafeLoader).documents()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Refused(
            mark.line + 1 if mark else 1, f"not YAML: {error.problem}{_hint(text, str(error.problem))}"
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Refused(line, "not YAML: a character that may not stand there") from None
    except RecursionError:
        raise Refused(1, "nested too deeply") from None


def _hint(text: str, problem: str) -> str:
    if "{{" in text:
        return "; a template has to be rendered first: helm template . | epochgate inject -f -"
    return "; put spaces in the place of the tab" if "'\\t'" in problem else ""


def meaning(node: Node) -> Node:
    """The node itself, or what an alias stands for."""
    while isinstance(node, Alias):
        node = node.target
    return node


def entry(node: Node | None, key: str) -> Entry | None:
    """What `node` has under `key`, also by `<<`; None if it has nothing there or is no mapping."""
    if not isinstance(node, Mapping):
        return None
    own = [pair for pair in node.pairs if isinstance(pair[0], Scalar) and pair[0].value == key]
    if own:
        return Entry(own[-1][0], own[-1][1], meaning(own[-1][1]), is_own=True)
    for name, written in node.pairs:
        if name.tag == MERGE:
            value = meaning(written)
            for merged in value.items if isinstance(value, Sequence) else [value]:
                if found := entry(meaning(merged), key):
                    return Entry(found.key, found.written, found.node, is_own=False)
    return None


def find(node: Node | None, *path: str) -> Node | None:
    """What stands under these keys, one within the other; None if nothing does."""
    for key in path:
        found = entry(node, key)
        node = None if found is None or found.is_empty else found.node
    return node


def text(node: Node | None, *path: str) -> str:
    """The scalar there as it is written, without quotes; empty if there is none."""
    found = find(node, *path)
    return found.value if isinstance(found, Scalar) else ""


def whole(node: Node | None, *path: str) -> int | None:
    """The decimal number there. None also for one written in another way, and for a word."""
    found = find(node, *path)
    if not isinstance(found, Scalar) or found.tag != WHOLE:
        return None
    digits = found.value
    return int(digits) if digits.isdecimal() and (digits == "0" or digits[0] != "0") else None


def is_true(node: Node | None, *path: str) -> bool:
    found = find(node, *path)
    return isinstance(found, Scalar) and found.tag == TRUTH and found.value.lower() in ("true", "yes", "on")


def items(node: Node | None, *path: str) -> list[Node]:
    """The elements of the list there, aliases resolved; none if it is no list."""
    found = find(node, *path)
    return [meaning(item) for item in found.items] if isinstance(found, Sequence) else []


def texts(node: Node | None, *path: str) -> dict[str, tuple[str, int]]:
    """A mapping of words to words, each with its line; `<<` included, others left out."""
    found = find(node, *path)
    if not isinstance(found, Mapping):
        return {}
    held: dict[str, tuple[str, int]] = {}
    for name, written in found.pairs:
        value = meaning(written)
        if name.tag == MERGE:
            for merged in value.items if isinstance(value, Sequence) else [value]:
                held = {**texts(meaning(merged)), **held}
        elif isinstance(name, Scalar) and isinstance(value, Scalar):
            held[name.value] = (value.value, name.line)
    return held


def within(node: Node) -> Iterator[Node]:
    """The node and all that stands in it; what an alias names is left out."""
    yield node
    match node:
        case Mapping(pairs=pairs):
            for pair in pairs:
                for part in pair:
                    yield from within(part)
        case Sequence(items=inner):
            for item in inner:
                yield from within(item)
        case _:
            pass


def repeated_key(node: Node) -> Scalar | None:
    """A key that stands a second time in its mapping, somewhere in `node`: readers differ on which counts."""
    for part in within(node):
        seen: set[str] = set()
        for key in [key for key, _ in part.pairs] if isinstance(part, Mapping) else []:
            if isinstance(key, Scalar) and key.value in seen:
                return key
            seen.add(key.value if isinstance(key, Scalar) else "")
    return None


class _Reader:
    """Builds the tree from the parser's events."""

    def __init__(self, text: str, loader: Any) -> None:
        # Readers differ in whether they count a byte order mark.
        self._text = text.removeprefix("\ufeff")
        self._before = len(text) - len(self._text)
        self._loader = loader(self._text)
        self._anchors: dict[str, Node] = {}

    def documents(self) -> list[Node]:
        roots = []
        self._loader.get_event()  # the start of the stream
        while not self._loader.check_event(yaml.StreamEndEvent):
            self._loader.get_event()  # the start of a document
            self._anchors = {}
            roots.append(self._node(None))
            self._loader.get_event()  # its end
        return roots

    def _node(self, parent: Node | None) -> Node:
        event = self._loader.get_event()
        common = {
            "start": event.start_mark.index + self._before,
            "end": event.end_mark.index + self._before,
            "line": event.start_mark.line + 1,
            "column": event.start_mark.column,
            "parent": parent,
        }
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor, common)
        common["anchor"] = event.anchor
        if isinstance(event, yaml.ScalarEvent):
            return self._known(self._scalar(event, common))
        node: Mapping | Sequence
        if isinstance(event, yaml.MappingStartEvent):
            tag = _tag(event.tag, MAPPING)
            node = Mapping(**common, tag=tag, is_flow=bool(event.flow_style))
            self._known(node)  # first: it may hold an alias of itself
            while not self._loader.check_event(yaml.MappingEndEvent):
                node.pairs.append((self._node(node), self._node(node)))
            last = node.pairs[-1][1] if node.pairs else None
        else:
            tag = _tag(event.tag, SEQUENCE)
            node = Sequence(**common, tag=tag, is_flow=bool(event.flow_style), dash=self._dash(event))
            self._known(node)
            while not self._loader.check_event(yaml.SequenceEndEvent):
                node.items.append(self._node(node))
            last = node.items[-1] if node.items else None
        ended = self._loader.get_event()
        node.end = last.end if last and not node.is_flow else ended.end_mark.index + self._before
        return node

    def _scalar(self, event: Any, common: dict[str, Any]) -> Scalar:
        tag = _tag(event.tag, "") or self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        if event.style in ("|", ">"):
            # The parser's end is the start of the line behind it.
            ended = self._text[event.start_mark.index : event.end_mark.index]
            common["end"] -= len(ended) - len(ended.removesuffix("\n").removesuffix("\r"))
        return Scalar(**common, tag=tag, value=event.value)

    def _dash(self, event: Any) -> int:
        """The event ends before the first dash, or behind it where the list is not deeper than its key."""
        if event.flow_style:
            return 0
        mark = event.end_mark
        return int(mark.column if self._text[mark.index] == "-" else mark.column - 1)

    def _alias(self, anchor: str, common: dict[str, Any]) -> Alias:
        target = self._anchors.get(anchor)
        if target is None:
            raise Refused(common["line"], f"not YAML: nothing has the anchor &{anchor}")
        alias = Alias(**common, tag=target.tag, target=target, anchor=anchor)
        target.aliases.append(alias)
        return alias

    def _known(self, node: Node) -> Node:
        if node.anchor:
            self._anchors[node.anchor] = node
        return node


def _tag(given: str | None, otherwise: str) -> str:
    return otherwise if given in (None, "!") else str(given)
