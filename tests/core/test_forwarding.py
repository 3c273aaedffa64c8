"""POSTs that owe no answer: notifications, cancels, and answers to the server's questions (R24, W4).

Longer than most: its module is to be proven by this file alone.
"""

from __future__ import annotations

import pytest

from epochgate.core.commands import Reissued, UpstreamFailed
from epochgate.core.events import LegEnd
from epochgate.core.policy import Reissue
from epochgate.core.states import SessionState
from tests.core.messages import (
    Json,
    ask,
    cancel,
    error,
    event,
    log,
    notification,
    progress,
    request,
    result,
)
from tests.core.playbook import Play, opened, quiet
from tests.core.scenes import (
    BOB,
    ROOTS,
    asking,
    call,
    listening,
    lost,
    open_call,
)


def test_a_cancel_during_the_heal_takes_the_call_off_the_queue() -> None:
    """The first trace: there is no live leg to map it to (R29)."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)

    assert play.post(cancel(5)).status == 202
    play.heal()
    play.advance(6)

    assert play.runs == 1
    assert not exchange.is_open


def test_a_cancel_of_nothing_passes() -> None:
    play = opened()
    exchange = play.post(cancel(99))
    leg = play.leg("notifications/cancelled")
    play.accept(leg)

    assert leg.json == cancel(99)
    assert exchange.status == 202


def test_a_cancelled_json_call_is_answered_at_most_once() -> None:
    play: Play = opened()
    exchange = play.call()
    play.post(cancel(5))
    play.advance(6)

    assert len(exchange.answers) <= 1
    assert not exchange.is_open or exchange.status is None


@pytest.mark.parametrize("how", [LegEnd.BROKEN, LegEnd.NOT_SENT, LegEnd.SILENT])
def test_an_elicitation_answer_that_meets_a_dead_upstream_has_its_stream_probed(how: LegEnd) -> None:
    """202 alone would hide that the call hangs (R37)."""
    play = opened()
    exchange, leg = open_call(play)
    play.send(leg, event(ask(0)))
    reply = play.post(result(0, {"action": "accept"}))
    play.end(play.leg("answer"), how)

    assert reply.status == 202
    assert len(play.facts(UpstreamFailed)) == 1
    play.end(play.leg("ping"), LegEnd.SILENT)
    assert exchange.answer["error"]["code"] == -32050  # its question was answered: never again


def test_changed_roots_that_found_the_session_gone_are_told_to_the_next_one() -> None:
    """The one notification that is sent again (R37)."""
    play = opened()
    quiet(play)
    assert play.post(notification(ROOTS)).status is None
    play.refuse(play.leg(ROOTS), 404)
    play.call()
    play.heal()

    assert [leg.session_id for leg in play.sent(ROOTS)] == [b"up-1", b"up-2"]


@pytest.mark.parametrize("message", [log("x"), progress("x", 1), notification("notifications/x")])
def test_a_notification_that_finds_the_session_gone_is_not_sent_after_the_heal(message: Json) -> None:
    """It belonged to a session that is no more (R37)."""
    play = opened()
    quiet(play)
    exchange = play.post(message)
    play.refuse(play.leg(message["method"]), 404)
    play.call()
    play.heal()

    assert exchange.status == 202
    assert len(play.sent(message["method"])) == 1


def test_the_answer_to_a_question_whose_call_has_ended_goes_no_further() -> None:
    """Void: nobody waits for it (R18)."""
    play = opened()
    exchange, leg = asking(play)
    play.send(leg, event(result(leg.id)))
    assert exchange.answer["id"] == 5

    reply = play.post(result(0, {"action": "accept"}))

    assert reply.status == 202
    assert not play.sent("answer")
    assert play.dropped == ["stale_answer"]


def test_a_call_that_asked_on_the_standalone_stream_is_not_run_again_either() -> None:
    """(a) TypeScript servers put questions there: any call of the session may have asked (R28)."""
    play, _, stand = listening(reissue=Reissue.ALWAYS)
    exchange, leg = open_call(play)
    play.send(stand, event(ask(0)))
    play.post(result(0, {"action": "accept"}))
    play.accept(play.leg("answer"))
    play.cut(leg)

    assert exchange.answer["error"]["code"] == -32050
    assert play.runs == 1
    assert [(one.outcome, one.reason) for one in play.facts(Reissued)] == [("withheld", "question_answered")]


@pytest.mark.parametrize("how", [400, 404, 409, 500, 502, 503, LegEnd.NOT_SENT, LegEnd.BROKEN, LegEnd.SILENT])
@pytest.mark.parametrize("message", [notification("notifications/x"), result(0), error(0)])
def test_what_owes_no_answer_is_202_whatever_the_server_says(message: Json, how: int | LegEnd) -> None:
    """A 503 on a notification ends Python 1.30's session (W4)."""
    play = opened()
    asking(play)
    exchange = play.post(message)
    leg = play.leg()
    if isinstance(how, int):
        play.refuse(leg, how)
    else:
        play.end(leg, how)

    assert (exchange.status, exchange.body) == (202, b"")


