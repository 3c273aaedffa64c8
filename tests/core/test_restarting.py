"""A verdict against a stream: what becomes of it, of its session, and of what it owes.

Longer than most: its module is to be proven by this file alone.
"""

from __future__ import annotations

import pytest

from epochgate.core.commands import Drifted, HealBegun, Reissued
from epochgate.core.policy import SessionLoss
from epochgate.core.states import SessionState
from tests.core.messages import (
    Json,
    ask,
    cancel,
    event,
    log,
    notification,
    progress,
    request,
    result,
)
from tests.core.playbook import JSON, Play, opened, quiet
from tests.core.scenes import (
    BOB,
    asking,
    broken,
    call,
    drift,
    learn_tools,
    listening,
    lost,
    open_call,
    resume,
)
from tests.core.sides import Exchange, Upstream


@pytest.mark.parametrize(
    ("setting", "has_state", "is_healed"),
    [
        (SessionLoss.AUTO, False, True),
        (SessionLoss.AUTO, True, False),
        (SessionLoss.HEAL, True, True),
        (SessionLoss.SURFACE, False, False),
    ],
)
def test_whether_a_404_heals_or_is_shown(setting: SessionLoss, has_state: bool, is_healed: bool) -> None:
    """The first trace: `commit()` in an empty session (R21)."""
    play = opened(session_loss=setting)
    learn_tools(play, {"name": "work"}, {"name": "look", "annotations": {"readOnlyHint": True}})
    play.call("work" if has_state else "look", id=1)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)

    exchange = play.call("look", id=2)
    play.refuse(play.leg("tools/call"), 404)

    assert play.has_leg("initialize") is is_healed
    assert exchange.status == (None if is_healed else 404)
    if not is_healed:
        assert play.session.state is SessionState.LOST
        assert play.call(id=3).status == 404
        assert play.get().status == 404
        assert ("upstream", "restart", "session_gone") in play.judged


def test_a_second_404_in_a_living_session_is_shown() -> None:
    """Sent again once, then surfaced (R26)."""
    play = opened()
    exchange = play.call()
    for _ in range(2):
        play.refuse(play.leg("tools/call"), 404, b"no such session")
        play.answer(play.leg("ping"), result(play.leg("ping").id, {}))

    assert (exchange.status, exchange.body) == (404, b"no such session")
    assert play.runs == 2
    assert play.session.state is SessionState.LIVE


def test_a_call_that_meets_404_in_each_new_session_is_given_up() -> None:
    """Of what provably did not run one re-issue for each heal, two for each request (R28)."""
    play, exchange = lost()
    for number in (2, 3):
        play.heal(b"up-%d" % number)
        play.refuse(play.leg("tools/call"), 404)
        if play.has_leg("ping"):
            play.refuse(play.leg("ping"), 404)

    assert play.runs == 3
    assert exchange.json["error"]["code"] == -32050
    assert [one.outcome for one in play.facts(Reissued)] == ["sent", "sent", "exhausted"]


def test_ids_asked_twice_on_one_call_prove_another_session_too() -> None:
    """The session was made anew under the one connection that there is (R19)."""
    play = opened()
    exchange, leg = asking(play)

    play.send(leg, event(ask(0)))

    assert play.reasons == ["request_id_reset"]
    assert [one.get("method") for one in exchange.messages].count("elicitation/create") == 1
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert exchange.answer["id"] == 5


def test_a_json_call_whose_client_left_and_whose_leg_broke_is_over() -> None:
    """G8: nobody can come back for it."""
    play = opened(session_idle_s=20.0)
    exchange = play.call()
    play.leave(exchange)
    play.cut(play.leg("tools/call"))
    play.advance(200)

    assert play.is_forgotten
    assert play.runs == 1


