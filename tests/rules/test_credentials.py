"""Whose credentials count, case by case (R32)."""

from __future__ import annotations

import pytest

from epochgate.core import http
from epochgate.core.commands import Drifted
from tests.core.messages import Json, event, progress, request, result
from tests.core.playbook import MARK, opened
from tests.core.scenes import BOB, away
from tests.core.sides import Upstream

FRESH = b"alice-with-a-fresh-token"


def authorization(leg: Upstream) -> bytes | None:
    return http.find(leg.headers, b"authorization")


def test_a_stream_that_broke_with_nobody_there_waits_and_runs_with_the_token_of_the_return() -> None:
    """(b) The held token has expired meanwhile (R32)."""
    play = opened()
    exchange, leg = away(play)
    play.cut(leg)
    play.advance(100)
    assert not play.has_leg("initialize")

    back = play.get(exchange.last_id, who=FRESH)
    assert authorization(play.leg("ping")) == FRESH
    play.answer(play.leg("ping"), result(play.leg("ping").id, {}))
    assert authorization(play.leg("initialize")) == FRESH
    play.heal()
    again = play.leg("tools/call")
    assert authorization(again) == FRESH
    play.answer(again, result(again.id))

    assert back.answer["id"] == 5


def test_a_call_that_is_owed_keeps_its_callers_headers_however_long_it_takes() -> None:
    """(d) Not for 60 s: for as long as it is owed (R32)."""
    play = opened()
    exchange, leg = away(play)
    play.post(request("ping", id="b"), who=BOB)
    play.answer(play.leg("ping"), result(play.leg("ping").id, {}))
    play.advance(290)
    for ping in [one for one in play.sent("ping") if one.is_open]:
        play.answer(ping, result(ping.id, {}))
    play.cut(leg)
    play.get(exchange.last_id)
    play.heal()

    assert authorization(play.leg("tools/call")) == b"alice"


def test_a_finished_answer_is_given_to_who_opened_its_stream_with_the_server_down() -> None:
    """(d) Nobody could be authorised: it would be lost (R32)."""
    play = opened()
    exchange, leg = away(play)
    play.send(leg, event(result(leg.id)))
    play.advance(250)
    before = len(play.legs)

    assert play.get(exchange.last_id).answer == result(5)
    assert len(play.legs) == before  # nobody is asked, so that it does not matter who is down


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_within_the_first_moments_has_a_status_line(status: int) -> None:
    """(e) 200 is not said before the server was asked (R32)."""
    play = opened()
    exchange, _ = away(play)
    bob = play.get(exchange.last_id, who=BOB)
    play.advance(1.4)
    assert bob.status is None

    play.answer(play.leg("ping"), b"", status=status, headers=((b"WWW-Authenticate", b"Bearer"),))

    assert bob.status == status
    assert http.find(bob.headers, b"www-authenticate") == b"Bearer"


def test_an_acceptance_that_comes_late_gives_what_was_withheld() -> None:
    """(f) 200 and priming after 1.5 s, the data once accepted, each event once (R32)."""
    play = opened()
    exchange, leg = away(play)
    bob = play.get(exchange.last_id, who=BOB)
    play.advance(1.6)
    assert [one.id for one in bob.events] == [exchange.last_id]
    play.answer(play.leg("ping"), result(play.leg("ping").id, {}))
    play.send(leg, event(progress(leg.token, 3)), event(result(leg.id)))

    assert [one.get("params", {}).get("progress") for one in bob.messages] == [2, 3, None]


@pytest.mark.parametrize("carrier", ["meta", "header"])
def test_the_ping_that_asks_shows_a_session_that_was_made_anew(carrier: str) -> None:
    """(f) It can itself have re-created a reaped session: drift like any other (R32)."""
    play = opened(epoch=7, epoch_header=b"7")
    exchange, leg = away(play)
    play.post(request("logging/setLevel", {"level": "info"}, id="l"))
    play.answer(play.leg("logging/setLevel"), result(play.leg("logging/setLevel").id, {}, 7))
    bob = play.get(exchange.last_id, who=BOB)
    ping = play.leg("ping")
    stated: Json = 8 if carrier == "meta" else 7
    headers = ((b"Content-Type", b"application/json"), (b"Mcp-Session-Epoch", b"8" if stated == 7 else b"7"))
    play.answer(ping, result(ping.id, {}, stated), headers=headers)

    assert play.facts(Drifted) == [Drifted(2)]
    assert bob.status == 200
    play.call("other", id=6)
    assert play.session.current.number == 2
    assert play.leg("logging/setLevel").session_id == b"up-1"  # what the new session lacks is put back
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id, {}))
    mark = play.exchanges[max(play.exchanges)].answer["result"]["_meta"][MARK]
    assert (mark["reason"], mark["generation"]) == ("drift", 2)
    assert leg.is_open  # a stream that never broke is judged as before
