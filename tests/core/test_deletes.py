"""DELETE wins over everything (R25)."""

from __future__ import annotations

import pytest

from epochgate.core.events import LegEnd
from epochgate.core.states import SessionState
from tests.core.messages import event, initialize_answer, progress, result
from tests.core.playbook import JSON, opened
from tests.core.scenes import lost, open_call


def test_what_cannot_be_read_goes_nowhere_when_the_session_is_over() -> None:
    play = opened()
    play.delete()
    play.refuse(play.leg("DELETE"), 200)

    exchange = play.post(b"no JSON")

    assert exchange.status == 404
    assert not [leg for leg in play.legs.values() if leg.body == b"no JSON"]


@pytest.mark.parametrize("status", [401, 403, 405])
def test_a_delete_that_is_refused_passes_and_keeps_the_session(status: int) -> None:
    """401, 403 and 405 (R25)."""
    play = opened()
    running, leg = open_call(play)
    exchange = play.delete()
    play.refuse(play.leg("DELETE"), status)

    assert exchange.status == status
    play.send(leg, event(result(leg.id)))
    assert running.answer == result(5)


def test_streams_that_the_delete_ends_cleanly_are_neither_resumed_nor_healed() -> None:
    """The server closes them without a response before it answers the DELETE (R25)."""
    play = opened(epoch=7)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(progress(leg.token, 1, 7), 1))
    play.delete()
    play.end(leg, LegEnd.CLEAN)
    assert not play.has_leg("GET")
    assert not play.has_leg("initialize")

    play.refuse(play.leg("DELETE"), 200)

    assert exchange.answer["error"]["data"]["reason"] == "session_ended"
    assert play.runs == 1


def test_a_delete_during_a_heal_ends_the_session_that_is_being_made_too() -> None:
    """No hidden run in an orphan session (R25)."""
    play, exchange = lost()
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id), headers=(*JSON, (b"Mcp-Session-Id", b"up-2")))
    deleted = play.delete()
    first = next(one for one in play.sent("DELETE") if one.session_id == b"up-1")
    play.refuse(first, 404)
    play.accept(play.leg("notifications/initialized")) if play.has_leg("notifications/initialized") else None

    assert deleted.status == 200
    assert exchange.json["error"]["code"] == -32051
    assert b"up-2" in {one.session_id for one in play.sent("DELETE")}
    assert play.runs == 1
    assert play.session.state is SessionState.ENDED


def test_every_live_upstream_session_is_ended() -> None:
    """The old one of a stream that never broke, too (R25)."""
    play = opened()
    open_call(play, id=1)
    _, broken = open_call(play, id=2)
    play.cut(broken)
    play.heal()
    exchange = play.delete()
    play.refuse(next(leg for leg in play.sent("DELETE") if leg.session_id == b"up-2"), 200)

    assert {leg.session_id for leg in play.sent("DELETE")} == {b"up-1", b"up-2"}
    assert exchange.status == 200


@pytest.mark.parametrize("how", [LegEnd.NOT_SENT, LegEnd.BROKEN])
def test_a_delete_that_the_server_cannot_be_told_of_ends_the_session_all_the_same(how: LegEnd) -> None:
    play = opened()
    exchange = play.delete()
    running, _ = open_call(play)
    play.end(play.leg("DELETE"), how)

    assert exchange.status == 200
    assert running.answer["error"]["data"]["reason"] == "session_ended"
    assert play.call(id=6).status == 404


def test_an_ended_session_is_forgotten() -> None:
    play = opened()
    play.delete()
    play.refuse(play.leg("DELETE"), 200)

    play.advance(61)

    assert play.is_forgotten
    assert play.session.next_deadline() is None
