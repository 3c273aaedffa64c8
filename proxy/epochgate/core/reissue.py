"""The re-issue policy: may an owed request be sent again? (design, section 9; R20, R28, R29)

What the server's tools promise is read from its `tools/list` answers; the last ones known for the
client session decide, in whatever generation they came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

import msgspec

from epochgate.core import jsonrpc
from epochgate.core.enums import Enum
from epochgate.core.jsontext import UNREADABLE
from epochgate.core.policy import Policy, Reissue
from epochgate.core.stream import Owed, OwedState

READS = frozenset(
    {
        "ping",
        "tools/list",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "completion/complete",
        "tasks/list",
        "tasks/get",
        "tasks/result",
    }
)
# Harmless to repeat, but not a read: the second has the effect of the first.
UNDECIDED = ("unknown_tool", "not_hinted")  # reasons that annotations may take away
_REPEATABLE = READS | {"logging/setLevel", "resources/subscribe", "resources/unsubscribe"}


class Choice(Enum):
    """SENT, WITHHELD and EXHAUSTED are label values of `epochgate_reissues_total`."""

    SENT = "sent"
    WITHHELD = "withheld"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True, slots=True)
class Decision:
    choice: Choice
    reason: str


class Hint(msgspec.Struct, frozen=True, rename="camel"):
    """A tool's annotations as the protocol names them; None where the server says nothing."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None

    @property
    def is_stated(self) -> bool:
        return not (
            self.read_only_hint is None and self.destructive_hint is None and self.idempotent_hint is None
        )

    @property
    def is_contradictory(self) -> bool:
        return self.read_only_hint is True and self.destructive_hint is True

    @property
    def is_repeatable(self) -> bool:
        """Declared read-only or idempotent, and nothing that contradicts it."""
        return not self.is_contradictory and (self.read_only_hint is True or self.idempotent_hint is True)


class _Tool(msgspec.Struct):
    name: str
    annotations: msgspec.Raw = msgspec.Raw()  # immutable: absent


class _Page(msgspec.Struct, rename="camel"):
    tools: list[_Tool] = []
    next_cursor: str | None = None


_HINT = msgspec.json.Decoder(Hint)
_PAGE = msgspec.json.Decoder(_Page)


@dataclass(slots=True)
class Tools:
    """What is known of the server's tools. `is_annotating`: it annotates at least one of them."""

    hints: Mapping[str, Hint] = field(default_factory=dict)
    is_annotating: bool = False
    _pages: dict[str, Hint] = field(default_factory=dict)

    def add_page(self, result: bytes, is_first: bool) -> str | None:
        """Take one page of `tools/list`; the cursor of the next, or None after the last one.

        A newer list replaces the older one as its first page comes; what cannot be read is passed
        over, so that its tools stay unknown.
        """
        try:
            page = _PAGE.decode(result)
        except UNREADABLE:
            return None
        if is_first:
            self._pages = {}
        for tool in page.tools:
            self._pages[tool.name] = _read_hint(tool.annotations)
        self.hints = self._pages
        self.is_annotating = any(hint.is_stated for hint in self._pages.values())
        return page.next_cursor


def _read_hint(annotations: msgspec.Raw) -> Hint:
    text = bytes(annotations)
    if text in (b"", b"null"):
        return Hint()
    try:
        return _HINT.decode(text)
    except UNREADABLE:
        return Hint(destructive_hint=True)  # said something that cannot be read: the careful reading


def decide(
    policy: Policy, owed: Owed, tools: Tools, *, is_not_run: bool, count: int, not_run_count: int
) -> Decision:
    """Whether to send `owed` again.

    `is_not_run`: the server provably did not run it. `count` and `not_run_count` say how often it was
    sent again already after an unknown outcome and after provably not running (R28).
    """
    if owed.state is not OwedState.OPEN:
        return Decision(Choice.WITHHELD, "cancelled")
    if not owed.is_stamped:
        return Decision(Choice.WITHHELD, "unstamped")
    if policy.advertise_epoch:
        return Decision(Choice.WITHHELD, "left_to_client")
    if len(owed.message.raw) > policy.max_reissue_bytes:
        return Decision(Choice.WITHHELD, "too_large")
    if is_not_run:
        if not_run_count >= policy.max_not_run_reissues:
            return Decision(Choice.EXHAUSTED, "max_not_run_reissues")
        return Decision(Choice.SENT, "not_run")
    if count >= policy.max_reissues:
        return Decision(Choice.EXHAUSTED, "max_reissues")
    withheld = _why_withheld(policy, owed, tools)
    return Decision(Choice.SENT, "allowed") if withheld is None else Decision(Choice.WITHHELD, withheld)


def needs_tools(policy: Policy, owed: Owed, tools: Tools) -> bool:
    """Whether the decision hangs on annotations that are not known yet (R20)."""
    if policy.reissue not in (Reissue.UNLESS_DESTRUCTIVE, Reissue.HINTED):
        return False
    name = owed.message.tool
    return (
        name is not None and name not in tools.hints and name not in policy.safe_tools | policy.never_reissue
    )


def _why_withheld(policy: Policy, owed: Owed, tools: Tools) -> str | None:
    if owed.message.is_task:
        return "task"
    if owed.has_answered_question:
        return "question_answered"
    name = owed.message.tool
    if name is not None and name in policy.never_reissue:
        return "never_reissue"
    match policy.reissue:
        case Reissue.ALWAYS:
            return None
        case Reissue.NEVER:
            return "policy_never"
        case Reissue.READS:
            return None if owed.method in READS else "not_a_read"
        case Reissue.HINTED:
            return _why_not_hinted(policy, owed, name, tools)
        case Reissue.UNLESS_DESTRUCTIVE:
            return _why_destructive(policy, owed, name, tools)
        case _:
            assert_never(policy.reissue)


def _why_not_hinted(policy: Policy, owed: Owed, name: str | None, tools: Tools) -> str | None:
    if owed.method in _REPEATABLE:
        return None
    if name is not None and (name in policy.safe_tools or tools.hints.get(name, Hint()).is_repeatable):
        return None
    return "not_hinted"


def _why_destructive(policy: Policy, owed: Owed, name: str | None, tools: Tools) -> str | None:
    if name is None or name in policy.safe_tools:
        return None
    hint = tools.hints.get(name)
    if hint is None:
        return "unknown_tool"
    if hint.is_contradictory:
        return "contradictory"
    if hint.destructive_hint is True:
        return None if hint.idempotent_hint is True else "destructive"
    if not hint.is_stated and tools.is_annotating:
        return "unannotated"
    return None


def read_tools_page(message: jsonrpc.Message, tools: Tools, is_first: bool) -> str | None:
    """`Tools.add_page` for a response to `tools/list`."""
    members = jsonrpc.read_object(message.raw) or {}
    result = members.get("result")
    return None if result is None else tools.add_page(bytes(result), is_first)
