"""An unused session makes room for another; one in use never does (G8)."""

from __future__ import annotations

from epochgate.core import ending, http
from epochgate.core.states import SessionState
from tests.core.messages import event, notification, result
from tests.core.playbook import opened
from tests.core.scenes import BOB, evicted, lost, running


def test_a_session_is_unused_before_its_first_request_and_after_its_last_answer() -> None:
    play = opened()
    assert ending.is_unused(play.session)
    play.call()
    assert not ending.is_unused(play.session)
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))
    assert ending.is_unused(play.session)


def test_a_session_whose_answer_was_written_to_its_client_is_unused() -> None:
    play, exchange, leg = running(2)
    assert not ending.is_unused(play.session)
    play.send(leg, event(result(leg.id)))
    assert not exchange.is_open
    assert ending.is_unused(play.session)


def test_a_session_that_keeps_what_its_client_did_not_read_is_in_use() -> None:
    play, exchange, leg = running(2)
    play.leave(exchange)
    assert not ending.is_unused(play.session)
    play.send(leg, event(result(leg.id)))
    assert not ending.is_unused(play.session)
    again = play.get(exchange.last_id)
    assert again.answer == result(5)
    assert ending.is_unused(play.session)


def test_a_session_with_a_standalone_stream_is_in_use() -> None:
    play = opened()
    play.get()
    play.open(play.leg("GET"))
    assert not ending.is_unused(play.session)


def test_a_session_whose_standalone_stream_waits_for_its_client_is_in_use() -> None:
    """Written is not delivered, and the server's stream is reopened behind the client's back."""
    play = opened()
    exchange = play.get()
    play.open(play.leg("GET"))
    play.send(play.leg("GET"), event(notification("notifications/tools/list_changed")))
    play.leave(exchange)
    play.cut(play.leg("GET"))
    assert not play.session.legs
    assert not ending.is_unused(play.session)


def test_a_session_that_is_healed_or_waits_for_its_heal_is_in_use() -> None:
    play, _ = lost()
    assert not ending.is_unused(play.session)


def test_an_evicted_session_ends_on_the_server_in_its_last_caller_s_name_and_is_forgotten() -> None:
    play = opened()
    play.call(who=BOB)
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))
    evicted(play)
    (delete,) = play.sent("DELETE")
    assert (delete.session_id, http.find(delete.headers, b"authorization")) == (b"up-1", BOB)
    assert not play.is_forgotten
    play.refuse(delete, 200)
    assert play.is_forgotten
    assert play.counted == ["session_evictions"]


def test_an_idle_limit_ends_the_server_s_session_too() -> None:
    play = opened(session_idle_s=20.0)
    play.advance(25)
    (delete,) = play.sent("DELETE")
    assert delete.session_id == b"up-1"
    play.refuse(delete, 204)
    assert play.session.state is SessionState.ENDED
