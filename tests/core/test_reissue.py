"""The re-issue policy: every policy against every kind of tool (R20, R28), and what always withholds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from epochgate.core import jsonrpc, reissue
from epochgate.core.policy import Policy, Reissue
from epochgate.core.reissue import Choice, Tools
from epochgate.core.stream import Owed, OwedState

ANNOTATIONS: dict[str, Any] = {
    "reads": {"readOnlyHint": True},
    "writes": {"readOnlyHint": False},
    "deletes": {"destructiveHint": True},
    "replaces": {"destructiveHint": True, "idempotentHint": True},
    "adds": {"destructiveHint": False},
    "sets": {"idempotentHint": True},
    "contradicts": {"readOnlyHint": True, "destructiveHint": True},
    "titled": {"title": "says nothing of what it does"},
    "bare": None,
}


def page(annotations: dict[str, Any], cursor: str | None = None) -> bytes:
    tools = [
        {"name": name} if hints is None else {"name": name, "annotations": hints}
        for name, hints in annotations.items()
    ]
    return json.dumps({"tools": tools} if cursor is None else {"tools": tools, "nextCursor": cursor}).encode()


def tools(annotations: dict[str, Any]) -> Tools:
    known = Tools()
    known.add_page(page(annotations), is_first=True)
    return known


def owed(method: str = "tools/call", **params: Any) -> Owed:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return Owed(jsonrpc.read_message(json.dumps(message).encode()), b"123", None, is_stamped=True)


def choice(
    policy: Policy, request: Owed, known: Tools, *, is_not_run: bool = False, count: int = 0, not_run: int = 0
) -> str:
    decision = reissue.decide(
        policy, request, known, is_not_run=is_not_run, count=count, not_run_count=not_run
    )
    return decision.choice.value if decision.choice is Choice.SENT else decision.reason


# What each policy says of each tool, on a server that annotates some of its tools.
POLICIES = (Reissue.ALWAYS, Reissue.UNLESS_DESTRUCTIVE, Reissue.HINTED, Reissue.READS, Reissue.NEVER)
TABLE = {
    #              always  unless-destructive  hinted        reads         never
    "reads":       ("sent", "sent",          "sent",       "not_a_read", "policy_never"),
    "writes":      ("sent", "sent",          "not_hinted", "not_a_read", "policy_never"),
    "deletes":     ("sent", "destructive",   "not_hinted", "not_a_read", "policy_never"),
    "replaces":    ("sent", "sent",          "sent",       "not_a_read", "policy_never"),
    "adds":        ("sent", "sent",          "not_hinted", "not_a_read", "policy_never"),
    "sets":        ("sent", "sent",          "sent",       "not_a_read", "policy_never"),
    "contradicts": ("sent", "contradictory", "not_hinted", "not_a_read", "policy_never"),
    "titled":      ("sent", "unannotated",   "not_hinted", "not_a_read", "policy_never"),
    "bare":        ("sent", "unannotated",   "not_hinted", "not_a_read", "policy_never"),
    "unheard_of":  ("sent", "unknown_tool",  "not_hinted", "not_a_read", "policy_never"),
}  # fmt: skip


@pytest.mark.parametrize("tool", TABLE)
def test_each_policy_on_each_kind_of_tool(tool: str) -> None:
    known = tools(ANNOTATIONS)

    said = tuple(choice(Policy(reissue=policy), owed(name=tool), known) for policy in POLICIES)

    assert said == TABLE[tool]


@pytest.mark.parametrize("tool", TABLE)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.value)
def test_what_provably_did_not_run_is_sent_whatever_the_policy(tool: str, policy: Reissue) -> None:
    """Twice (R28)."""
    known = tools(ANNOTATIONS)

    assert choice(Policy(reissue=policy), owed(name=tool), known, is_not_run=True) == "sent"
    assert choice(Policy(reissue=policy), owed(name=tool), known, is_not_run=True, not_run=1) == "sent"
    assert (
        choice(Policy(reissue=policy), owed(name=tool), known, is_not_run=True, not_run=2)
        == "max_not_run_reissues"
    )


METHODS = {
    #                       unless-destructive  hinted        reads
    "tools/list":           ("sent",          "sent",       "sent"),
    "prompts/get":          ("sent",          "sent",       "sent"),
    "resources/read":       ("sent",          "sent",       "sent"),
    "completion/complete":  ("sent",          "sent",       "sent"),
    "ping":                 ("sent",          "sent",       "sent"),
    "logging/setLevel":     ("sent",          "sent",       "not_a_read"),
    "resources/subscribe":  ("sent",          "sent",       "not_a_read"),
    "vendor/transfer":      ("sent",          "not_hinted", "not_a_read"),
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_requests_that_call_no_tool(method: str) -> None:
    policies = (Reissue.UNLESS_DESTRUCTIVE, Reissue.HINTED, Reissue.READS)

    said = tuple(choice(Policy(reissue=policy), owed(method), Tools()) for policy in policies)

    assert said == METHODS[method]


def test_an_unannotated_tool_of_a_server_that_annotates_none_is_sent() -> None:
    """Servers that annotate nothing would otherwise never be healed (R28)."""
    assert choice(Policy(), owed(name="bare"), tools({"bare": None, "titled": {"title": "x"}})) == "sent"


def test_annotations_that_cannot_be_read_are_the_careful_kind() -> None:
    """Unknown is unsafe (R28)."""
    assert choice(Policy(), owed(name="odd"), tools({"odd": {"readOnlyHint": "yes"}})) == "destructive"


def test_names_in_the_settings_weigh_more_than_hints() -> None:
    known = tools(ANNOTATIONS)
    never = Policy(never_reissue=frozenset({"reads"}))
    safe = Policy(safe_tools=frozenset({"deletes", "unheard_of"}))

    assert choice(never, owed(name="reads"), known) == "never_reissue"
    assert choice(replace(never, reissue=Reissue.ALWAYS), owed(name="reads"), known) == "never_reissue"
    assert choice(safe, owed(name="deletes"), known) == "sent"
    assert choice(replace(safe, reissue=Reissue.HINTED), owed(name="unheard_of"), known) == "sent"


def test_what_is_never_sent_a_second_time() -> None:
    """A question was answered, a cancel came, or it is a task (R28, R29)."""
    policy = Policy(reissue=Reissue.ALWAYS)
    cancelled, asked, plain = owed(name="bare"), owed(name="bare"), owed(name="bare")
    cancelled.state = OwedState.CANCELLED
    asked.has_answered_question = True
    plain.is_stamped = False

    assert choice(policy, cancelled, Tools()) == "cancelled"
    assert choice(policy, cancelled, Tools(), is_not_run=True) == "cancelled"
    assert choice(policy, asked, Tools()) == "question_answered"
    assert choice(policy, plain, Tools()) == "unstamped"
    assert choice(policy, owed(name="bare", task={"ttl": 1}), Tools()) == "task"
    assert choice(policy, owed(name="bare", arguments={"x": "y" * 2**20}), Tools()) == "too_large"
    assert choice(replace(policy, advertise_epoch=True), owed(name="bare"), Tools()) == "left_to_client"


def test_an_unknown_outcome_is_tried_once_more_only() -> None:
    policy = Policy(reissue=Reissue.ALWAYS)

    assert choice(policy, owed(name="bare"), Tools()) == "sent"
    assert choice(policy, owed(name="bare"), Tools(), count=1) == "max_reissues"
    assert choice(replace(policy, max_reissues=0), owed(name="bare"), Tools()) == "max_reissues"


def test_a_newer_list_replaces_the_older_page_by_page() -> None:
    """The last annotations known for the client session decide (R20)."""
    known = tools({"a": {"readOnlyHint": True}, "b": None})

    assert known.add_page(page({"a": None}, cursor="2"), is_first=True) == "2"
    assert "b" not in known.hints
    assert known.add_page(page({"b": {"destructiveHint": True}}), is_first=False) is None
    assert known.hints["a"].is_stated is False
    assert choice(Policy(), owed(name="b"), known) == "destructive"


def test_a_list_that_cannot_be_read_changes_nothing() -> None:
    known = tools({"a": {"destructiveHint": True}})

    assert known.add_page(b'{"tools":7}', is_first=True) is None
    assert choice(Policy(), owed(name="a"), known) == "destructive"


@pytest.mark.parametrize(
    ("policy", "name", "asks"),
    [
        (Policy(), "unheard_of", True),
        (Policy(), "bare", False),
        (Policy(reissue=Reissue.HINTED), "unheard_of", True),
        (Policy(reissue=Reissue.ALWAYS), "unheard_of", False),
        (Policy(reissue=Reissue.NEVER), "unheard_of", False),
        (Policy(reissue=Reissue.READS), "unheard_of", False),
        (Policy(safe_tools=frozenset({"unheard_of"})), "unheard_of", False),
        (Policy(never_reissue=frozenset({"unheard_of"})), "unheard_of", False),
    ],
)
def test_the_heal_asks_for_tools_where_the_decision_hangs_on_them(
    policy: Policy, name: str, asks: bool
) -> None:
    """And nowhere else (R20)."""
    assert reissue.needs_tools(policy, owed(name=name), tools(ANNOTATIONS)) is asks
    assert not reissue.needs_tools(policy, owed("resources/read"), Tools())


@pytest.mark.parametrize("tool", [b'{"name":"a","x":%b', b'{"name":"a","annotations":{"x":%b'])
def test_a_list_that_is_nested_too_deeply_teaches_nothing(tool: bytes) -> None:
    tools = Tools()

    assert tools.add_page(b'{"tools":[' + tool % (b"[" * 100_000), is_first=True) is None
    assert not tools.hints


def test_tools_are_learned_from_a_list_and_from_nothing_else() -> None:
    known = Tools()
    listed = b'{"id":1,"result":%b}' % page({"a": {"destructiveHint": True}}, cursor="2")

    assert reissue.read_tools_page(jsonrpc.read_message(listed), known, is_first=True) == "2"
    assert choice(Policy(), owed(name="a"), known) == "destructive"

    refused = jsonrpc.read_message(b'{"id":1,"error":{"code":-32601,"message":"no"}}')
    assert reissue.read_tools_page(refused, known, is_first=True) is None
    assert choice(Policy(), owed(name="a"), known) == "destructive"
