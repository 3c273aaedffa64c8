"""Silence with an answer owed is probed, never waited out blindly (R22)."""

from __future__ import annotations

import pytest

from epochgate.core import http
from epochgate.core.events import ClientStalled, LegEnd
from tests.core.messages import Json, error, event, log, progress, request, result, retry
from tests.core.playbook import MARK, Play, opened
from tests.core.scenes import listening, resume
from tests.core.sides import Exchange, Upstream


def quiet_call(
    *, is_sse: bool = True, epoch: Json = None, **settings: Json
) -> tuple[Play, Exchange, Upstream]:
    play = opened(epoch=epoch, **settings)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    if is_sse:
        play.open(leg)
        play.send(leg, event(progress(leg.token, 1, epoch), 1))
    return play, exchange, leg


@pytest.mark.parametrize("is_sse", [True, False])
def test_after_a_minute_the_streams_own_session_is_pinged(is_sse: bool) -> None:
    """By an id of our own (R22)."""
    play, _, _ = quiet_call(is_sse=is_sse)
    play.advance(59.9)
    assert not play.sent("ping")
    play.advance(0.2)

    ping = play.leg("ping")
    assert ping.session_id == b"up-1"
    assert ping.within == 10.0
    assert 10**13 <= ping.id < 10**14


@pytest.mark.parametrize("says", [{"result": {}}, {"error": {"code": -32601, "message": "no ping here"}}])
def test_any_answer_means_go_on(says: Json) -> None:
    """Without epochs there is no more to be learned (R22)."""
    play, exchange, leg = quiet_call()
    for _ in range(5):
        play.advance(60.5)
        ping = play.leg("ping")
        play.answer(ping, {"jsonrpc": "2.0", "id": ping.id, **says})

    assert exchange.is_open
    assert not play.reasons
    play.send(leg, event(result(leg.id)))
    assert exchange.answer == result(5)


def test_an_event_begins_the_minute_anew() -> None:
    play, _, leg = quiet_call()
    play.advance(50)
    play.send(leg, event(progress(leg.token, 2)))
    play.advance(50)
    assert not play.sent("ping")
    play.advance(11)

    assert len(play.sent("ping")) == 1


def test_no_answer_in_ten_seconds_means_that_the_leg_is_broken() -> None:
    """NAT drop: both legs look healthy for ever (R22)."""
    play, exchange, leg = quiet_call()
    play.advance(71)

    assert not leg.is_open
    assert play.reasons == ["no_epoch_captured"]
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert exchange.answer["id"] == 5


def test_with_epoch_and_id_a_dead_leg_is_resumed() -> None:
    play, exchange, leg = quiet_call(epoch=7)
    play.advance(61)
    play.end(play.leg("ping"), LegEnd.BROKEN)

    resumed = play.leg("GET")
    play.open(resumed)
    play.send(resumed, event(result(leg.id, epoch=7), 2))
    assert exchange.answer["id"] == 5
    assert play.runs == 1


def test_another_epoch_is_the_loss_of_the_session() -> None:
    """Its run went with it (R22)."""
    play, exchange, _ = quiet_call(epoch=7)
    play.advance(61)
    ping = play.leg("ping")
    play.answer(ping, result(ping.id, {}, 8))

    assert play.reasons == ["epoch_mismatch"]
    play.heal(epoch=8)
    again = play.leg("tools/call")
    play.answer(again, result(again.id, epoch=8))
    assert exchange.answer["result"]["_meta"][MARK]["reason"] == "epoch_mismatch"


def test_a_ping_that_meets_404_is_the_loss_too() -> None:
    play, _, _ = quiet_call()
    play.advance(61)
    play.refuse(play.leg("ping"), 404)

    assert play.reasons == ["session_gone"]
    assert play.has_leg("initialize")


