"""Nothing runs for nobody, and no upstream session is left behind (R26, G8)."""

from __future__ import annotations

from epochgate.core.events import LegAnswered, LegEnd
from epochgate.core.policy import Stamps
from epochgate.core.states import SessionState
from tests.core.messages import cancel, event, initialize_answer, request, result
from tests.core.playbook import JSON, Play, opened
from tests.core.scenes import UP_2, lost, open_call


def ended(play: Play) -> list[bytes | None]:
    """The upstream sessions that a DELETE went to."""
    return [leg.session_id for leg in play.sent("DELETE")]


def healed_beside_a_running_call() -> Play:
    """Alice's call 5 goes on in the first session, everything else in the second."""
    play = opened()
    open_call(play)
    broken = play.call(id=6)
    play.cut(play.sent("tools/call")[-1])
    play.heal()
    again = play.leg("tools/call")
    while play.has_leg("notifications/cancelled"):
        play.accept(play.leg("notifications/cancelled"))
    play.answer(again, result(again.id))
    assert not broken.is_open
    assert ended(play) == []
    return play


def test_the_old_session_is_ended_when_the_hold_of_its_last_stream_expires() -> None:
    play = healed_beside_a_running_call()
    play.leave(play.exchanges[3])
    play.advance(301)

    assert ended(play) == [b"up-1"]


def test_the_old_session_is_ended_when_its_last_call_was_cancelled() -> None:
    play = healed_beside_a_running_call()
    play.post(cancel(5))
    play.accept(play.leg("notifications/cancelled"))
    play.advance(6)

    assert ended(play) == [b"up-1"]


def test_the_old_session_is_ended_when_its_get_was_refused_after_the_heal() -> None:
    """It was the last that was sent in it."""
    play = opened()
    _, leg = open_call(play)
    listening = play.get()
    play.cut(leg)
    play.heal()
    while play.has_leg("notifications/cancelled"):
        play.accept(play.leg("notifications/cancelled"))
    assert ended(play) == []

    play.refuse(play.leg("GET"), 405)

    assert listening.status == 405
    assert ended(play) == [b"up-1"]


def test_the_end_of_a_session_ends_each_upstream_session_once() -> None:
    play = opened()
    open_call(play)
    play.get()  # not answered yet: it stays in the first one
    play.call(id=6)
    play.cut(play.sent("tools/call")[-1])
    play.heal()
    play.accept(play.leg("notifications/cancelled"))

    play.delete()
    play.answer(play.leg("DELETE"), b"", status=200, headers=())

    assert sorted(one or b"" for one in ended(play)) == [b"up-1", b"up-2"]


def test_a_session_that_an_unfinished_answer_named_is_ended() -> None:
    play, _ = lost()
    leg = play.leg("initialize")
    play.feed(LegAnswered(leg.number, 200, (*JSON, UP_2)))
    play.cut(leg)

    assert ended(play) == [b"up-2"]


def test_a_session_that_was_made_too_late_for_who_waited_is_ended() -> None:
    """The heal parks; the next one makes a session of its own (R26, R27)."""
    play, _ = lost(heal_deadline_s=5.0)
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id), headers=(*JSON, UP_2))
    play.advance(5)

    assert play.heals == [("session_gone", "parked")]
    assert ended(play) == [b"up-2"]


def test_a_heal_whose_commit_is_being_recorded_is_not_parked() -> None:
    """It has succeeded, though nobody waits any more; the old session is ended with it."""
    play = opened(heal_deadline_s=5.0)
    call, leg = open_call(play)
    play.is_persisting = False
    play.cut(leg)
    play.heal()
    play.advance(5)
    play.persist()

    assert call.answer["error"]["data"]["reason"] == "heal_deadline"
    assert play.heals == [("stream_restart", "healed")]
    assert play.session.state is SessionState.LIVE
    assert ended(play) == [b"up-1"]


def test_the_id_that_the_session_goes_on_under_is_not_ended_with_a_heal_that_parks() -> None:
    play, _ = lost(heal_deadline_s=5.0)
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id), headers=(*JSON, (b"Mcp-Session-Id", b"up-1")))
    play.advance(5)

    assert play.heals == [("session_gone", "parked")]
    assert ended(play) == []


