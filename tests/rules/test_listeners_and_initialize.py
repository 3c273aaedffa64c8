"""A second `initialize`, undo tools, older clients, history that comes again (R24, R40, R44, W16)."""

from __future__ import annotations

import pytest

from epochgate.core import http
from epochgate.core.states import SessionState
from tests.core.messages import event, initialize, initialize_answer, log, progress, request, result
from tests.core.playbook import JSON, Play, opened, quiet
from tests.core.scenes import UP_2, listening, lost, open_call, say, texts
from tests.core.sides import Upstream


def answer_initialize(play: Play, leg: Upstream, session_id: bytes) -> None:
    play.answer(leg, initialize_answer(leg.id), headers=(*JSON, (b"Mcp-Session-Id", session_id)))


# --- R24 --------------------------------------------------------------------------------------------


def test_a_second_initialize_that_keeps_the_id_is_a_new_generation() -> None:
    """It passes unstamped; what runs stays in its own generation (R24)."""
    play = opened()
    running, leg = open_call(play)
    exchange = play.post(initialize(id="again"))
    second = play.leg("initialize")
    assert (second.id, second.session_id) == ("again", b"up-1")
    answer_initialize(play, second, b"up-1")
    play.send(leg, event(result(leg.id)))

    assert exchange.json == initialize_answer("again")
    assert running.answer == result(5)
    assert play.session.current.number == 2
    assert play.session.state is SessionState.LIVE


def test_a_second_initialize_during_a_heal_waits_for_its_end() -> None:
    """Then it is as in a live session (R24)."""
    play, _ = lost()
    exchange = play.post(initialize(id="again"))
    assert [leg.id == "again" for leg in play.sent("initialize")] == [False, False]
    play.heal()

    second = play.sent("initialize")[-1]
    assert (second.id, second.session_id) == ("again", b"up-2")
    answer_initialize(play, second, b"up-2")
    assert exchange.json["id"] == "again"


@pytest.mark.parametrize("status", [400, 401, 409, 500])
def test_a_second_initialize_that_is_refused_changes_nothing(status: int) -> None:
    """Its answer passes (R24)."""
    play = opened()
    exchange = play.post(initialize(id="again"))
    play.refuse(play.leg("initialize"), status, b"no")

    assert (exchange.status, exchange.body) == (status, b"no")
    assert play.session.current.number == 1
    assert play.session.state is SessionState.LIVE


def test_an_initialize_in_a_lost_session_opens_another() -> None:
    """The old id is not told to the server (R24)."""
    play, _ = lost()
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id, capabilities={}), headers=(*JSON, UP_2))
    assert play.session.state is SessionState.LOST

    play.post(initialize(id="again"))

    second = play.leg("initialize")
    assert (second.id, second.session_id) == ("again", None)


# --- R40 --------------------------------------------------------------------------------------------


def test_what_was_closed_again_is_not_opened_by_a_heal() -> None:
    """`close_workspace` undoes `open_workspace` (R40)."""
    play = opened(replay_tools=("login", "open"), undo_tools=(("close", "open"),))
    for number, tool in enumerate(("login", "open", "close"), 1):
        play.call(tool, id=number)
        play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)
    play.call("work", id=9)
    play.refuse(play.leg("tools/call"), 404)
    play.heal()
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    if play.has_leg("tools/list"):
        play.answer(play.leg("tools/list"), result(play.leg("tools/list").id, {"tools": [{"name": "work"}]}))

    names = [leg.json["params"]["name"] for leg in play.sent("tools/call") if leg.session_id == b"up-2"]
    assert names == ["login", "work"]


# --- R44 --------------------------------------------------------------------------------------------


def older(version: str = "2025-06-18") -> tuple[Play, bytes]:
    """A client whose call was resumed, quiet, and is away again while its own GET is live."""
    play, listener, _ = listening(version=version)
    exchange, _ = open_call(play)
    play.leave(exchange)
    resumed = play.get(exchange.last_id)
    assert resumed.status == 200
    play.leave(resumed)
    play.advance(10)
    assert listener.is_open
    return play, exchange.last_id


def test_a_client_without_priming_does_not_take_its_own_listener_over() -> None:
    """TypeScript resumes without a cursor after a quiet resume: its call would hang (R44)."""
    play, cursor = older()
    exchange = play.get()
    assert exchange.status == 409
    assert http.find(exchange.headers, b"retry-after") is not None

    back = play.get(cursor)
    leg = play.leg("tools/call")
    play.send(leg, event(progress(leg.token, 2)), event(result(leg.id)))

    assert back.messages == [progress(5, 2), result(5)]


def test_it_takes_it_over_once_nothing_of_it_is_away() -> None:
    """Or its listener is gone (R44)."""
    play, cursor = older()
    play.get(cursor)
    assert play.get().status == 200

    other, _ = older()
    other.leave(other.exchanges[3])
    assert other.get().status == 200


def test_a_client_that_is_primed_is_not_kept_from_its_stream() -> None:
    """It has a cursor whatever happened (R44)."""
    play, _ = older("2025-11-25")

    assert play.get().status == 200


# --- W16 --------------------------------------------------------------------------------------------


def test_history_that_a_reopened_stream_tells_again_is_told_once() -> None:
    """Go with a store and rmcp replay from 0 on every GET (W16)."""
    play, exchange, leg = listening()
    play.send(leg, *[event(log(word), number) for number, word in enumerate("abc")])
    play.cut(leg)
    play.advance(2)
    again = play.leg("GET")
    play.open(again)
    play.send(again, *[event(log(word), number) for number, word in enumerate("abcd")])

    assert texts(exchange) == ["a", "b", "c", "d"]


def test_the_same_ids_in_the_next_generation_are_other_events() -> None:
    """A new session object counts from 0 as well (W16)."""
    play, exchange, leg = listening()
    play.send(leg, event(log("a"), 0))
    quiet(play)
    play.post(request("ping", id="p"))
    play.refuse(play.leg("ping"), 404)
    if play.has_leg("ping"):
        play.refuse(play.leg("ping"), 404)
    play.heal()
    again = play.leg("GET")
    assert again.session_id == b"up-2"
    play.open(again)
    play.send(again, event(log("a"), 0))
    say(play, again, "b")

    assert [text for text in texts(exchange) if "/" not in text] == ["a", "a", "b"]
