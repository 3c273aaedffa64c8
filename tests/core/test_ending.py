"""How sessions end: by DELETE, idleness, eviction, or because another owner has them."""

from __future__ import annotations

import pytest

from epochgate.core import ending
from epochgate.core.events import Fenced, LegEnd, Persisted
from epochgate.core.policy import SessionLoss
from epochgate.core.records import ReissueRecord
from epochgate.core.states import SessionState
from tests.core.messages import (
    cancel,
    event,
    initialize,
    initialize_answer,
    notification,
    progress,
    request,
    result,
)
from tests.core.playbook import JSON, Play, opened, quiet
from tests.core.scenes import (
    BOB,
    call,
    evicted,
    listening,
    lost,
    open_call,
    running,
)


@pytest.mark.parametrize(("status", "told"), [(200, 200), (204, 204), (202, 202), (404, 200)])
def test_delete_is_forwarded_and_ends_the_session(status: int, told: int) -> None:
    """2xx and 404 end it, and owed requests get their error (R25)."""
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


def test_from_its_arrival_a_delete_stops_a_heal_from_running_anything_again() -> None:
    """Heals and re-issues pause (R25)."""
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
    """It paused (R25)."""
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


def test_a_heal_waits_for_every_delete_that_is_under_way() -> None:
    play, _ = lost()
    play.delete()
    play.delete()
    one, two = play.sent("DELETE")
    play.heal()

    play.refuse(one, 405)
    assert play.runs == 1
    play.refuse(two, 405)

    assert play.runs == 2


@pytest.mark.parametrize("rpc", ["notifications/cancelled", "notifications/roots/list_changed"])
def test_a_session_whose_notification_is_on_its_way_is_in_use(rpc: str) -> None:
    play = opened()
    play.post({"jsonrpc": "2.0", "method": rpc, "params": {"requestId": 99}})
    assert not ending.is_unused(play.session)
    play.accept(play.leg(rpc))
    assert ending.is_unused(play.session)


def test_what_was_kept_of_it_is_let_go_at_once() -> None:
    play, _, leg = running(2)
    play.send(leg, event(result(leg.id)))
    assert play.session.budget.used > 0
    evicted(play)
    assert play.session.budget.used == 0


def test_a_server_that_does_not_answer_the_delete_is_not_waited_for() -> None:
    play = opened(ping_s=10.0)
    evicted(play)
    play.advance(11)
    assert play.is_forgotten


def test_a_server_session_that_is_lost_is_not_ended_again() -> None:
    play = opened(session_loss=SessionLoss.SURFACE)
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    evicted(play)
    assert play.sent("DELETE") == []
    assert play.is_forgotten


def test_a_session_that_ended_by_itself_is_only_forgotten() -> None:
    play = opened()
    play.delete()
    play.refuse(play.leg("DELETE"), 200)
    evicted(play)
    assert play.is_forgotten
    assert play.counted == []
    assert len(play.sent("DELETE")) == 1


def test_a_heal_that_lost_the_race_deletes_the_session_that_it_made() -> None:
    """Who loses the heal's compare-and-set (R17)."""
    play = opened()
    _, leg = open_call(play)
    play.cut(leg)
    play.is_persisting = False
    play.heal()

    play.feed(Fenced(play.persists.pop().token))

    assert play.runs == 1
    assert play.leg("DELETE").session_id == b"up-2"


def test_an_owner_that_lost_the_counter_sends_no_second_run() -> None:
    """The second trace: it decided, another took over, and both would post (R17)."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)
    play.is_persisting = False
    play.heal()
    play.feed(Persisted(play.persists.pop().token))
    (persist,) = play.persists
    assert isinstance(persist.record, ReissueRecord)

    play.feed(Fenced(play.persists.pop().token))
    play.advance(60)

    assert play.runs == 1
    assert exchange.is_aborted


def test_a_delete_of_a_parked_session_ends_it() -> None:
    """Section 2, PARKED: nothing is there to be told (R25)."""
    play, call = lost()
    play.refuse(play.leg("initialize"), 401)
    exchange = play.delete()

    assert exchange.status == 200
    assert call.json["error"]["data"]["reason"] == "session_ended"
    assert play.runs == 1


@pytest.mark.parametrize("how", [404, 401, 500, LegEnd.NOT_SENT])
def test_a_strangers_delete_ends_nothing_unless_the_server_did_it(how: int | LegEnd) -> None:
    """(a) Its 404 says that the session is not Bob's, not that it is gone (R25, R32)."""
    play = opened()
    running, leg = open_call(play)
    bob = play.delete(who=BOB)
    if isinstance(how, int):
        play.refuse(play.leg("DELETE"), how)
    else:
        play.end(play.leg("DELETE"), how)

    assert bob.status == (how if isinstance(how, int) else 404)
    play.send(leg, event(result(leg.id)))
    assert running.answer == result(5)
    assert play.session.state is SessionState.LIVE


def test_an_old_server_session_is_ended_with_the_last_stream_that_ran_in_it() -> None:
    play = opened()
    _, one = open_call(play, id=1)
    _, two = open_call(play, id=2)
    _, three = open_call(play, id=3)
    play.cut(three)
    play.heal()
    play.accept(play.leg("notifications/cancelled"))
    play.send(one, event(result(one.id)))
    assert not play.sent("DELETE")

    play.send(two, event(result(two.id)))

    assert play.leg("DELETE").session_id == b"up-1"


