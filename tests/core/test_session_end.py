"""DELETE wins over everything (R25), and a cancel is remembered (R29)."""

from __future__ import annotations

import pytest

from epochgate.core.commands import Persist
from epochgate.core.events import LegEnd
from epochgate.core.records import CancelRecord
from epochgate.core.states import SessionState
from tests.core.healing import lost, open_call
from tests.core.messages import (
    cancel,
    error,
    event,
    initialize_answer,
    progress,
    request,
    result,
)
from tests.core.playbook import JSON, Play, opened

# --- DELETE -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "told"), [(200, 200), (204, 204), (202, 202), (404, 200)])
def test_delete_is_forwarded_and_ends_the_session(status: int, told: int) -> None:
    play = opened()
    running, leg = open_call(play)
    json_call = play.call("json", id=6)

    exchange = play.delete()
    assert play.leg("DELETE").session_id == b"up-1"
    play.refuse(play.leg("DELETE"), status)

    assert exchange.status == told
    for each in (running, json_call):
        assert each.answer["error"]["code"] == -32051
        assert each.answer["error"]["data"]["reason"] == "session_ended"
    assert not leg.is_open
    assert play.call(id=7).status == 404
    assert play.get(running.last_id).status == 404
    assert play.delete().status == 404
    assert not play.heals


@pytest.mark.parametrize("status", [401, 403, 405])
def test_a_delete_that_is_refused_passes_and_keeps_the_session(status: int) -> None:
    play = opened()
    running, leg = open_call(play)
    exchange = play.delete()
    play.refuse(play.leg("DELETE"), status)

    assert exchange.status == status
    play.send(leg, event(result(leg.id)))
    assert running.answer == result(5)


def test_streams_that_the_delete_ends_cleanly_are_neither_resumed_nor_healed() -> None:
    """R25: the server closes them without a response before it answers the DELETE."""
    play = opened(epoch=7)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(progress(leg.token, 1, 7), 1))
    play.delete()
    play.end(leg, LegEnd.CLEAN)
    assert not play.has_leg("GET")
    assert not play.has_leg("initialize")

    play.refuse(play.leg("DELETE"), 200)

    assert exchange.answer["error"]["data"]["reason"] == "session_ended"
    assert play.runs == 1


def test_a_delete_during_a_heal_ends_the_session_that_is_being_made_too() -> None:
    """R25: no hidden run in an orphan session."""
    play, exchange = lost()
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id), headers=(*JSON, (b"Mcp-Session-Id", b"up-2")))
    deleted = play.delete()
    first = next(one for one in play.sent("DELETE") if one.session_id == b"up-1")
    play.refuse(first, 404)
    play.accept(play.leg("notifications/initialized")) if play.has_leg("notifications/initialized") else None

    assert deleted.status == 200
    assert exchange.json["error"]["code"] == -32051
    assert b"up-2" in {one.session_id for one in play.sent("DELETE")}
    assert play.runs == 1
    assert play.session.state is SessionState.ENDED


def test_from_its_arrival_a_delete_stops_a_heal_from_running_anything_again() -> None:
    """R25: heals and re-issues pause."""
    play, exchange = lost()
    play.delete()
    if play.has_leg("initialize"):
        play.heal()

    assert play.runs == 1
    assert exchange.status is None
    play.refuse(play.leg("DELETE"), 200)
    assert exchange.json["error"]["data"]["reason"] == "session_ended"
    assert play.runs == 1


def test_a_refused_delete_lets_the_heal_go_on() -> None:
    play, exchange = lost()
    play.delete()
    if play.has_leg("initialize"):
        play.heal()
    play.refuse(next(leg for leg in play.sent("DELETE")), 405)
    if play.has_leg("initialize"):
        play.heal()

    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert exchange.json["id"] == 5


def test_every_live_upstream_session_is_ended() -> None:
    """R25: the old one of a stream that never broke, too."""
    play = opened()
    open_call(play, id=1)
    _, broken = open_call(play, id=2)
    play.cut(broken)
    play.heal()
    exchange = play.delete()
    play.refuse(next(leg for leg in play.sent("DELETE") if leg.session_id == b"up-2"), 200)

    assert {leg.session_id for leg in play.sent("DELETE")} == {b"up-1", b"up-2"}
    assert exchange.status == 200


@pytest.mark.parametrize("how", [LegEnd.NOT_SENT, LegEnd.BROKEN])
def test_a_delete_that_cannot_be_told_does_not_hang(how: LegEnd) -> None:
    play = opened()
    exchange = play.delete()
    play.end(play.leg("DELETE"), how)

    assert exchange.status == 200


def test_an_ended_session_is_forgotten() -> None:
    play = opened()
    play.delete()
    play.refuse(play.leg("DELETE"), 200)

    play.advance(61)

    assert play.is_forgotten
    assert play.session.next_deadline() is None


# --- cancel -----------------------------------------------------------------------------------------


def test_a_cancel_is_mapped_to_the_stamp_and_durable_before_its_202() -> None:
    """R29, R16."""
    play = opened()
    _, leg = open_call(play)
    play.is_persisting = False
    exchange = play.post(cancel(5))
    assert exchange.status is None
    (waiting,) = play.persists
    assert isinstance(waiting, Persist)
    assert isinstance(waiting.record, CancelRecord)
    play.persist()

    up = play.leg("notifications/cancelled")
    assert (up.session_id, up.json["params"]["requestId"]) == (b"up-1", leg.id)
    play.accept(up)
    assert exchange.status == 202


