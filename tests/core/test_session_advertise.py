"""`advertise_epoch`: the proxy states its generation to clients that check (design, section 7; R39)."""

from __future__ import annotations

from epochgate.core import http
from tests.core.messages import event, initialize, initialize_answer
from tests.core.playbook import JSON, Play, opened
from tests.core.scenes import open_call


def test_it_is_off_by_default() -> None:
    """Then upstream values pass in generation 1 (R39)."""
    play = opened(epoch=7)

    assert play.exchanges[1].json["result"]["_meta"] == {"session_epoch": 7}
    assert http.find(play.exchanges[1].headers, b"mcp-session-epoch") is None


def test_the_generation_is_stated_on_initialize() -> None:
    play = opened(advertise_epoch=True)

    assert play.exchanges[1].json["result"]["_meta"] == {"session_epoch": 1}
    assert http.find(play.exchanges[1].headers, b"mcp-session-epoch") == b"1"


def test_owed_requests_are_left_to_the_client() -> None:
    """It would issue them again itself: three runs (R39)."""
    play = opened(advertise_epoch=True)
    exchange, leg = open_call(play)
    play.cut(leg)

    assert exchange.answer["error"]["code"] == -32050
    assert play.runs == 1


def test_sse_answers_to_initialize_state_it_too() -> None:
    play = Play(policy=opened(advertise_epoch=True).policy)
    exchange = play.post(initialize())
    leg = play.leg("initialize")
    play.open(leg, ((b"Mcp-Session-Id", b"up-1"),))
    play.send(leg, event(initialize_answer(0, 77)))

    assert exchange.answer["result"]["_meta"] == {"session_epoch": 1}
    assert exchange.headers != JSON
