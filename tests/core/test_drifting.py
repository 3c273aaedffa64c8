"""A session that the server made anew by itself: what it is given, and what of the old one goes on (R1)."""

from __future__ import annotations

import pytest

from epochgate.core.events import LegEnd
from tests.core.messages import ask, event, log, request, result
from tests.core.playbook import MARK, Play, opened
from tests.core.scenes import asked, call, drift, give_answer, listening, open_call, say, texts

OTHER = ((b"Mcp-Session-Epoch", b"h2"),)


def test_it_is_a_generation_of_its_own_under_the_same_id() -> None:
    play = opened(epoch=7)

    drift(play, 8)

    assert play.session.current.number == 2
    assert play.session.current.upstream_id == b"up-1"
    assert not play.has_leg("DELETE")


def test_a_carrier_that_was_not_stated_again_keeps_what_was_captured() -> None:
    """An epoch in the header says nothing of the one in messages (R8)."""
    play = opened(epoch=7, epoch_header=b"h1")
    exchange = play.post(request("ping", id="p"))
    leg = play.leg("ping")
    play.answer(leg, result(leg.id, {}, 8))
    assert exchange.answer["result"]["_meta"][MARK]["reason"] == "drift"

    assert (play.session.current.epoch.meta, play.session.current.epoch.header) == (b"8", b"h1")


def test_an_epoch_that_a_header_alone_states_is_taken_over() -> None:
    play = opened(epoch_header=b"h1")
    play.post(request("ping", id="p"))
    leg = play.leg("ping")
    play.answer(
        leg,
        result(leg.id, {}),
        headers=((b"Content-Type", b"application/json"), (b"Mcp-Session-Epoch", b"h2")),
    )

    assert (play.session.current.epoch.meta, play.session.current.epoch.header) == (None, b"h2")


def test_only_the_current_generation_drifts() -> None:
    """An old one's late answer of another epoch says nothing of the session that took its place."""
    play = opened(epoch=7)
    _, leg = call(play)
    drift(play, 8)

    play.send(leg, event(result(leg.id, {}, 9)))

    assert play.session.current.number == 2


def test_a_session_under_a_heal_does_not_drift() -> None:
    play = opened(epoch=7)
    _, leg = call(play)
    play.advance(6)
    lost_call = play.call(id=6)
    play.refuse(play.sent("tools/call")[-1], 404)
    play.refuse(play.leg("ping"), 404)
    play.send(leg, event(result(leg.id, {}, 9)))

    assert play.session.current.number == 1
    assert lost_call.is_open


def test_its_standalone_stream_is_opened_anew_and_an_older_one_is_not() -> None:
    play, exchange, _ = listening(epoch=7)
    drift(play, 8)
    leg = play.leg("GET")
    play.open(leg)
    play.send(leg, event(log("x", 8)))

    assert texts(exchange) == ["x"]


def test_without_a_listener_there_is_none_to_open() -> None:
    play = opened(epoch=7)

    drift(play, 8)

    assert not play.has_leg("GET")


def reopened(play: Play, headers: tuple[tuple[bytes, bytes], ...] = OTHER) -> None:
    """The server ends the standalone stream, and answers the next GET."""
    play.end(play.leg("GET"), LegEnd.CLEAN)
    play.advance(2)
    play.open(play.leg("GET"), headers)


def test_the_head_of_a_standalone_stream_shows_it_before_any_message() -> None:
    """What comes on it is of the new generation, without another GET; the client is told once."""
    play, exchange, _ = listening(epoch_header=b"h1")

    reopened(play)
    leg = play.leg("GET")
    say(play, leg, "x")
    ping = play.post(request("ping", id="p"))
    play.answer(play.leg("ping"), result(play.leg("ping").id))

    assert play.session.current.number == 2
    assert play.session.current.epoch.header == b"h2"
    assert texts(exchange) == ["x"]
    assert len(play.sent("GET")) == 2
    assert play.counted == ["standalone_gaps"]
    assert ping.answer["result"]["_meta"][MARK]["reason"] == "drift"
    assert not play.has_leg("DELETE")


def test_questions_of_before_and_after_the_head_are_kept_apart() -> None:
    """One that the old session asked is void; the same id, asked by the new one, is another question."""
    play, exchange, first = listening(epoch_header=b"h1")
    play.send(first, event(ask(0)))
    reopened(play)
    play.send(play.leg("GET"), event(ask(0)))
    old, new = asked(exchange)

    late, none = give_answer(play, old)
    given, leg = give_answer(play, new)

    assert (late.status, none) == (202, None)
    assert leg is not None
    assert leg.json["id"] == 0
    assert given.status is None


def test_a_client_that_is_away_meanwhile_finds_what_the_new_session_said() -> None:
    play, exchange, _ = listening(epoch_header=b"h1")
    play.leave(exchange)
    reopened(play)
    say(play, play.leg("GET"), "x")

    back = play.get()

    assert texts(back) == ["x"]


@pytest.mark.parametrize("headers", [(), ((b"Mcp-Session-Epoch", b"h1"),)])
def test_a_head_that_states_nothing_else_changes_nothing(headers: tuple[tuple[bytes, bytes], ...]) -> None:
    play, _, _ = listening(epoch_header=b"h1")

    reopened(play, headers)

    assert play.session.current.number == 1


def test_a_server_that_offers_no_stream_shows_nothing_by_saying_so() -> None:
    play = opened(epoch_header=b"h1")
    play.get()

    play.answer(play.leg("GET"), b"", status=405, headers=OTHER)

    assert play.session.current.number == 1


def test_a_head_that_comes_during_a_heal_changes_nothing() -> None:
    """The heal makes another session, and opens its stream."""
    play, exchange, _ = listening(epoch_header=b"h1")
    play.end(play.leg("GET"), LegEnd.CLEAN)
    play.advance(2)
    _, leg = open_call(play)
    play.cut(leg)
    play.open(play.leg("GET"), OTHER)

    play.heal(headers=((b"Mcp-Session-Epoch", b"h3"),))
    play.open(play.sent("GET")[-1])
    say(play, play.sent("GET")[-1], "x")

    assert play.session.current.epoch.header == b"h3"
    assert texts(exchange)[-1] == "x"


def test_the_answer_to_a_notification_shows_it_too() -> None:
    """The next question of that id is another one."""
    play = opened(epoch_header=b"h1")
    play.post({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})

    play.answer(play.leg("notifications/roots/list_changed"), b"", status=202, headers=OTHER)

    assert play.session.current.number == 2
    assert play.session.pending_mark is not None