def test_after_a_cancel_the_stream_ends_within_five_seconds() -> None:
    """R29: servers that never end it would leave it open for ever."""
    play = opened()
    exchange, leg = open_call(play)
    play.post(cancel(5))
    play.accept(play.leg("notifications/cancelled"))
    play.advance(4.9)
    assert exchange.is_open
    play.advance(0.2)

    assert not exchange.is_open
    assert exchange.answers == []
    assert not leg.is_open


def test_an_answer_that_comes_all_the_same_is_relayed() -> None:
    """G3: after a cancel at most one."""
    play = opened()
    exchange, leg = open_call(play)
    play.post(cancel(5))
    play.send(leg, event(result(leg.id)))

    assert exchange.answer == result(5)
    play.advance(10)


def test_a_cancelled_call_whose_leg_breaks_is_not_run_again() -> None:
    """R29."""
    play = opened()
    exchange, leg = open_call(play)
    play.post(cancel(5))
    play.cut(leg)
    play.advance(6)

    assert not exchange.is_open
    assert not play.has_leg("initialize")
    assert play.runs == 1


def test_a_cancel_during_the_heal_takes_the_call_off_the_queue() -> None:
    """R29, first trace: there is no live leg to map it to."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)

    assert play.post(cancel(5)).status == 202
    play.heal()
    play.advance(6)

    assert play.runs == 1
    assert not exchange.is_open


def test_a_cancel_after_the_second_run_began_goes_to_the_newest_stamp() -> None:
    play = opened()
    _, leg = open_call(play)
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.post(cancel(5))

    up = play.sent("notifications/cancelled")[-1]
    assert (up.session_id, up.json["params"]["requestId"]) == (b"up-2", again.id)


def test_a_cancel_of_an_id_in_flight_twice_goes_to_the_newest() -> None:
    """R33."""
    play = opened()
    play.call("a", id=1)
    play.call("b", id=1)
    play.post(cancel(1))

    assert play.leg("notifications/cancelled").json["params"]["requestId"] == play.sent("tools/call")[1].id


def test_a_cancel_keeps_the_type_of_the_id() -> None:
    play = opened()
    play.call("a", id=1)
    play.call("b", id="1")
    play.post(cancel(1))

    assert play.leg("notifications/cancelled").json["params"]["requestId"] == play.sent("tools/call")[0].id


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


# --- batches ----------------------------------------------------------------------------------------


def test_a_batch_goes_up_as_one_under_stamps_and_comes_back_whole() -> None:
    """R41."""
    play = opened()
    exchange = play.post([request("tools/list", id=1), request("ping", id="2")])
    leg = play.leg("batch")
    one, two = leg.json
    assert (type(one["id"]), type(two["id"])) == (int, str)
    assert (one["id"], two["id"]) != (1, "2")

    play.answer(leg, [result(two["id"], {"of": 2}), result(one["id"], {"of": 1})])

    assert exchange.json == [result("2", {"of": 2}), result(1, {"of": 1})]


def test_only_the_unanswered_members_of_a_batch_are_run_again() -> None:
    """R41."""
    play = opened()
    exchange = play.post([request("tools/list", id=1), request("ping", id=2), request("prompts/list", id=3)])
    leg = play.leg("batch")
    play.open(leg)
    play.send(leg, event(result(leg.json[1]["id"])))
    play.cut(leg)
    play.heal()

    again = play.leg("batch")
    assert [one["method"] for one in again.json] == ["tools/list", "prompts/list"]
    play.open(again)
    play.send(again, event(result(again.json[0]["id"])), event(error(again.json[1]["id"])))

    assert sorted(one["id"] for one in exchange.answers) == [1, 2, 3]
    assert not exchange.is_open


def test_withheld_members_of_a_batch_get_their_error_and_the_rest_runs_again() -> None:
    play = opened(never_reissue=frozenset({"pay"}))
    exchange = play.post(
        [request("tools/call", {"name": "pay"}, id=1), request("tools/list", id=2)],
    )
    leg = play.leg("batch")
    play.open(leg)
    play.send(leg, event(request("ping", id="s")))
    play.cut(leg)
    play.heal()

    again = play.leg("batch")
    assert [one["method"] for one in again.json] == ["tools/list"]
    play.answer(again, [result(again.json[0]["id"])])

    answers = {one["id"]: one for one in exchange.answers}
    assert answers[1]["error"]["code"] == -32050
    assert "result" in answers[2]


def test_withheld_members_of_a_json_batch_get_their_error_too() -> None:
    """G3: every request gets exactly one response."""
    play = opened(never_reissue=frozenset({"pay"}))
    exchange = play.post(
        [request("tools/call", {"name": "pay"}, id=1), request("tools/list", id=2)],
    )
    play.cut(play.leg("batch"))
    play.heal()
    again = play.leg("batch")
    play.answer(again, [result(again.json[0]["id"])])

    assert sorted(one["id"] for one in exchange.answers) == [1, 2]
