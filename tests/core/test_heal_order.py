"""A heal: one transaction, single flight, in order, and for which streams (R18, R20, R24, R26)."""

from __future__ import annotations

from epochgate.core.commands import Reissued
from tests.core.messages import event, initialize_answer, notification, progress, request, result
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


def test_roots_that_changed_during_the_heal_are_told_to_the_new_session() -> None:
    """The one notification that may be sent after a heal (R37)."""
    play, _ = lost()
    play.post(notification("notifications/roots/list_changed"))
    play.heal()

    told = play.sent("notifications/roots/list_changed")
    assert [leg.session_id for leg in told] == [b"up-2"]
