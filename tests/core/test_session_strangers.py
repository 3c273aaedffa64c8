"""What a caller whom the server has not accepted can do to a session by its id: nothing (R32)."""

from __future__ import annotations

import pytest

from epochgate.core.events import LegEnd
from tests.core.messages import ask, cancel, error, event, result
from tests.core.playbook import opened
from tests.core.scenes import BOB, open_call


@pytest.mark.parametrize("status", [401, 403])
def test_a_strangers_cancel_that_the_server_refuses_cancels_nothing(status: int) -> None:
    play = opened()
    alice, leg = open_call(play)

    bob = play.post(cancel(5), who=BOB)
    play.refuse(play.leg("notifications/cancelled"), status)
    play.advance(30)

    assert bob.status == status
    play.send(leg, event(result(leg.id)))
    assert alice.answer == result(5)


def test_a_cancel_with_new_credentials_counts_once_the_server_took_it() -> None:
    play = opened()
    alice, leg = open_call(play)

    again = play.post(cancel(5), who=b"alice again")
    told = play.leg("notifications/cancelled")
    assert told.json["params"]["requestId"] == leg.id
    play.accept(told)
    play.advance(6)

    assert again.status == 202
    assert not alice.is_open
    assert alice.answers == []


@pytest.mark.parametrize("status", [401, 403])
def test_an_answer_that_the_server_refuses_leaves_its_question_open(status: int) -> None:
    play = opened()
    alice, leg = open_call(play)
    play.send(leg, event(ask(0)))

    bob = play.post(result(0, {"action": "decline"}), who=BOB)
    play.refuse(play.leg("answer"), status)
    assert bob.status == status

    play.post(result(0, {"action": "accept"}))
    assert play.leg("answer").json == result(0, {"action": "accept"})
    play.accept(play.leg("answer"))
    play.send(leg, event(result(leg.id)))
    assert alice.answer == result(5)


@pytest.mark.parametrize("how", [LegEnd.NOT_SENT, LegEnd.GONE, LegEnd.BROKEN, LegEnd.SILENT])
def test_a_strangers_delete_that_nobody_answers_ends_nothing(how: LegEnd) -> None:
    play = opened()
    alice, leg = open_call(play)

    bob = play.delete(who=BOB)
    play.end(play.leg("DELETE"), how)

    assert bob.status == 404
    play.send(leg, event(result(leg.id)))
    assert alice.answer == result(5)


def test_a_session_that_is_gone_accepts_nobody() -> None:
    """W5: some servers say so with 400 and a JSON-RPC error, before they look at who asks."""
    play = opened()
    alice, leg = open_call(play)
    play.leave(alice)
    play.send(leg, event(result(leg.id, {"secret": 1})))

    bob = play.get(alice.last_id, who=BOB)
    ping = play.leg("ping")
    play.answer(ping, error(ping.id, -32000, "Bad Request: No valid session ID provided"), status=400)

    assert bob.status == 400
    assert b"secret" not in bob.body