def test_notifications_in_one_array_go_up_as_they_came() -> None:
    """None of them concerns another session than the current one."""
    play = opened()
    both = [notification("notifications/x"), notification("notifications/y")]

    exchange = play.post(both)

    leg = play.leg("batch")
    assert leg.json == both
    play.accept(leg)
    assert exchange.status == 202


def test_progress_on_a_question_goes_up_under_the_token_that_the_server_gave() -> None:
    """And nowhere, once its call is over."""
    play = opened()
    exchange, leg = open_call(play)
    question = ask(0)
    question["params"]["_meta"] = {"progressToken": "t"}
    play.send(leg, event(question))

    reply = play.post(progress("t", 1))
    assert play.leg("notifications/progress").json == progress("t", 1)
    play.accept(play.leg("notifications/progress"))
    assert reply.status == 202
    play.send(leg, event(result(leg.id)))
    assert not exchange.is_open

    late = play.post(progress("t", 2))

    assert late.status == 202
    assert len(play.sent("notifications/progress")) == 1
    assert play.dropped == ["stale_answer"]


def test_a_cancel_in_one_array_with_a_request_is_told_of_what_runs() -> None:
    """The id that stands in the array means nothing to the server."""
    play = opened()
    _, leg = open_call(play, id=1)

    play.post([cancel(1), request("ping", id=2)])

    told = play.leg("notifications/cancelled")
    assert told.json["params"]["requestId"] == leg.id


def test_during_a_heal_what_owes_no_answer_is_acknowledged_and_roots_are_remembered() -> None:
    play, _ = lost()

    assert play.post(notification("notifications/roots/list_changed")).status == 202
    assert play.post(cancel(99)).status == 202
    assert play.post(result(99)).status == 202
    play.heal()

    assert [leg.session_id for leg in play.sent("notifications/roots/list_changed")] == [b"up-2"]
    assert not play.sent("notifications/cancelled")
    assert not play.sent("answer")


def test_a_notification_that_another_replica_did_not_know_is_sent_once_more() -> None:
    """The session answers a ping, so that it was no loss."""
    play = opened()
    exchange = play.post(notification("notifications/x"))
    play.refuse(play.leg("notifications/x"), 404)
    assert exchange.status == 202

    play.answer(play.leg("ping"), result(play.leg("ping").id, {}))

    assert len(play.sent("notifications/x")) == 2
    assert play.counted == ["affinity_faults"]
    play.refuse(play.leg("notifications/x"), 404)
    assert len(play.sent("notifications/x")) == 2


def test_an_answer_that_finds_its_session_gone_has_the_call_run_again() -> None:
    """Roots are no human's answer: the second run may ask again."""
    play = opened()
    exchange, leg = open_call(play)
    play.send(leg, event(ask(0, "roots/list")))
    reply = play.post(result(0, {"roots": []}))

    play.refuse(play.leg("answer"), 404)

    assert reply.status == 202
    assert play.reasons == ["question_void"]
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert exchange.answer["id"] == 5


def test_an_answer_that_the_server_refuses_leaves_the_question_open() -> None:
    """A stranger's, or one under a token that ran out: the call still waits for one that counts (R32)."""
    play = opened()
    _, leg = call(play)
    play.send(leg, event(ask(0)))

    refused = play.post(result(0, {"action": "accept"}), who=b"mallory")
    play.refuse(play.leg("answer"), 401)
    again = play.post(result(0, {"action": "decline"}))

    assert refused.status == 401
    assert play.leg("answer").json["result"] == {"action": "decline"}
    play.accept(play.leg("answer"))
    assert again.status == 202
    assert play.dropped == []


def test_a_cancel_under_a_new_token_counts_once_the_server_has_taken_it() -> None:
    """The same user, with a token that was refreshed (R32)."""
    play = opened()
    exchange, leg = open_call(play)

    accepted = play.post(cancel(5), who=b"alice-2")
    up = play.leg("notifications/cancelled")
    assert up.json["params"]["requestId"] == leg.id
    play.accept(up)
    play.advance(6)

    assert accepted.status == 202
    assert not exchange.is_open
    assert exchange.answers == []


