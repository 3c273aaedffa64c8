"""A heal: one transaction, single flight, in order, and for which streams (R18, R20, R24, R26)."""

from __future__ import annotations

import pytest

from epochgate.core.commands import HealBegun, Reissued
from epochgate.core.states import SessionState
from tests.core.messages import (
    Json,
    event,
    initialize_answer,
    notification,
    progress,
    request,
    result,
)
from tests.core.playbook import JSON, opened, quiet
from tests.core.scenes import UP_2, learn_tools, lost, open_call


def test_the_steps_of_a_heal_come_in_order_and_the_client_keeps_its_id() -> None:
    """initialize, initialized, restore, commit, re-issue (R24, W9)."""
    play = opened(has_logging=True, replay_tools=("login",))
    for message in (
        request("logging/setLevel", {"level": "info"}, id=1),
        request("resources/subscribe", {"uri": "file:///a"}, id=2),
        request(
            "tools/call", {"name": "login", "arguments": {"user": "x"}, "_meta": {"progressToken": 9}}, id=3
        ),
    ):
        play.post(message)
        play.answer(play.leg(), result(play.leg().id, {}))
    quiet(play)
    exchange = play.call()
    play.refuse(play.leg("tools/call"), 404)
    began = len(play.legs)

    leg = play.leg("initialize")
    assert leg.session_id is None
    assert leg.json["params"]["protocolVersion"] == "2025-11-25"
    play.answer(leg, initialize_answer(leg.id, has_logging=True), headers=(*JSON, UP_2))
    play.accept(play.leg("notifications/initialized"))
    for _ in range(5):
        step = play.leg()
        play.answer(step, result(step.id, {"tools": [{"name": "work"}]}))
    assert play.heals == [("session_gone", "healed")]

    legs = list(play.legs.values())[began - 1 :]
    assert [one.rpc for one in legs] == [
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
        "tools/call",  # the prelude
        "tools/list",
        "tools/call",  # the call itself
    ]
    assert {one.session_id for one in legs[1:]} == {b"up-2"}
    assert legs[4].json["params"] == {"name": "login", "arguments": {"user": "x"}}
    assert exchange.json["id"] == 5
    assert UP_2 not in exchange.headers


def test_many_losses_of_one_generation_are_one_heal() -> None:
    """Single flight."""
    play = opened()
    calls = [open_call(play, id=id) for id in (1, 2, 3)]
    for _, leg in calls:
        play.cut(leg)

    play.heal()
    for leg in play.sent("tools/call")[3:]:
        play.answer(leg, result(leg.id))

    assert len(play.facts(HealBegun)) == 1
    assert [exchange.answer["id"] for exchange, _ in calls] == [1, 2, 3]
    assert len(play.sent("initialize")) == 2


def test_nothing_is_sent_again_before_the_commit() -> None:
    """The commit is durable first (R24)."""
    play, _ = lost()
    play.is_persisting = False
    play.heal()
    assert play.runs == 1

    play.persist()
    assert play.runs == 2


def test_requests_wait_for_the_commit_and_go_up_in_the_new_session() -> None:
    """Sent before, it would run ahead of what is restored (R24)."""
    play, _ = lost()
    second = play.call("other", id=6)
    assert play.runs == 1
    play.heal()

    leg = next(one for one in play.sent("tools/call") if one.json["params"]["name"] == "other")
    assert leg.session_id == b"up-2"
    play.answer(leg, result(leg.id))
    assert second.json["id"] == 6
    assert not [one for one in play.facts(Reissued) if one.outcome != "sent"]


def test_a_request_waits_at_most_the_heal_deadline() -> None:
    """Then -32051 (R24, R27)."""
    play, first = lost(heal_deadline_s=45.0)
    play.advance(5)
    second = play.call(id=6)
    while play.has_leg("initialize"):
        play.unreachable(play.leg("initialize"))
        play.advance(3)

    assert first.json["error"]["code"] == second.json["error"]["code"] == -32051
    assert first.json["error"]["data"]["reason"] == "heal_deadline"
    assert play.runs == 1
    assert play.session.state is SessionState.PARKED


def test_answers_notifications_and_cancels_never_wait() -> None:
    """The table of what arrives during a heal (R24)."""
    play, first = lost()
    second = play.call("other", id=6)

    assert play.post(notification("notifications/roots/list_changed")).status == 202
    assert play.post(result(99)).status == 202
    assert play.post(notification("notifications/cancelled", {"requestId": 6})).status == 202
    play.heal()

    assert play.runs == 2  # the cancelled one was taken off the queue
    play.advance(6)
    assert not second.is_open
    assert first.is_open


def test_a_stream_that_never_broke_survives_the_heal_of_another() -> None:
    """It stays bound to its generation (R18)."""
    play = opened()
    healthy, one = open_call(play, id=1)
    broken, two = open_call(play, id=2)
    play.cut(two)
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert again.session_id == b"up-2"

    play.send(one, event(progress(one.token, 2)), event(result(one.id)))

    assert [item["id"] for item in healthy.answers] == [1]
    assert healthy.messages[-2]["params"]["progress"] == 2
    assert broken.answer["id"] == 2
    assert play.runs == 3
    play.accept(play.leg("notifications/cancelled"))
    assert play.leg("DELETE").session_id == b"up-1"  # R26: ended with its last stream


def test_a_late_loss_of_the_old_generation_joins_the_new_one() -> None:
    """A loss names its generation (R26)."""
    play = opened()
    first, one = open_call(play, id=1)
    _, two = open_call(play, id=2)
    play.cut(two)
    play.heal()

    play.cut(one)

    again = play.sent("tools/call")[-1]
    assert again.session_id == b"up-2"
    play.answer(again, result(again.id))
    assert first.answer["id"] == 1
    assert len(play.sent("initialize")) == 2


