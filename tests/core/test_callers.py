"""Whose credentials: nothing of a journal, and no heal, for who was not accepted (R32, G9)."""

from __future__ import annotations

import pytest

from epochgate.core import http
from tests.core.messages import cancel, error, event, notification, progress, request, result
from tests.core.playbook import Play, opened, quiet
from tests.core.scenes import BOB, lost, open_call, refused_while_away


def accept_bob(play: Play) -> None:
    play.post(request("ping", id="b"), who=BOB)
    leg = play.leg("ping")
    play.answer(leg, result(leg.id, {}))


def test_a_strangers_404_passes_and_heals_nothing() -> None:
    """(a) A heal would rebuild Alice's session as Bob (R32)."""
    play = opened()
    quiet(play)
    exchange = play.call(who=BOB)
    play.refuse(play.leg("tools/call"), 404, b"who?")

    assert (exchange.status, exchange.body) == (404, b"who?")
    assert not play.has_leg("initialize")
    assert play.call(id=6).status is None  # the session goes on


def test_a_caller_that_the_server_answered_is_accepted() -> None:
    play = opened()
    accept_bob(play)
    quiet(play)
    play.call(who=BOB)
    play.refuse(play.leg("tools/call"), 404)

    heal = play.leg("initialize")
    assert http.find(heal.headers, b"authorization") == BOB


def test_a_stranger_with_a_cursor_is_asked_for_before_the_status_line() -> None:
    """Any fingerprint but that of the stream (R32)."""
    play = opened()
    alice, leg = open_call(play)
    play.leave(alice)
    play.send(leg, event(progress(leg.token, 2)))

    bob = play.get(alice.last_id, who=BOB)

    assert bob.status is None
    ping = play.leg("ping")
    assert http.find(ping.headers, b"authorization") == BOB
    assert ping.session_id == b"up-1"
    play.answer(ping, result(ping.id, {}))
    assert bob.status == 200
    assert bob.messages == [progress(5, 2)]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_stranger_that_the_server_refuses_gets_the_refusal_and_nothing_else(status: int) -> None:
    """G9."""
    play = opened()
    alice, leg = open_call(play)
    play.leave(alice)
    play.send(leg, event(progress(leg.token, 2)), event(result(leg.id, {"secret": 1})))

    bob = play.get(alice.last_id, who=BOB)
    play.answer(play.leg("ping"), b"no", status=status, headers=((b"WWW-Authenticate", b"Bearer"),))

    assert (bob.status, bob.body) == (status, b"no")
    assert http.find(bob.headers, b"www-authenticate") == b"Bearer"
    assert play.get(alice.last_id).answer["result"] == {"secret": 1}


def test_a_json_rpc_error_is_an_acceptance_too() -> None:
    """Any answer that is not 401, 403 or 404 (R32)."""
    play = opened()
    alice, _ = open_call(play)
    play.leave(alice)
    bob = play.get(alice.last_id, who=BOB)
    ping = play.leg("ping")
    play.answer(ping, error(ping.id, -32601), status=400)

    assert bob.status == 200


def test_while_the_server_is_silent_the_client_is_primed_and_the_data_withheld() -> None:
    """At most 1.5 s before the status line; an empty 200 is never the end (R32)."""
    play = opened()
    alice, leg = open_call(play)
    play.leave(alice)
    play.send(leg, event(progress(leg.token, 2)))
    bob = play.get(alice.last_id, who=BOB)
    play.advance(1.6)

    assert bob.status == 200
    assert [one.data for one in bob.events] == [b""]
    play.answer(play.leg("ping"), result(play.leg("ping").id, {}))
    assert bob.messages == [progress(5, 2)]


def test_the_caller_that_opened_the_stream_is_not_asked_again() -> None:
    """(d) With the upstream down nobody could be authorised (R32)."""
    play = opened()
    alice, leg = open_call(play)
    play.leave(alice)
    play.send(leg, event(result(leg.id)))
    play.advance(200)

    assert play.get(alice.last_id).answer["id"] == 5
    assert not play.has_leg("ping") or play.leg("ping").session_id == b"up-1"


