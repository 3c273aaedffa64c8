"""Reads YAML into nodes: from the events of PyYAML's parser, each of which knows where it stands."""

from __future__ import annotations

from typing import Any

import yaml  # type: ignore[import-untyped]  # it ships no types

from epochgate.inject.nodes import MAPPING, SEQUENCE, Alias, Mapping, Node, Refused, Scalar, Sequence

# libyaml's reader, which is ten times faster and the model of kubectl's, where PyYAML was built with it.
FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Far more than any manifest has; what works on the tree takes a few frames of Python's stack for each level.
MAX_DEPTH = 200


def read(text: str) -> list[Node]:
    """The root of each document. Raises `Refused` for what is not YAML."""
    try:
        return _Reader(text, FAST).documents()
    except yaml.YAMLError:
        return _read_slowly(text)


def _read_slowly(text: str) -> list[Node]:
    """With the reader that is there everywhere and says best what is wrong."""
    try:
        return _Reader(text, yaml.SafeLoader).documents()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"not YAML: {error.problem}{_hint(text, str(error.problem))}"
        raise Refused(mark.line + 1 if mark else 1, problem) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Refused(line, "not YAML: a character that may not stand there") from None


def _hint(text: str, problem: str) -> str:
    if "{{" in text:
        return "; a template has to be rendered first: helm template . | epochgate inject -f -"
    return "; put spaces in the place of the tab" if "'\\t'" in problem else ""


class _Reader:
    """Builds the tree from the parser's events."""

    def __init__(self, text: str, loader: Any) -> None:
        # Readers differ in whether they count a byte order mark.
        self._text = text.removeprefix("\ufeff")
        self._before = len(text) - len(self._text)
        self._loader = loader(self._text)
        self._anchors: dict[str, Node] = {}
        self._depth = 0

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
        self._depth += 1
        node = self._read(parent)
        self._depth -= 1
        return node

    def _read(self, parent: Node | None) -> Node:
        event = self._loader.get_event()
        if self._depth > MAX_DEPTH:
            raise Refused(event.start_mark.line + 1, "nested too deeply")
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
            self._known(node)  # first: an alias of it in itself is seen then
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
        above = common["parent"]
        while above is not None:
            if above is target:
                raise Refused(common["line"], f"*{anchor} stands within what it names: write it out")
            above = above.parent
        alias = Alias(**common, tag=target.tag, target=target, anchor=anchor)
        target.aliases.append(alias)
        return alias

    def _known(self, node: Node) -> Node:
        if node.anchor:
            self._anchors[node.anchor] = node
        return node


def _tag(given: str | None, otherwise: str) -> str:
    return otherwise if given in (None, "!") else str(given)
