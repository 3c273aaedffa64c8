"""What a new server session is told before anything is sent again in it (R20, R25, R40)."""

from __future__ import annotations

import pytest

from epochgate.core.states import SessionState
from tests.core.messages import Json, error, initialize_answer, request, result
from tests.core.playbook import JSON, Play, opened, quiet
from tests.core.scenes import UP_2, drift, open_call, restoring, subscribed
from tests.core.sides import Exchange


def answer_initialize(play: Play) -> None:
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id, has_logging=play.has_logging), headers=(*JSON, UP_2))


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


@pytest.mark.parametrize("status", [401, 403, 405])
def test_a_refused_delete_lets_a_prelude_go_on(status: int) -> None:
    """Heals pause, and go on when the session is kept after all (R25)."""
    play = opened(replay_tools=("login",))
    play.call("login", id=1)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)
    exchange = play.call("work", id=2)
    play.refuse(play.leg("tools/call"), 404)
    deleted = play.delete()
    answer_initialize(play)
    if play.has_leg("notifications/initialized"):
        play.accept(play.leg("notifications/initialized"))
    play.refuse(play.sent("DELETE")[0], status)
    assert deleted.status == status

    if play.has_leg("notifications/initialized"):
        play.accept(play.leg("notifications/initialized"))
    while exchange.status is None:
        leg = play.leg()
        play.answer(leg, result(leg.id, {"tools": [{"name": "work"}]}))

    assert [leg.json["params"]["name"] for leg in play.sent("tools/call")][2:] == ["login", "work"]
    assert exchange.json["id"] == 2


def test_a_drift_takes_level_and_subscriptions_along() -> None:
    play = opened(epoch=7, has_logging=True)
    play.post(request("logging/setLevel", {"level": "debug"}, id=1))
    leg = play.leg("logging/setLevel")
    play.answer(leg, result(leg.id, {}, 7))
    quiet(play)

    drift(play, 8)

    assert play.leg("logging/setLevel").session_id == b"up-1"


@pytest.mark.parametrize("answer", [error(0), result(0, {"isError": True})])
def test_a_prelude_that_fails_is_an_incompatible_heal(answer: Json) -> None:
    """The state is not what it was (R40)."""
    play = opened(replay_tools=("login",))
    play.call("login", id=1)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)
    exchange = play.call(id=2)
    play.refuse(play.leg("tools/call"), 404)
    play.heal()

    prelude = play.leg("tools/call")
    play.answer(prelude, {**answer, "id": prelude.id})

    assert play.heals == [("session_gone", "incompatible")]
    assert exchange.json["error"]["code"] == -32051
    assert play.leg("DELETE").session_id == b"up-2"


def with_level(**settings: Json) -> tuple[Play, Exchange]:
    """A heal that is to put a log level back: its `initialize` is under way."""
    play = opened(has_logging=True, **settings)
    play.post(request("logging/setLevel", {"level": "info"}, id=1))
    play.answer(play.leg("logging/setLevel"), result(play.leg("logging/setLevel").id, {}))
    quiet(play)
    exchange = play.call()
    play.refuse(play.leg("tools/call"), 404)
    return play, exchange


def test_a_heal_that_nobody_wants_behind_a_refused_delete_restores_nothing() -> None:
    """The last one who waited gave up while the DELETE was under way."""
    play, exchange = with_level(heal_deadline_s=5.0)
    play.delete()
    answer_initialize(play)
    play.accept(play.leg("notifications/initialized"))
    play.advance(6)
    assert exchange.json["error"]["data"]["reason"] == "heal_deadline"

    play.refuse(play.sent("DELETE")[0], 405)

    assert [leg.session_id for leg in play.sent("logging/setLevel")] == [b"up-1"]


def test_what_is_answered_behind_the_end_of_the_session_leads_to_nothing_more() -> None:
    play, exchange = with_level()
    answer_initialize(play)
    play.accept(play.leg("notifications/initialized"))
    step = play.leg("logging/setLevel")
    play.delete()
    play.refuse(play.sent("DELETE")[0], 200)
    assert exchange.json["error"]["data"]["reason"] == "session_ended"

    play.answer(step, result(step.id, {}))

    assert not play.sent("tools/list")
    assert play.runs == 1


def test_tools_that_are_listed_behind_the_end_of_the_session_lead_to_nothing_more() -> None:
    play = opened()
    _, leg = open_call(play)
    play.cut(leg)
    one = play.leg("initialize")
    play.answer(one, initialize_answer(one.id), headers=(*JSON, UP_2))
    play.accept(play.leg("notifications/initialized"))
    listing = play.leg("tools/list")
    play.delete()
    play.refuse(play.sent("DELETE")[0], 200)

    play.answer(listing, result(listing.id, {"tools": [{"name": "work"}]}))

    assert play.runs == 1


def test_a_list_of_tools_that_cannot_be_had_ends_the_asking_and_withholds_the_call() -> None:
    """What is unknown is not run again."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)
    one = play.leg("initialize")
    play.answer(one, initialize_answer(one.id), headers=(*JSON, UP_2))
    play.accept(play.leg("notifications/initialized"))

    play.refuse(play.leg("tools/list"), 500)

    assert exchange.answer["error"]["code"] == -32050
    assert play.runs == 1


def test_tools_are_not_asked_for_where_nothing_hangs_on_them() -> None:
    play = opened()
    quiet(play)
    exchange = play.post(request("prompts/list", id=3))
    play.refuse(play.leg("prompts/list"), 404)

    play.heal()

    assert not play.sent("tools/list")
    again = play.leg("prompts/list")
    play.answer(again, result(again.id, {"prompts": []}))
    assert exchange.json["id"] == 3


def test_one_that_cannot_be_asked_is_tried_again() -> None:
    """Out of reach is not lost (R27)."""
    play, _, leg = restoring()

    play.unreachable(leg)
    play.advance(0.2)

    assert play.has_leg("initialize")
    assert play.session.state is SessionState.HEALING


def test_a_session_made_anew_that_says_it_is_not_initialised_is_healed() -> None:
    """A third session loses nothing that this one has (R1)."""
    play = opened(epoch=7)
    subscribed(play)
    drift(play, 8)

    leg = play.leg("resources/subscribe")
    play.answer(leg, error(leg.id, -32002, "Server not initialized"))

    assert play.has_leg("initialize")


def test_one_that_refuses_for_another_reason_is_left() -> None:
    play = opened(epoch=7)
    subscribed(play)
    drift(play, 8)

    leg = play.leg("resources/subscribe")
    play.answer(leg, error(leg.id, -32602, "no such resource"))

    assert not play.has_leg("initialize")