@pytest.mark.parametrize("status", [404, 400])
def test_a_stranger_who_learned_the_id_cannot_have_the_session_rebuilt_in_its_name(status: int) -> None:
    """(a) Servers say 404 to a valid user of another's session, some before they ask who it is (R32)."""
    play = opened()
    quiet(play)
    body = b'{"error":{"code":-32000,"message":"No valid session ID provided"}}'
    bob = play.call(who=BOB)
    play.answer(play.leg("tools/call"), body, status=status)

    assert (bob.status, bob.body) == (status, body)
    assert not play.has_leg("initialize")
    assert play.session.state is SessionState.LIVE
    alice = play.call(id=6)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    assert alice.json == result(6)


def ran_on(play: Play) -> tuple[Exchange, Upstream]:
    """A call of the first generation, which goes on beside the second."""
    exchange, leg = open_call(play, id=1)
    _, other = open_call(play, id=2)
    play.cut(other)
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    return exchange, leg


def test_an_answer_to_what_a_finished_call_asked_restarts_nothing() -> None:
    play = opened()
    exchange, leg = asking(play)
    play.send(leg, event(result(leg.id)))

    assert play.post(result(0, {"action": "accept"})).status == 202

    assert exchange.answer == result(5)
    assert not play.reasons
    assert not play.has_leg("initialize")


def test_what_cannot_be_read_is_an_error_and_no_second_run() -> None:
    play = opened()
    exchange = play.call()

    play.answer(play.leg("tools/call"), b"\x0b", headers=(*JSON, (b"Content-Encoding", b"br")))

    assert exchange.json["error"]["data"]["reason"] == "content_coding"
    assert play.runs == 1


def test_a_cancelled_call_is_over_whatever_is_found_out_about_its_run() -> None:
    play = opened(epoch=1)
    exchange, leg = open_call(play)
    play.post(cancel(5))

    play.send(leg, event(progress(leg.token, 2, 2)))

    assert not exchange.is_open
    assert exchange.answers == []
    assert not play.has_leg("initialize")


def test_one_server_id_asked_on_two_calls_restarts_both() -> None:
    """Ids are counted for each session: the second question is of another. What stands beside it in one
    array is not relayed either."""
    play = opened()
    first, _ = asking(play, of=1)
    _, two = open_call(play, id=2)

    play.send(two, event([log("x"), ask(0)]))

    assert play.reasons == ["request_id_reset", "request_id_reset"]
    play.heal()
    for leg in play.sent("tools/call")[2:]:
        play.answer(leg, result(leg.id))
    assert first.answer["id"] == 1


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_question_whose_answer_can_reach_nobody_has_its_call_run_again(is_gone: bool) -> None:
    """404 on the answer, or a session that was made anew meanwhile."""
    play = opened(epoch=1)
    exchange, leg = call(play)
    play.send(leg, event(ask(0, "roots/list", 1)))
    if not is_gone:
        drift(play, 2)
    play.post(result(0, {"roots": []}))
    if is_gone:
        play.refuse(play.leg("answer"), 404)

    assert play.reasons == ["question_void"]
    if is_gone:
        play.heal(epoch=2)
    else:
        assert not play.has_leg("initialize")
        listing = play.leg("tools/list")
        play.answer(listing, result(listing.id, {"tools": [{"name": "work"}]}))
    again = play.leg("tools/call")
    play.answer(again, result(again.id, epoch=2))
    assert exchange.answer["id"] == 5


def test_a_resume_that_is_refused_fails_a_call_that_is_waited_for_and_keeps_one_that_is_not() -> None:
    """With other credentials it may still be had."""
    for is_away in (False, True):
        play, exchange = broken()
        if is_away:
            play.leave(exchange)
        play.refuse(play.leg("GET"), 401)

        assert (exchange.answers == []) is is_away
        back = play.get(exchange.last_id) if is_away else exchange
        if is_away:
            resume(play, (result(play.sent("tools/call")[0].id, epoch=7), 5))
            assert back.answer["id"] == 5
        else:
            assert back.answer["error"]["data"]["reason"] == "unauthorized"


