"""The standalone stream across a heal: what the old one journalled stays due (R12, R24)."""

from __future__ import annotations

from tests.core.messages import ask, event, initialize_answer, log, request, result
from tests.core.playbook import JSON, opened, quiet
from tests.core.scenes import UP_2, listening, say, texts


def test_it_is_reopened_before_the_commit_and_lists_may_have_changed() -> None:
    """Design, section 8: `list_changed` for each capability that declares it."""
    play, exchange, _ = listening()
    call = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    get = play.sent("GET")[-1]

    assert get.session_id == b"up-2"
    assert get.number < again.number
    assert texts(exchange) == ["notifications/tools/list_changed"]
    play.answer(again, result(again.id))
    assert call.answer["id"] == 5


def test_after_a_heal_what_the_old_one_journalled_comes_first() -> None:
    """The trace: successors of standalone streams follow, they do not replace (R12)."""
    play, first, leg = listening()
    say(play, leg, "a")
    play.leave(first)
    say(play, leg, "b", "c")
    play.call(token=1)
    call = play.leg("tools/call")
    play.open(call)
    play.cut(call)
    play.heal()
    new = play.sent("GET")[-1]
    assert new.session_id == b"up-2"
    play.open(new)
    say(play, new, "d")

    second = play.get(first.last_id)
    say(play, new, "e")

    assert [word for word in texts(first, second) if len(word) == 1] == ["a", "b", "c", "d", "e"]


def test_a_plain_get_after_a_heal_gets_it_too() -> None:
    """What was journalled but never written to any leg (R12)."""
    play, first, leg = listening()
    play.leave(first)
    say(play, leg, "b")
    play.call(token=1)
    call = play.leg("tools/call")
    play.open(call)
    play.cut(call)
    play.heal()
    play.open(play.sent("GET")[-1])

    second = play.get()

    assert [word for word in texts(second) if len(word) == 1] == ["b"]


def test_a_question_of_a_dead_generation_is_not_replayed() -> None:
    """A leg drains the old journal less requests of the dead generation (R12)."""
    play, first, leg = listening()
    say(play, leg, "a")
    play.leave(first)
    play.send(leg, event(ask(0)))
    say(play, leg, "b")
    play.call(token=1)
    call = play.leg("tools/call")
    play.open(call)
    play.cut(call)
    play.heal()
    play.open(play.sent("GET")[-1])

    second = play.get(first.last_id)

    assert [one for one in second.messages if one.get("method") == "elicitation/create"] == []
    assert "b" in texts(second)


def test_a_get_during_a_heal_is_primed_at_once_and_served_after_it() -> None:
    """HEALING (R24)."""
    play, first, _ = listening()
    play.leave(first)
    play.call(token=1)
    call = play.leg("tools/call")
    play.open(call)
    play.cut(call)
    second = play.get()
    assert second.status == 200

    play.heal()
    new = play.sent("GET")[-1]
    assert new.session_id == b"up-2"
    play.open(new)
    say(play, new, "x")
    assert "x" in texts(second)


def test_a_first_get_during_a_heal_is_answered_at_once_and_served_after_it() -> None:
    play = opened()
    play.call(token=1)
    call = play.leg("tools/call")
    play.open(call)
    play.cut(call)

    exchange = play.get()

    assert exchange.status == 200
    assert not play.has_leg("GET")
    play.heal()
    new = play.leg("GET")
    assert new.session_id == b"up-2"
    play.open(new)
    say(play, new, "x")
    assert texts(exchange) == ["notifications/tools/list_changed", "x"]


def test_a_first_get_that_finds_the_session_gone_is_answered_at_once_and_served_after_the_heal() -> None:
    play = opened()
    exchange = play.get()

    play.refuse(play.leg("GET"), 404)

    assert exchange.status == 200
    play.heal()
    new = play.leg("GET")
    assert new.session_id == b"up-2"
    play.open(new)
    say(play, new, "x")
    assert texts(exchange) == ["notifications/tools/list_changed", "x"]


def test_a_cursor_of_the_standalone_stream_of_a_lost_session_is_told_that_it_is_gone() -> None:
    play, exchange, leg = listening(epoch=7)
    play.send(leg, event(log("a", 7), 1))
    play.cut(leg)
    play.refuse(play.leg("GET"), 404)
    again = play.leg("initialize")
    play.answer(again, initialize_answer(again.id, capabilities={}), headers=(*JSON, UP_2))
    assert play.heals == [("session_gone", "incompatible")]

    late = play.get(exchange.last_id)
    play.refuse(play.leg("GET"), 404)

    assert late.status == 404


def test_a_listener_that_returns_to_a_lost_session_has_it_healed() -> None:
    """The next caller tries again (R27)."""
    play, first, leg = listening(epoch=7)
    play.send(leg, event(log("a", 7), 1))
    play.leave(first)
    play.cut(leg)
    play.refuse(play.leg("GET"), 404)
    assert not play.has_leg("initialize")

    second = play.get(first.last_id)
    assert second.status == 200
    play.heal(epoch=8)
    new = play.leg("GET")
    play.open(new)
    play.send(new, event(log("b", 8), 1))
    assert "b" in texts(second)


def test_a_drift_opens_it_in_the_session_that_was_made_anew() -> None:
    """The old session's stream would stay silent, and updates go to the one that is subscribed now (R1)."""
    play, exchange, leg = listening(epoch=7)
    play.send(leg, event(log("a", 7), 1))
    play.post(request("ping", id="p"))
    ping = play.leg("ping")
    play.answer(ping, result(ping.id, {}, 8))

    assert not leg.is_open
    play.open(play.leg("GET"))
    play.send(play.leg("GET"), event(log("b", 8), 1))
    assert texts(exchange) == ["a", "b"]


def test_what_a_lost_session_asked_on_it_is_called_off() -> None:
    """Nobody waits for the answer any more; the person who is asked should know (R18)."""
    play, exchange, leg = listening()
    play.send(leg, event(ask(0)))
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.refuse(play.leg("ping"), 404)

    play.heal()

    (cancelled,) = [one for one in exchange.messages if one["method"] == "notifications/cancelled"]
    assert cancelled["params"]["requestId"] == 0
    answer = play.post(result(0, {"action": "accept"}))
    assert answer.status == 202
    assert play.dropped == ["stale_answer"]
