"""A server that has left the place where the session was begun: nobody is asked there again."""

from __future__ import annotations

from epochgate.core.events import DrainBegun, LegEnd
from tests.core.messages import event, result
from tests.core.playbook import MARK, opened
from tests.core.scenes import BOB, open_call


def test_what_never_broke_goes_on_while_the_session_is_healed_elsewhere() -> None:
    """R18: it goes away when its last answer is given."""
    play = opened()
    running, leg = open_call(play)
    other = play.call(id=6)
    play.end(play.leg("tools/call"), LegEnd.GONE)
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))

    play.send(leg, event(result(leg.id, {"of": "the first"})))

    assert running.answer == result(5, {"of": "the first"})
    assert other.json["result"]["_meta"][MARK]["reissued"] is False
    assert not play.sent("DELETE")  # nobody is there to be told


def test_a_strangers_call_heals_nothing() -> None:
    """R32: whoever has the id alone cannot move the session."""
    play = opened()
    bob = play.call(who=BOB)
    play.end(play.leg("tools/call"), LegEnd.GONE)

    assert bob.json["error"]["code"] == -32051
    assert not play.has_leg("initialize")


def test_a_delete_is_done_for_its_client() -> None:
    play = opened()
    exchange = play.delete()
    play.end(play.leg("DELETE"), LegEnd.GONE)

    assert exchange.status == 200
    assert play.post(result(0)).status == 404


def test_a_call_that_finds_the_next_server_gone_as_well_is_healed_again_and_then_given_up() -> None:
    """It never ran; twice is enough (R28)."""
    play = opened()
    exchange = play.call()
    for number in (2, 3):
        play.end(play.leg("tools/call"), LegEnd.GONE)
        play.heal(b"up-%d" % number)
    play.end(play.leg("tools/call"), LegEnd.GONE)

    assert exchange.json["error"]["data"]["reason"] == "upstream_lost"
    assert play.runs == 3


def test_nothing_is_healed_by_a_process_that_goes_away() -> None:
    play = opened()
    play.feed(DrainBegun(play.now + 20))
    exchange = play.call()
    play.end(play.leg("tools/call"), LegEnd.GONE)

    assert exchange.json["error"]["code"] == -32051
    assert not play.has_leg("initialize")