def test_a_standalone_stream_whose_resume_is_refused_is_opened_anew_later() -> None:
    play, exchange, leg = listening(epoch=1)
    play.send(leg, event(log("a", 1), 1))
    play.cut(leg)
    play.refuse(play.leg("GET"), 401)
    assert not play.has_leg("GET")
    play.advance(1.1)

    assert play.leg("GET").last_event_id is None
    assert exchange.is_open


def test_a_loss_that_nobody_waits_for_leaves_a_heal_alone_that_is_under_way() -> None:
    """It is for another call; who comes back later is served by it."""
    play = opened(epoch=1)
    away, one = open_call(play, id=1)
    play.leave(away)
    _, two = open_call(play, id=2)
    play.cut(two)
    assert play.session.state is SessionState.HEALING
    play.send(one, event(progress(one.token, 2, 2)))
    assert play.reasons == ["no_upstream_id", "epoch_mismatch"]

    play.heal(epoch=2)
    back = play.get(away.last_id)

    again = play.leg("tools/call")
    play.answer(again, result(again.id, epoch=2))
    assert back.answer["id"] == 1
    assert play.heals == [("stream_restart", "healed")]


def test_a_call_that_breaks_with_nobody_there_waits_for_its_client() -> None:
    """And begins no heal."""
    play = opened()
    exchange, leg = open_call(play)
    play.leave(exchange)

    play.cut(leg)

    assert play.session.state is SessionState.LIVE
    assert not play.has_leg("initialize")


def test_a_call_that_is_not_run_again_leaves_a_session_alone_that_lives() -> None:
    """Its leg broke, no more is known."""
    play = opened(never_reissue=frozenset({"work"}))
    exchange, leg = open_call(play)

    play.cut(leg)

    assert exchange.answer["error"]["code"] == -32050
    assert play.session.state is SessionState.LIVE


def test_a_second_leg_of_a_client_that_waits_for_a_heal_does_not_lengthen_its_wait() -> None:
    """The newer leg gets what the older waited for; the deadline counts from the loss."""
    play = opened()
    exchange, leg = open_call(play)
    at = exchange.last_id
    play.cut(leg)
    play.unreachable(play.leg("initialize"))
    play.advance(30)

    second = play.get(at)
    while play.has_leg("initialize"):
        play.unreachable(play.leg("initialize"))
        play.advance(3)

    assert not exchange.is_open
    assert second.answer["error"]["data"]["reason"] == "heal_deadline"
    assert play.session.state is SessionState.PARKED


def test_a_404_that_comes_when_its_session_is_healed_already_begins_nothing() -> None:
    play, _ = lost()
    play.heal()
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    old = play.post(notification("notifications/x"))
    leg = play.leg("notifications/x")
    quiet(play)
    play.call(id=6)
    play.refuse(play.leg("tools/call"), 404)
    assert play.has_leg("initialize")

    play.refuse(leg, 404)

    assert old.status == 202
    assert len(play.facts(HealBegun)) == 2


def test_a_404_in_an_old_session_opens_no_listener_that_is_open_already() -> None:
    play, _, _ = listening()
    post = play.post(notification("notifications/x"))
    old = play.leg("notifications/x")
    ran_on(play)

    play.refuse(old, 404)

    assert post.status == 202
    assert len(play.sent("GET")) == 2


def test_a_lost_session_is_healed_for_who_listens_and_parked_where_nobody_does() -> None:
    for is_listening in (True, False):
        play = listening()[0] if is_listening else opened()
        quiet(play)
        play.post(notification("notifications/x"))
        play.refuse(play.leg("notifications/x"), 404)
        if play.has_leg("ping"):
            play.refuse(play.leg("ping"), 404)

        assert play.has_leg("initialize") is is_listening
        state = SessionState.HEALING if is_listening else SessionState.PARKED
        assert play.session.state is state


