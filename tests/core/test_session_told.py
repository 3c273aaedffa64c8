"""What a client is told of what it can no longer answer, and of a session that the server made anew."""

from __future__ import annotations

from tests.core.messages import Json, ask, event, log, progress, request, result
from tests.core.playbook import MARK, Play, opened
from tests.core.scenes import call, listening, texts
from tests.core.sides import Exchange, Upstream


def asking(**settings: Json) -> tuple[Play, Exchange, Upstream]:
    """A call whose server asked something under its id 0, which the client has seen."""
    play = opened(**settings)
    exchange, leg = call(play)
    play.send(leg, event(progress(leg.token, 1)), event(ask(0)))
    return play, exchange, leg


def cancels(exchange: Exchange) -> list[Json]:
    found = [one for one in exchange.messages if one.get("method") == "notifications/cancelled"]
    return [one["params"]["requestId"] for one in found]


def test_a_question_of_a_restarted_run_is_called_off() -> None:
    """The client need not ask its user for what nobody waits for (R18)."""
    play, exchange, leg = asking()

    play.cut(leg)
    play.heal()
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))

    assert cancels(exchange) == [0]
    assert exchange.answer["id"] == 5


def test_a_question_that_was_answered_is_not_called_off() -> None:
    play, exchange, leg = asking()
    play.post(result(0))
    play.accept(play.leg("answer"))

    play.cut(leg)

    assert cancels(exchange) == []


def test_a_late_answer_to_what_was_called_off_goes_no_further() -> None:
    play, exchange, leg = asking()
    play.cut(leg)
    play.heal()

    late = play.post(result(0))

    assert late.status == 202
    assert play.dropped == ["stale_answer"]
    assert play.sent("answer") == []
    assert exchange.is_open


def test_pings_are_not_called_off() -> None:
    play = opened()
    exchange, leg = call(play)
    play.send(leg, event(ask(0, "ping")))

    play.cut(leg)
    play.heal()

    assert cancels(exchange) == []


def test_the_answer_that_shows_a_drift_carries_the_mark() -> None:
    """The session was re-created between two calls: its client is told once (G7)."""
    play = opened(epoch=7)
    exchange = play.post(request("ping", id="p"))
    leg = play.leg("ping")
    play.answer(leg, result(leg.id, {}, 8))

    mark = exchange.answer["result"]["_meta"][MARK]
    assert mark == {"reason": "drift", "generation": 2, "discarded_events": 0, "reissued": False}

    second = play.post(request("ping", id="q"))
    leg = play.leg("ping")
    play.answer(leg, result(leg.id, {}, 8))
    assert MARK not in second.answer["result"].get("_meta", {})


def test_a_drift_shown_by_an_event_carries_the_mark_too() -> None:
    play = opened(epoch=7)
    exchange, leg = call(play)

    play.send(leg, event(result(leg.id, {}, 8)))

    assert exchange.answer["result"]["_meta"][MARK]["reason"] == "drift"
    assert play.session.current.number == 2


def test_an_older_client_whose_request_is_away_does_not_take_the_standalone_stream() -> None:
    """It has no cursor of a stream that was quiet, and resumes without one (R44)."""
    play, listener, leg = listening(version="2025-06-18")
    play.send(leg, event(log("a")))
    exchange, leg = call(play)
    play.send(leg, event(progress(leg.token, 1)))
    play.leave(exchange)
    play.advance(6)

    second = play.get()

    assert second.status == 409
    assert dict(second.headers)[b"Retry-After"] == b"5"
    assert listener.is_open


def test_one_whose_standalone_leg_is_gone_gets_it() -> None:
    play, listener, _ = listening(version="2025-06-18")
    exchange, leg = call(play)
    play.send(leg, event(progress(leg.token, 1)))
    play.leave(exchange)
    play.leave(listener)

    assert play.get().status == 200


def test_a_client_that_is_primed_takes_it_all_the_same() -> None:
    play, listener, _ = listening()
    exchange, leg = call(play)
    play.send(leg, event(progress(leg.token, 1)))
    play.leave(exchange)
    play.advance(6)

    assert play.get().status == 200
    assert not listener.is_open


def reopened(*before: bytes) -> tuple[Play, Exchange, Upstream]:
    """A standalone stream that gave these events, broke, and was reopened in its generation."""
    play, exchange, leg = listening()
    play.send(leg, *before)
    play.cut(leg)
    play.advance(1.1)
    leg = play.leg("GET")
    play.open(leg)
    return play, exchange, leg


def test_history_that_a_reopened_stream_replays_is_not_given_twice() -> None:
    """Some servers replay from their first event on every GET (W16)."""
    history = [event(log(word), number) for number, word in enumerate("abc", 1)]
    play, exchange, leg = reopened(*history)

    play.send(leg, *history, event(log("d"), 4))

    assert texts(exchange) == ["a", "b", "c", "d"]
    assert play.dropped == ["duplicate"] * 3


def test_the_same_ids_with_other_data_are_other_events() -> None:
    """A session that was made anew counts from its beginning."""
    play, exchange, leg = reopened(event(log("a"), 1), event(log("b"), 2))

    play.send(leg, event(log("x"), 1), event(log("y"), 2))

    assert texts(exchange) == ["a", "b", "x", "y"]


def test_a_history_too_long_to_compare_is_known_by_its_numbers() -> None:
    word = "w" * 200_000
    history = [event(log(f"{word}{number}"), number) for number in range(1, 6)]
    play, exchange, leg = reopened(*history)
    seen = len(texts(exchange))

    play.send(leg, *history, event(log("new"), 6))

    assert texts(exchange)[seen:] == ["new"]


def test_numbers_below_the_first_are_not_history() -> None:
    """A session that was made anew counts its streams from the first one (W16)."""
    play, exchange, leg = reopened(*[event(log(word), number) for number, word in enumerate("abcde", 20_001)])

    play.send(leg, event(log("x"), 10_001), event(log("y"), 10_002))

    assert texts(exchange) == ["a", "b", "c", "d", "e", "x", "y"]
    assert play.dropped == []


def test_events_without_ids_are_never_taken_for_history() -> None:
    play, exchange, leg = reopened(event(log("a")))

    play.send(leg, event(log("a")))

    assert texts(exchange) == ["a", "a"]
