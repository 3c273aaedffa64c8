"""A restart is told before any message of the new run, or nothing of that run is relayed (R5, R38, W16)."""

from __future__ import annotations

import pytest

from tests.core.messages import error, event, log, progress, request, result
from tests.core.playbook import MARK, opened
from tests.core.scenes import after, lost, open_call, restarted


@pytest.mark.parametrize(("level", "is_told"), [("warning", True), ("info", True), ("error", False)])
def test_the_clients_own_level_decides_whether_it_can_be_told(level: str, is_told: bool) -> None:
    """A notice is a log message (W16)."""
    play = opened(has_logging=True)
    play.post(request("logging/setLevel", {"level": level}, id=1))
    play.answer(play.leg(), result(play.leg().id, {}))
    exchange, leg = open_call(play)
    play.cut(leg)
    play.heal()
    while play.has_leg("logging/setLevel"):
        play.answer(play.leg("logging/setLevel"), result(play.leg("logging/setLevel").id, {}))
    if play.has_leg("tools/list"):
        asked = play.leg("tools/list")
        play.answer(asked, result(asked.id, {"tools": play.tools}))
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(log("new run")))

    assert [one["params"].get("logger") for one in exchange.messages[1:]] == (
        ["epochgate", None] if is_told else []
    )


def test_a_call_that_showed_nothing_yet_needs_no_notice() -> None:
    """There is nothing that the new run would seem to continue; the mark is unconditional (R5)."""
    play, exchange, again, seen = restarted(seen=())
    play.send(again, event(log("new run")), event(result(again.id)))

    assert [one.get("method") for one in after(exchange, seen)] == ["notifications/message", None]
    assert exchange.answer["result"]["_meta"][MARK]["discarded_events"] == 0


def test_progress_is_dropped_until_it_exceeds_what_the_client_saw() -> None:
    """Dropped, not delayed (R38)."""
    play, exchange, again, seen = restarted(seen=(1, 2, 3), has_logging=True)
    play.send(again, *[event(progress(again.token, done)) for done in (1, 2, 3, 4, 5)])

    assert [one["params"].get("progress") for one in after(exchange, seen)] == [None, 4, 5]


@pytest.mark.parametrize(
    ("seen_total", "total", "done", "is_relayed"),
    [
        (10.0, 10.0, 4, True),
        (10.0, 10.0, 2, False),
        (10.0, 100.0, 40, False),  # percent against count
        (None, 10.0, 4, False),
        (10.0, None, 4, False),
        (None, None, 4, True),
    ],
)
def test_progress_of_another_total_is_not_comparable(
    seen_total: float | None, total: float | None, done: float, is_relayed: bool
) -> None:
    """None of the new run is relayed then (R38)."""
    play, exchange, again, seen = restarted(seen=(1, 2), total=seen_total, has_logging=True)
    play.send(again, event(progress(again.token, done, total=total)))

    assert len(after(exchange, seen)) == (2 if is_relayed else 1)


def test_progress_that_is_no_number_cannot_be_compared() -> None:
    """None of the new run is relayed then (R38)."""
    play, exchange, again, seen = restarted(seen=("half",), has_logging=True)
    play.send(again, event(progress(again.token, 50)))

    assert len(after(exchange, seen)) == 1


def test_only_what_the_client_was_written_counts_as_seen() -> None:
    """Events that were journalled while it was away are void, and it never saw them."""
    play = opened(has_logging=True)
    exchange, leg = open_call(play)
    play.leave(exchange)
    play.send(leg, event(progress(leg.token, 2)))
    play.send(leg, *[event(progress(leg.token, done)) for done in (3, 4, 5)])
    play.cut(leg)
    second = play.get(exchange.last_id)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, *[event(progress(again.token, done)) for done in (1, 2, 3)])

    assert [one["params"].get("progress") for one in second.messages] == [None, 2, 3]


def test_the_mark_stands_in_the_data_of_an_error() -> None:
    """Data that is no object moves under `value` (R5)."""
    play, exchange, again, _ = restarted()
    play.send(again, event({**error(again.id), "error": {"code": 1, "message": "m", "data": "text"}}))

    data = exchange.answer["error"]["data"]
    assert data["value"] == "text"
    assert data[MARK]["reason"] == "no_epoch_captured"


def test_the_discarded_events_of_two_restarts_add_up() -> None:
    play, exchange, again, _ = restarted(seen=(1, 2), has_logging=True, max_reissues=2)
    play.send(again, event(progress(again.token, 3)))
    play.cut(again)
    play.heal(b"up-3")
    third = play.leg("tools/call")
    play.answer(third, result(third.id))

    mark = exchange.answer["result"]["_meta"][MARK]
    assert mark["generation"] == 3
    assert mark["discarded_events"] >= 3


def test_a_client_that_was_never_told_is_told_with_its_next_answer() -> None:
    """The amnesia is not silent even if the first answer got lost with its client (R21); G7."""
    play, exchange = lost()
    play.leave(exchange)
    play.call(id=6)
    play.heal()
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))

    told = [one for one in play.exchanges.values() if MARK.encode() in one.body]
    assert len(told) == 1


def test_a_cursor_of_a_restarted_stream_leads_to_its_successor_from_the_start() -> None:
    """Notice included (R11)."""
    play, exchange, again, _ = restarted(has_logging=True)
    old_cursor = next(one.id for one in exchange.events if one.id is not None)
    play.leave(exchange)
    play.send(again, event(log("x")), event(result(again.id)))

    second = play.get(old_cursor)

    kinds = [one.get("params", {}).get("logger", one.get("method", "answer")) for one in second.messages]
    assert kinds == ["epochgate", "notifications/message", "answer"]
    assert ("client", "resume", "superseded") in play.judged


def test_a_stream_of_the_first_generation_that_finished_is_served_from_its_own_journal() -> None:
    """The first trace: another stream was healed meanwhile (R11)."""
    play = opened()
    first, one = open_call(play, id=1)
    _, two = open_call(play, id=2)
    play.leave(first)
    play.send(one, event(result(one.id)))
    play.cut(two)
    play.heal()

    second = play.get(first.last_id)

    assert second.answer["id"] == 1
    assert ("client", "resume", "journal") in play.judged
    assert len([leg for leg in play.sent("tools/call") if leg.session_id == b"up-2"]) == 1