@pytest.mark.parametrize("says", ["pong", 404])
def test_a_call_that_was_cancelled_while_its_404_was_checked_is_over(
    says: Json,
) -> None:
    play = opened()
    exchange = play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.post(cancel(5))
    play.advance(0.1)
    ping = play.leg("ping")

    if says == "pong":
        play.answer(ping, result(ping.id, {}))
    else:
        play.refuse(ping, 404)

    assert play.runs == 1
    assert exchange.json["error"]["data"]["reason"] == "cancelled"
    assert not play.has_leg("initialize")


def test_a_404_that_is_to_be_shown_is_shown_though_a_heal_is_under_way() -> None:
    """The heal is for a call whose leg broke, and ends as it may."""
    play = opened(session_loss=SessionLoss.SURFACE)
    late = play.call(id=1)
    one = play.leg("tools/call")
    first, two = open_call(play, id=2)
    play.cut(two)
    assert play.session.state is SessionState.HEALING
    quiet(play)

    play.refuse(one, 404)

    assert late.status == 404
    assert first.answer["error"]["data"]["reason"] == "session_lost"


def test_an_old_call_whose_session_was_made_anew_twice_tells_nothing_new() -> None:
    """Its answer shows a third session; the second is the current one by then."""
    play = opened(epoch=1)
    old = play.call(id=1)
    leg = play.leg("tools/call")
    drift(play, 2)

    play.answer(leg, result(leg.id, epoch=3))

    assert old.json["id"] == 1
    assert play.facts(Drifted) == [Drifted(2)]


def test_a_call_whose_client_left_while_it_was_healed_is_not_sent_before_it_is_back() -> None:
    play = opened()
    exchange, leg = open_call(play)
    other, two = open_call(play, id=6)
    play.cut(leg)
    play.cut(two)
    play.leave(exchange)
    play.heal()
    assert len(play.sent("tools/call")) == 3

    back = play.get(exchange.last_id)
    again = play.leg("tools/call")
    play.answer(again, result(again.id))

    assert back.answer["id"] == 5
    assert other.is_open


def test_of_callers_only_the_last_are_known() -> None:
    """A client that refreshes its token every few minutes; each is another caller."""
    play = opened()

    for number in range(200):
        play.post(request("ping", id=number), who=b"token-%d" % number)
        play.answer(play.leg("ping"), result(play.leg("ping").id, {}))

    assert len(play.session.accepted) == 64
    assert b"token-199" in play.session.accepted
    assert b"token-0" not in play.session.accepted


def test_a_stranger_whose_post_cannot_be_sent_begins_no_heal() -> None:
    """A heal in his name would make Alice's session his."""
    play = opened()
    bob = play.call(who=BOB)
    for _ in range(20):
        if play.has_leg("tools/call"):
            play.unreachable(play.leg("tools/call"))
        play.advance(1)

    assert bob.answer["error"]["code"] == -32051
    assert play.sent("initialize") == play.sent("initialize")[:1]
    assert play.heals == []


def test_a_broken_stream_of_a_session_that_is_healed_no_more_ends() -> None:
    """Its client would listen for ever to what nobody reopens."""
    play, exchange, leg = listening(max_heals_per_minute=1)
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.refuse(play.leg("ping"), 404)
    play.heal()
    leg = play.leg("GET")
    play.open(leg)
    quiet(play)

    play.cut(leg)
    play.advance(1)
    play.refuse(play.leg("GET"), 404)

    assert play.heals == [("session_gone", "healed"), ("session_gone", "lost")]
    assert not exchange.is_open
    assert not exchange.is_aborted
    assert play.get().status == 404


def test_the_404_of_a_listener_that_a_heal_overtook_opens_it_in_the_session_that_there_is() -> None:
    """It is no loss of that one (R12, R26)."""
    play = opened()
    exchange = play.get()
    old = play.leg("GET")
    _, leg = open_call(play)
    play.cut(leg)
    play.heal()

    play.refuse(old, 404)

    assert play.leg("GET").session_id == b"up-2"
    assert exchange.is_open
    assert not play.has_leg("initialize")