def asked_twice() -> tuple[Play, Json]:
    """Two sessions of the server asked under one id; the id by which the client knows the second."""
    play = opened()
    _, first = call(play)
    play.send(first, event(ask(0)))
    exchange = play.call(id=6)
    play.refuse(play.leg("tools/call"), 404)
    play.refuse(play.leg("ping"), 404)
    play.heal()
    second = play.leg("tools/call")
    play.open(second)
    play.send(second, event(ask(0)))
    (question,) = [one for one in exchange.messages if one["method"] == "elicitation/create"]
    assert question["id"] != 0
    return play, question["id"]


def test_an_answer_in_one_batch_with_a_notification_goes_to_its_own_question() -> None:
    """Under the id that the server knows (R18, R19)."""
    play, id = asked_twice()

    exchange = play.post([result(id, {"n": 1}), notification("notifications/roots/list_changed")])

    up = play.leg("answer")
    assert (up.session_id, up.json["id"]) == (b"up-2", 0)
    play.accept(up)
    play.accept(play.leg("notifications/roots/list_changed"))
    assert exchange.status == 202


def test_an_answer_in_one_batch_with_a_request_goes_to_its_own_question() -> None:
    play, id = asked_twice()

    exchange = play.post([result(id, {"n": 1}), request("tools/list", id=9)])

    up = play.leg("answer")
    assert (up.session_id, up.json["id"]) == (b"up-2", 0)
    play.accept(up)
    (listed,) = play.leg("batch").json
    play.answer(play.leg("batch"), [result(listed["id"], {"tools": []})])
    assert [one["id"] for one in exchange.answers] == [9]


def test_a_strangers_cancel_in_a_batch_cancels_nothing() -> None:
    """What it asks for goes up, and the owner's call goes on (R29, R32)."""
    play = opened()
    exchange, leg = call(play)
    play.post([request("ping", id="s"), cancel(5)], who=b"mallory")
    play.refuse(play.leg("batch"), 403)

    play.advance(6)
    play.send(leg, event(result(leg.id)))

    assert exchange.answer["id"] == 5


def test_a_cancel_under_a_new_token_that_names_nothing_goes_up_as_it_is() -> None:
    """Which request it means is the server's to know (R29)."""
    play = opened()
    exchange, leg = open_call(play)

    accepted = play.post(cancel("other"), who=b"alice-2")
    up = play.leg("notifications/cancelled")
    assert (up.json["params"]["requestId"], up.session_id) == ("other", b"up-1")
    play.accept(up)
    play.send(leg, event(result(leg.id)))

    assert accepted.status == 202
    assert exchange.answer["id"] == 5


@pytest.mark.parametrize("method", ["notifications/roots/list_changed", "notifications/x"])
def test_a_strangers_notification_that_meets_404_passes_too(method: str) -> None:
    """(a) Nor does it park the session for Alice (R32)."""
    play = opened()
    quiet(play)
    bob = play.post({"jsonrpc": "2.0", "method": method}, who=BOB)
    play.refuse(play.leg(method), 404, b"who?")

    assert (bob.status, bob.body) == (404, b"who?")
    assert play.session.state is SessionState.LIVE


def test_an_answer_that_another_session_took_has_its_call_restarted() -> None:
    """The session was made anew, and says so in what accepts the answer: the one that asked is gone (R18)."""
    play = opened(epoch_header=b"h1")
    exchange, _ = asking(play)

    given = play.post(result(0, {"action": "accept"}))
    play.answer(play.leg("answer"), b"", status=202, headers=((b"Mcp-Session-Epoch", b"h2"),))

    assert given.status == 202
    assert play.reasons == ["question_void"]
    assert play.session.current.number == 2
    assert exchange.answer["error"]["code"] == -32050


def test_a_notification_that_is_accepted_under_another_epoch_shows_a_session_made_anew() -> None:
    play = opened(epoch_header=b"h1")
    play.post(notification(ROOTS))

    play.answer(play.leg(ROOTS), b"", status=202, headers=((b"Mcp-Session-Epoch", b"h2"),))

    assert play.session.current.number == 2


def test_an_error_that_answers_nothing_passes() -> None:
    play = opened()
    said = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "parse error"}}

    play.post(said)

    assert play.leg("answer").json == said