def test_a_call_whose_client_left_without_an_id_is_not_sent_again() -> None:
    """Nobody can come back for it, whatever `reissue_when_away` says."""
    play = opened(reissue_when_away=True)
    exchange = play.call()
    play.leave(exchange)
    play.end(play.leg("tools/call"), LegEnd.BROKEN)

    assert not play.has_leg("initialize")
    assert len(play.sent("tools/call")) == 1
    play.advance(400)
    assert play.session.streams == {}


def test_a_call_that_is_sent_again_for_a_client_that_is_away_is_held_no_longer_for_that() -> None:
    play = opened(reissue_when_away=True, silence_s=1_000.0)
    exchange, leg = open_call(play)
    play.leave(exchange)
    play.advance(200)
    play.cut(leg)
    play.heal()
    assert play.runs == 2
    play.advance(101)

    assert play.session.streams == {}
    assert play.get(exchange.last_id).answer["error"]["data"]["reason"] == "expired"


def test_two_unstamped_calls_of_one_id_are_each_answered_on_their_own_stream() -> None:
    """R33: large hosted clients send id 1 for everything."""
    play = opened(stamp=Stamps.OFF)
    first, leg = open_call(play)
    second = play.call(id=5)
    other = play.leg("tools/call")

    play.send(leg, event(result(5, {"of": "the first"})))
    play.answer(other, result(5, {"of": "the second"}))

    assert first.answer == result(5, {"of": "the first"})
    assert second.answer == result(5, {"of": "the second"})


def batch() -> list[object]:
    """Two calls: of `work`, id 5, and of `pay`, id 6."""
    tools = {5: "work", 6: "pay"}
    return [
        request("tools/call", {"name": name, "_meta": {"progressToken": id}}, id=id)
        for id, name in tools.items()
    ]


def test_a_cancelled_member_of_a_batch_does_not_go_up() -> None:
    play = opened()
    play.is_persisting = False
    play.post(batch())
    play.post(cancel(5))
    play.persist()

    (sent,) = play.leg("batch").json
    assert sent["params"]["name"] == "pay"


def test_what_a_broken_batch_answered_is_redelivered_before_the_second_run() -> None:
    """R41: an answered member is not run again, so that its answer must not be lost with the first run."""
    play = opened(tools=({"name": "work"}, {"name": "pay"}))
    exchange = play.post(batch())
    leg = play.leg("batch")
    play.open(leg)
    cursor = exchange.last_id
    play.send(leg, event(result(leg.json[0]["id"], {"n": 5})))
    play.leave(exchange)
    play.cut(leg)

    again = play.get(cursor)
    play.heal()
    second = play.leg("batch")
    play.answer(second, [result(second.json[0]["id"], {"n": 6})])

    assert [answer["id"] for answer in again.answers] == [5, 6]


def test_an_expired_batch_gives_no_second_answer_to_a_member_that_was_answered() -> None:
    play = opened()
    exchange = play.post(batch())
    leg = play.leg("batch")
    play.open(leg)
    play.send(leg, event(result(leg.json[0]["id"])))
    play.leave(exchange)
    play.advance(301)

    again = play.get(exchange.last_id)
    assert [answer["id"] for answer in again.answers] == [6]
    assert again.answer["error"]["data"]["reason"] == "expired"


def test_no_heal_begins_while_the_end_of_a_lost_session_is_recorded() -> None:
    """R25: DELETE wins from its arrival."""
    play, exchange = lost()
    play.leave(exchange)
    play.unreachable(play.leg("initialize"))
    assert play.session.state is SessionState.PARKED
    play.is_persisting = False
    play.delete()
    play.call(id=7)
    play.persist()

    assert len(play.sent("initialize")) == 2


def test_a_get_that_waits_for_a_heal_ends_when_the_session_is_lost() -> None:
    play, _ = lost()
    listening = play.get()
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id, version="2024-11-05"), headers=(*JSON, UP_2))

    assert listening.status == 200
    assert not listening.is_open