def test_the_hard_limit_is_an_error() -> None:
    """Never silence for ever (R22)."""
    play, exchange, leg = quiet_call(max_silence_s=600.0)
    for _ in range(9):
        play.advance(61)
        if play.has_leg("ping"):
            ping = play.leg("ping")
            play.answer(ping, result(ping.id, {}))
    assert exchange.is_open
    play.advance(120)

    assert exchange.answer["error"]["code"] == -32050
    assert exchange.answer["error"]["data"]["reason"] == "upstream_silent"
    assert not leg.is_open
    assert play.judged == [("upstream", "fail", "upstream_silent")]


def test_a_resumed_leg_with_right_headers_and_no_message_is_probed_like_any_other() -> None:
    """A tool that is quiet longer than a deadline is not run again for it (R22)."""
    play, exchange, leg = quiet_call(epoch=7)
    play.cut(leg)
    resumed = play.leg("GET")
    play.open(resumed)
    play.advance(60.5)
    assert exchange.is_open
    assert not play.reasons

    ping = play.leg("ping")
    play.answer(ping, result(ping.id, {}, 7))
    play.send(resumed, event(result(leg.id, epoch=7), 2))
    assert exchange.answer["id"] == 5
    assert play.runs == 1


def test_a_session_that_restarts_while_its_call_is_quiet_ends_in_one_answer() -> None:
    play, exchange, leg = quiet_call(is_sse=False)
    play.advance(61)
    play.unreachable(play.leg("ping"))
    assert not leg.is_open
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, error(again.id))

    assert exchange.json["id"] == 5
    assert exchange.json["error"]["data"][MARK]["reissued"] is True


def test_a_standalone_stream_owes_nothing_and_is_not_probed() -> None:
    play = opened()
    play.get()
    play.open(play.leg("GET"))

    play.advance(600)

    assert not play.sent("ping")


def test_the_ping_goes_in_the_name_of_the_streams_own_caller() -> None:
    """Whoever was here last (R22, R32)."""
    play, _, _ = quiet_call()
    play.post(request("ping", id="b"), who=b"bob")
    play.answer(play.leg("ping"), result(play.leg("ping").id, {}))
    play.advance(61)

    assert http.find(play.leg("ping").headers, b"authorization") == b"alice"


def test_a_leg_that_we_do_not_read_is_not_called_silent() -> None:
    """A client that stopped reading must not cost the run."""
    play, exchange, leg = quiet_call()
    play.feed(ClientStalled(exchange.number))
    play.advance(200)

    assert not play.sent("ping")
    assert leg.is_open


def test_a_ping_whose_answer_comes_behind_that_of_the_call_says_nothing_of_it() -> None:
    play, exchange, leg = quiet_call(epoch=1)
    play.advance(60.5)
    play.send(leg, event(result(leg.id, epoch=1)))

    play.end(play.leg("ping"), LegEnd.SILENT)

    assert exchange.answer == result(5, epoch=1)
    assert not play.reasons


def test_a_standalone_stream_may_be_silent_for_ever() -> None:
    """Nothing is owed on it, and no leg of it is watched, a resumed one neither."""
    play, exchange, leg = listening(epoch=1)
    play.send(leg, event(log("a", 1), 1))
    play.cut(leg)
    resume(play, (log("b", 1), 2))

    play.advance(130)

    assert not play.sent("ping")
    assert exchange.is_open


@pytest.mark.parametrize("epoch", [None, 7])
def test_a_poll_that_is_announced_for_next_year_ends_at_the_limit_of_silence(epoch: Json) -> None:
    """The server names the time; the client must not wait for it without end (R22)."""
    play = opened(epoch=epoch, hold_s=10_000.0)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(progress(leg.token, 1, epoch), 1), retry(31_536_000_000))
    play.end(leg, LegEnd.CLEAN)

    play.advance(3_500)
    assert exchange.is_open
    play.advance(200)

    assert exchange.answer["error"]["data"]["reason"] == "upstream_silent"
