"""A session that is lost: healed, shown to the client, parked, or over (R21, R26, R27, R45)."""

from __future__ import annotations

from epochgate.core.commands import HealBegun
from epochgate.core.policy import SessionLoss
from epochgate.core.states import SessionState
from tests.core.messages import event, result
from tests.core.playbook import MARK, opened, quiet
from tests.core.scenes import broken, lost, open_call


def test_after_a_heal_the_first_answer_carries_the_mark_until_one_was_delivered() -> None:
    """Even for a call that provably did not run, and without logging (R21); G7."""
    play, exchange = lost()
    play.heal()
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))
    second = play.call(id=6)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))

    mark = exchange.json["result"]["_meta"][MARK]
    assert mark == {"reason": "session_gone", "generation": 2, "discarded_events": 0, "reissued": False}
    assert second.json == result(6)


def test_a_404_while_the_session_shows_life_is_checked_by_one_ping() -> None:
    """Two replicas behind one address (R26)."""
    play = opened()
    exchange = play.call()
    play.refuse(play.leg("tools/call"), 404)
    ping = play.leg("ping")
    assert ping.session_id == b"up-1"
    play.answer(ping, result(ping.id, {}))

    assert play.counted == ["affinity_faults"]
    again = play.leg("tools/call")
    assert again.session_id == b"up-1"
    play.answer(again, result(again.id))
    assert exchange.json == result(5)
    assert not play.heals


def test_a_ping_that_meets_404_too_is_the_loss() -> None:
    """The young answer was the last one (R26)."""
    play = opened()
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.refuse(play.leg("ping"), 404)

    assert play.has_leg("initialize")


def test_heals_have_a_budget() -> None:
    """Three in a minute, then the session is lost (R26); G8."""
    play, exchange = lost()
    for number in (2, 3, 4):
        play.heal(b"up-%d" % number)
        quiet(play)
        leg = play.leg("tools/call")
        play.answer(leg, result(leg.id))
        quiet(play)
        exchange = play.call(id=number)
        play.refuse(play.leg("tools/call"), 404)

    assert [outcome for _, outcome in play.heals] == ["healed", "healed", "healed", "lost"]
    assert exchange.json["error"]["code"] == -32051
    assert play.session.state is SessionState.LOST


def test_a_stream_that_never_broke_goes_on_when_its_session_is_lost() -> None:
    """Section 2: stays if unbroken."""
    play = opened(session_loss=SessionLoss.SURFACE)
    running, leg = open_call(play)
    second = play.call(id=6)
    play.refuse(play.leg("tools/call") if play.leg("tools/call") is not leg else leg, 404)
    play.refuse(play.leg("ping"), 404)
    assert second.status == 404
    assert play.session.state is SessionState.LOST

    play.send(leg, event(result(leg.id)))

    assert running.answer["id"] == 5


def test_a_cursor_is_still_served_when_the_session_is_lost() -> None:
    """Section 2: LOST: journal, errors."""
    play = opened(session_loss=SessionLoss.SURFACE)
    running, leg = open_call(play)
    play.leave(running)
    play.send(leg, event(result(leg.id)))
    quiet(play)
    play.call(id=6)
    play.refuse(play.leg("tools/call"), 404)
    assert play.session.state is SessionState.LOST

    assert play.get(running.last_id).answer == result(5)


def test_an_answer_of_the_last_five_seconds_is_a_sign_of_life() -> None:
    """Only so young a one (R26)."""
    play = opened()
    quiet(play)
    play.call(id=1)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    play.advance(4)

    play.call(id=2)
    play.refuse(play.leg("tools/call"), 404)

    assert play.has_leg("ping")
    assert not play.has_leg("initialize")


def test_a_loss_of_generation_2_reported_after_3_is_live_joins_it() -> None:
    """Never another heal: a loss names its generation (R26)."""
    play = opened()
    calls = []
    for number in (1, 2):  # one call that stays unbroken in each generation, one that is cut
        kept = open_call(play, id=number)
        _, cut = open_call(play, id=number + 10)
        play.cut(cut)
        play.heal(b"up-%d" % (number + 1))
        calls.append(kept)
    (exchange, leg) = calls[1]
    assert leg.session_id == b"up-2"
    assert play.session.current.number == 3

    play.cut(leg)

    again = play.sent("tools/call")[-1]
    assert again.session_id == b"up-3"
    play.answer(again, result(again.id))
    assert exchange.answer["id"] == 2
    assert len(play.facts(HealBegun)) == 2


def test_a_session_that_is_lost_while_nobody_waits_is_healed_for_who_comes_back() -> None:
    play, exchange = broken()
    play.leave(exchange)
    play.refuse(play.leg("GET"), 404)
    assert play.session.state is SessionState.PARKED

    play.get(exchange.last_id)

    assert play.has_leg("initialize")


def test_a_late_loss_whose_second_run_hangs_on_unknown_tools_has_them_asked_for() -> None:
    """Then it joins the session that there is."""
    play = opened(tools=None)
    play.tools = []
    first, one = open_call(play, id=1)
    _, two = open_call(play, id=2)
    play.cut(two)
    play.heal()
    play.cut(one)
    listing = play.leg("tools/list")
    assert listing.session_id == b"up-2"

    play.answer(listing, result(listing.id, {"tools": [{"name": "work"}]}))

    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert first.answer["id"] == 1
    assert len(play.sent("initialize")) == 2