def test_of_two_deletes_at_once_each_is_answered_and_the_session_ends_once() -> None:
    play = opened()
    first, second = play.delete(), play.delete()
    one, two = play.sent("DELETE")

    play.refuse(one, 200)
    play.refuse(two, 200)

    assert (first.status, second.status) == (200, 200)
    assert play.session.state is SessionState.ENDED


def test_a_delete_ends_the_listener_too_and_what_its_old_stream_kept() -> None:
    """With the final chunk; the old stream, of before a heal, is over already."""
    play, listener, _ = listening()
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.refuse(play.leg("ping"), 404)
    play.heal()
    play.delete()

    play.refuse(next(leg for leg in play.sent("DELETE") if leg.session_id == b"up-2"), 200)

    assert (listener.is_open, listener.is_aborted) == (False, False)
    assert not play.has_leg("GET")
    assert [leg.session_id for leg in play.sent("DELETE")] == [b"up-2"]


def test_the_end_ends_every_server_session_that_still_lives() -> None:
    """A stream that never broke runs in the old one."""
    play = opened()
    open_call(play, id=1)
    _, broken = open_call(play, id=2)
    play.cut(broken)
    play.heal()

    play.delete()
    play.refuse(next(leg for leg in play.sent("DELETE") if leg.session_id == b"up-2"), 200)

    assert [leg.session_id for leg in play.sent("DELETE")] == [b"up-2", b"up-1"]


def test_a_session_that_another_owner_recorded_first_is_not_opened() -> None:
    play = Play(is_persisting=False)
    exchange = play.post(initialize())
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(0), headers=(*JSON, (b"Mcp-Session-Id", b"up-1")))

    play.feed(Fenced(play.persists.pop().token))

    assert play.is_forgotten
    assert exchange.status is None  # its driver cuts it


def test_a_session_is_not_idle_while_a_call_of_it_runs_or_its_client_was_just_here() -> None:
    """The limit counts from the last request."""
    play = opened(session_idle_s=20.0)
    exchange, leg = open_call(play)
    play.advance(30)
    assert exchange.is_open
    play.send(leg, event(result(leg.id)))
    play.call(id=6)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    play.advance(15)
    assert not play.sent("DELETE")

    play.advance(10)

    assert play.session.state is SessionState.ENDED


def test_what_an_ended_session_kept_is_forgotten_with_it() -> None:
    play = opened()
    exchange, _ = open_call(play)
    play.delete()
    play.refuse(play.leg("DELETE"), 200)
    assert exchange.answer["error"]["code"] == -32051
    assert play.session.budget.used > 0

    play.advance(61)

    assert play.session.budget.used == 0
    assert play.is_forgotten


def test_a_server_that_never_answers_an_initialize_has_no_session_to_forget() -> None:
    play = Play()
    exchange = play.post(initialize())

    play.advance(3_601)

    assert exchange.json["error"]["data"]["reason"] == "upstream_silent"
    assert play.is_forgotten


def test_what_the_server_is_still_asked_is_answered_before_the_session_is_forgotten() -> None:
    """However short `retain` is (G3)."""
    play = opened(retain_s=0.0)
    notified = play.post(notification("notifications/roots/list_changed"))
    second = play.delete()
    first = play.delete()

    play.answer(play.leg("DELETE"), b"")
    play.advance(0.1)
    assert (first.status, second.status, notified.status) == (200, None, None)
    play.advance(10)

    assert (second.status, notified.status) == (200, 202)
    play.advance(10)
    assert play.is_forgotten


def test_the_end_of_a_session_that_was_given_up_but_not_lost_is_told_to_its_server() -> None:
    """The client is done with it, and so is the server (R25)."""
    play = opened()
    _, leg = open_call(play)
    play.cut(leg)
    play.refuse(play.leg("initialize"), 200)
    assert play.heals == [("stream_restart", "incompatible")]

    exchange = play.delete()

    assert exchange.status == 200
    assert play.leg("DELETE").session_id == b"up-1"


def test_a_session_that_was_made_anew_beside_its_delete_is_ended_too() -> None:
    """Its loss was proven when the DELETE came, so that none was sent; then a call shows one under its id."""
    play = opened(epoch=7, never_reissue=("work",))
    exchange, leg = call(play)
    ping = play.post(request("ping", id="p"))
    play.send(leg, event(progress(leg.token, 1, 7)), event(progress(leg.token, 2, 8)))
    assert play.session.state is SessionState.PARKED
    play.is_persisting = False

    play.delete()
    answer = play.leg("ping")
    play.answer(answer, result(answer.id, {}, 9))
    assert play.session.current.number == 2
    assert not play.sent("DELETE")
    play.persist()

    assert ping.status == 200
    assert exchange.answer["error"]["code"] == -32050
    assert play.leg("DELETE").session_id == b"up-1"


def test_a_call_that_was_cancelled_while_its_leg_was_broken_ends_its_old_session() -> None:
    """It was the last stream there: given up, it leaves nothing that needs the session (R26)."""
    play = opened(epoch=7)
    _, kept = call(play, id=1)
    play.send(kept, event(progress(kept.token, 1, 7), "1_1"))
    _, broken = open_call(play, id=2)
    play.cut(broken)
    play.heal(epoch=8)
    play.cut(kept)
    play.accept(play.leg("notifications/cancelled"))
    play.post(cancel(1))
    play.accept(play.leg("notifications/cancelled"))
    assert not play.sent("DELETE")

    play.refuse(play.leg("GET"), 405)

    assert play.leg("DELETE").session_id == b"up-1"
