"""A slow client, a full journal, an idle leg, a process that goes away (G8, R13, W8, W10, W13)."""

from __future__ import annotations

from epochgate.core.events import ClientDrained, ClientStalled
from tests.core.messages import event, progress
from tests.core.playbook import opened
from tests.core.scenes import cursor, give, running, steps


def test_a_slow_client_slows_the_server() -> None:
    play, first, leg = running(2)

    play.feed(ClientStalled(first.number))
    assert leg.is_paused
    play.feed(ClientDrained(first.number))

    assert not leg.is_paused


def test_a_slow_client_that_leaves_no_longer_slows_the_server() -> None:
    play, first, leg = running(2)
    play.feed(ClientStalled(first.number))

    play.leave(first)

    assert not leg.is_paused


def test_what_was_delivered_goes_first_and_a_return_to_it_is_told() -> None:
    """Evicted events were written; a cursor before them gets the error it is owed (R13); G8."""
    play, first, leg = running(30, journal_stream_bytes=1_000)
    assert not leg.is_paused
    assert "journal_evictions" in play.counted
    play.leave(first)

    assert steps(play.get(first.last_id)) == []
    gone = play.get(cursor(first, 1))

    assert gone.answer["error"]["code"] == -32050
    assert play.judged[-1] == ("client", "fail", "expired")


def test_an_idle_leg_is_kept_alive_between_events() -> None:
    """Whole blocks, between whole events (W13)."""
    play, first, leg = running(1)
    before = first.body

    play.advance(19)
    assert first.body == before
    play.advance(22)

    assert first.body == before + b": keepalive\n\n" * 2
    give(play, leg, 1, 2)
    assert steps(first) == [0, 1]


def test_java_gets_one_line_comments() -> None:
    """Each blank line uses up one of its demand units (W13)."""
    play = opened()
    play.client_headers = (*play.client_headers, (b"User-Agent", b"Java-http-client/21.0.2"))
    exchange = play.call(token=1)
    play.open(play.leg("tools/call"))
    before = exchange.body

    play.advance(21)

    assert exchange.body == before + b": keepalive\n"


def test_java_gets_no_retry() -> None:
    """It is a stream error there (W13)."""
    play = opened()
    play.client_headers = (*play.client_headers, (b"User-Agent", b"Java-http-client/21.0.2"))
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)

    play.send(leg, b"retry: 1000\n\n", event(progress(leg.token, 1)))

    assert b"retry" not in exchange.body
    assert exchange.messages == [progress(1, 1)]
