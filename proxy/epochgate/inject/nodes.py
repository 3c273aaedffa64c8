"""YAML as a tree of nodes that know where in the text they stand.

Anchors and aliases are kept apart: an `Alias` stands where it is written, and what it names knows of it. A
node's `end` is the end of its last character, never that of the blank lines and comments behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

TEXT = "tag:yaml.org,2002:str"
WHOLE = "tag:yaml.org,2002:int"
TRUTH = "tag:yaml.org,2002:bool"
NOTHING = "tag:yaml.org,2002:null"
MERGE = "tag:yaml.org,2002:merge"
MAPPING = "tag:yaml.org,2002:map"
SEQUENCE = "tag:yaml.org,2002:seq"


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