def test_a_call_is_sent_again_with_the_headers_of_its_own_caller() -> None:
    """Whoever triggered the heal (R32)."""
    play = opened()
    accept_bob(play)
    _, alices = open_call(play, id=1)
    bobs = play.call(id=2, who=BOB)
    quiet(play)
    play.refuse(play.sent("tools/call")[-1], 404)
    if play.has_leg("ping"):
        play.refuse(play.leg("ping"), 404)
    play.cut(alices)
    play.heal()
    again = {one.json["params"].get("_meta") is None: one for one in play.sent("tools/call")[2:]}

    assert http.find(again[True].headers, b"authorization") == BOB
    assert http.find(again[False].headers, b"authorization") == b"alice"
    assert bobs.is_open


def test_a_strangers_request_during_a_heal_waits_and_runs_as_the_stranger() -> None:
    play, _ = lost()
    play.call("other", id=6, who=BOB)
    play.heal()

    other = next(leg for leg in play.sent("tools/call") if leg.json["params"]["name"] == "other")
    assert http.find(other.headers, b"authorization") == BOB


def test_a_strangers_delete_is_forwarded_and_gets_its_answer() -> None:
    """Section 2, PARKED (R25, R32)."""
    play, _ = lost()
    play.refuse(play.leg("initialize"), 401)  # parked
    bob = play.delete(who=BOB)
    play.refuse(play.leg("DELETE"), 403)

    assert bob.status == 403
    assert play.call(id=7).status is None


def test_a_strangers_parked_request_does_not_heal_in_its_name() -> None:
    """It waits for an accepted one (R32)."""
    play, _ = lost()
    play.refuse(play.leg("initialize"), 401)
    play.call(id=7, who=BOB)

    assert not play.has_leg("initialize") or (
        http.find(play.leg("initialize").headers, b"authorization") == b"alice"
    )


def test_one_that_comes_back_with_what_was_refused_is_told() -> None:
    play, exchange = refused_while_away()

    back = play.get(exchange.last_id)
    play.refuse(play.leg("GET"), 401)

    assert back.answer["error"]["code"] == -32050
    assert play.runs == 1


def test_one_that_never_comes_back_is_given_up_when_its_hold_ends() -> None:
    play, exchange = refused_while_away()

    play.advance(301)

    assert play.get(exchange.last_id).answer["error"]["data"]["reason"] == "expired"


def test_a_stranger_cancels_nothing() -> None:
    """Who learned the session's id and no credentials must not end others' calls (R32)."""
    play = opened()
    exchange, leg = open_call(play)

    refused = play.post(cancel(5), who=b"mallory")
    play.refuse(play.leg("notifications/cancelled"), 401)
    play.advance(6)

    play.send(leg, event(result(leg.id, {"run": 1})))
    assert refused.status == 401
    assert exchange.answer["result"]["run"] == 1


def test_a_stranger_cannot_take_the_standalone_stream_over() -> None:
    play = opened()
    alice = play.get()
    leg = play.leg("GET")
    play.open(leg)
    play.leave(alice)
    play.send(leg, event(notification("notifications/message", {"level": "info", "data": "secret"})))
    bob = play.get(who=BOB)
    assert bob.status is None
    play.refuse(play.leg("ping"), 401)

    assert bob.status == 401
    assert b"secret" not in bob.body


def test_of_two_returns_with_new_credentials_the_newer_wins_whichever_is_accepted_first() -> None:
    """R35: the older is not its client's any more."""
    play = opened()
    alice, leg = open_call(play)
    play.leave(alice)
    older, newer = play.get(alice.last_id, who=BOB), play.get(alice.last_id, who=BOB)
    first, second = play.sent("ping")

    play.answer(second, result(second.id, {}))
    play.answer(first, result(first.id, {}))
    play.send(leg, event(progress(leg.token, 2)))

    assert not older.is_open
    assert newer.is_open
    assert newer.messages == [progress(5, 2)]


@pytest.mark.parametrize("status", [401, 403])
def test_a_resume_refused_while_its_client_is_away_waits_for_it(status: int) -> None:
    """Its token may have expired meanwhile; it comes back with another, and nothing is lost (R32, G5)."""
    play, exchange = refused_while_away(status)
    assert not play.has_leg("GET")

    back = play.get(exchange.last_id, who=b"alice-2")
    play.answer(play.leg("ping"), result(play.leg("ping").id, {}, 7))
    leg = play.leg("GET")
    assert (b"Authorization", b"alice-2") in leg.headers
    play.open(leg)
    play.send(leg, event(progress(play.sent("tools/call")[0].token, 2, 7), 2))
    play.send(leg, event(result(play.sent("tools/call")[0].id, {"n": 1}, 7), 3))

    assert back.answer["result"]["n"] == 1
    assert play.runs == 1
    assert play.heals == []