def test_the_run_that_may_still_go_on_is_cancelled_before_the_call_is_sent_again() -> None:
    """Of a generation that is not proven gone (R26)."""
    play = opened()
    _, leg = open_call(play)
    play.cut(leg)
    play.heal()

    cancelled = play.leg("notifications/cancelled")
    assert (cancelled.session_id, cancelled.json["params"]["requestId"]) == (b"up-1", leg.id)
    assert cancelled.number < play.leg("tools/call").number


def test_a_session_that_is_proven_gone_is_left_alone() -> None:
    """Nothing there is to be cancelled or ended (R26)."""
    play, _ = lost()
    play.heal()
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))

    assert not play.sent("notifications/cancelled")
    assert not play.sent("DELETE")


def test_a_broken_stream_whose_client_is_away_waits_for_its_return() -> None:
    """Design, section 9: `reissue_when_away` is off."""
    play = opened()
    exchange, leg = open_call(play)
    play.leave(exchange)
    play.cut(leg)
    assert not play.has_leg("initialize")

    second = play.get(exchange.last_id)
    assert second.status == 200
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))

    assert second.answer["id"] == 5
    assert play.runs == 2


def test_a_request_that_nobody_waits_for_is_never_sent() -> None:
    play, _ = lost()
    second = play.call("other", id=6)
    play.leave(second)
    play.heal()

    assert [leg.json["params"]["name"] for leg in play.sent("tools/call")] == ["work", "work"]


def test_annotations_of_the_old_generation_hold_in_the_new_one() -> None:
    """The trace: `order` is destructive whatever generation it was sent in (R20)."""
    play = opened(tools=[])
    learn_tools(play, {"name": "work", "annotations": {"destructiveHint": True}}, {"name": "safe"})
    quiet(play)
    other = play.call("safe", id=1)
    play.refuse(play.leg("tools/call"), 404)
    play.heal()
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    assert other.json["id"] == 1
    exchange, leg = open_call(play)
    assert leg.session_id == b"up-2"

    play.cut(leg)

    assert exchange.answer["error"]["code"] == -32050
    assert len([one for one in play.sent("tools/call") if one.json["params"]["name"] == "work"]) == 1


@pytest.mark.parametrize(
    ("tools", "runs"),
    [
        ([{"name": "work"}], 2),
        ([{"name": "work", "annotations": {"destructiveHint": True}}], 1),
        ([{"name": "work"}, {"name": "x", "annotations": {"readOnlyHint": True}}], 1),
        ([{"name": "other"}], 1),
    ],
)
def test_the_heal_asks_for_tools_that_nothing_is_known_of(tools: list[Json], runs: int) -> None:
    """Still nothing: withhold (R20)."""
    play = opened(tools=tools)
    exchange, leg = open_call(play)
    play.cut(leg)
    play.heal()

    assert play.runs == runs
    assert exchange.is_open is (runs == 2)
    if runs == 1:
        assert exchange.answer["error"]["code"] == -32050


def test_all_pages_of_tools_are_asked_for() -> None:
    """The tool may stand on the last (R20)."""
    play = opened()
    _, leg = open_call(play)
    play.cut(leg)
    one = play.leg("initialize")
    play.answer(one, initialize_answer(one.id), headers=(*JSON, UP_2))
    play.accept(play.leg("notifications/initialized"))

    first = play.leg("tools/list")
    play.answer(first, result(first.id, {"tools": [{"name": "a"}], "nextCursor": "p2"}))
    second = play.leg("tools/list")
    assert second.json["params"] == {"cursor": "p2"}
    play.answer(second, result(second.id, {"tools": [{"name": "work"}]}))

    assert play.runs == 2


def test_roots_that_changed_during_the_heal_are_told_to_the_new_session() -> None:
    """The one notification that may be sent after a heal (R37)."""
    play, _ = lost()
    play.post(notification("notifications/roots/list_changed"))
    play.heal()

    told = play.sent("notifications/roots/list_changed")
    assert [leg.session_id for leg in told] == [b"up-2"]


def test_the_prelude_is_the_last_call_of_each_tool_in_order() -> None:
    """Last arguments each (R40)."""
    play = opened(replay_tools=("login", "open"))
    for tool, value in (("login", 1), ("open", 2), ("login", 3), ("other", 4)):
        play.post(request("tools/call", {"name": tool, "arguments": {"x": value}}, id=value))
        play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    before = play.runs
    play.heal()
    for _ in range(2):
        play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))

    replayed = [leg.json["params"] for leg in play.sent("tools/call")[before : before + 2]]
    assert replayed == [
        {"name": "open", "arguments": {"x": 2}},
        {"name": "login", "arguments": {"x": 3}},
    ]


def test_a_call_of_the_undo_tool_takes_its_tool_out_of_the_prelude() -> None:
    """What was closed again is not opened anew (R40)."""
    play = opened(replay_tools=("login", "open"), undo_tools=(("close", "open"),))
    for tool in ("login", "open", "close"):
        play.call(tool)
        play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))

    assert list(play.session.prelude) == ["login"]


def test_a_call_that_failed_is_not_part_of_the_prelude() -> None:
    """It left nothing to rebuild, and would make every heal fail (R40)."""
    play = opened(replay_tools=("login",))
    play.call("login")
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id, {"isError": True}))

    assert list(play.session.prelude) == []
