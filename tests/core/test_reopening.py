"""`initialize` within a session: a new generation, another session, or nothing (state tables).

Longer than most: its module is to be proven by this file alone.
"""

from __future__ import annotations

import json

import pytest

from epochgate.core.events import DrainBegun, LegEnd
from epochgate.core.states import SessionState
from tests.core.messages import (
    Json,
    event,
    initialize,
    initialize_answer,
    notification,
    progress,
    request,
    result,
)
from tests.core.playbook import JSON, Play, opened, quiet
from tests.core.scenes import call, listening, lost
from tests.core.sides import Exchange


def again(play: Play, version: str = "2025-11-25") -> Exchange:
    """The client negotiates anew, under its session's id."""
    return play.post(initialize(version, id="again"))


def reanswer(play: Play, session_id: bytes | None = b"up-1", epoch: Json = None, **how: Json) -> None:
    leg = play.leg("initialize")
    headers = JSON if session_id is None else (*JSON, (b"Mcp-Session-Id", session_id))
    play.answer(leg, initialize_answer(leg.id, epoch), headers=headers, **how)


def test_it_goes_up_as_it_is_under_the_sessions_id() -> None:
    """Whether it begins a session is known only from the answer, so it is not stamped (R45)."""
    play = opened()

    again(play)

    leg = play.leg("initialize")
    assert leg.id == "again"
    assert leg.session_id == b"up-1"


def test_the_same_id_again_is_a_new_generation() -> None:
    play = opened(epoch=7)

    exchange = again(play)
    reanswer(play, epoch=8)
    answered = play.call()
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id, {"n": 1}, 8))

    assert exchange.answer["id"] == "again"
    assert play.session.current.number == 2
    assert play.session.state is SessionState.LIVE
    assert answered.answer["result"]["n"] == 1


def test_what_runs_stays_in_its_own_generation() -> None:
    """A stream is judged for life against the generation its POST was sent in (R1)."""
    play = opened(epoch=7)
    exchange, leg = call(play)
    play.send(leg, event(progress(leg.token, 1, 7)))

    again(play)
    reanswer(play, epoch=8)
    play.send(leg, event(progress(leg.token, 2, 7)))
    play.send(leg, event(result(leg.id, {"n": 1}, 7)))

    assert exchange.answer["result"]["n"] == 1
    assert play.reasons == []


def test_the_old_session_is_not_ended_for_its_id_lives_on() -> None:
    play = opened()

    again(play)
    reanswer(play)

    assert not play.has_leg("DELETE")


def test_the_clients_own_initialized_follows() -> None:
    """A heal before it must not send one of its own (R45)."""
    play = opened()
    again(play)
    reanswer(play)
    play.advance(6)

    exchange = play.call()
    play.refuse(play.leg("tools/call"), 404)
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id), headers=(*JSON, (b"Mcp-Session-Id", b"up-2")))

    assert not play.has_leg("notifications/initialized")
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))
    assert exchange.answer["id"] == 5


def test_a_heal_repeats_what_was_negotiated_last() -> None:
    play = opened(version="2025-06-18")
    again(play, "2025-11-25")
    reanswer(play)
    play.advance(6)

    play.call()
    play.refuse(play.leg("tools/call"), 404)

    assert play.leg("initialize").json["params"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("is_sse", [False, True])
def test_another_id_is_another_session(is_sse: bool) -> None:
    """Both are known from then on, each by its own name."""
    play = opened()

    exchange = again(play)
    leg = play.leg("initialize")
    if is_sse:
        play.open(leg, ((b"Mcp-Session-Id", b"up-9"),))
        play.send(leg, event(initialize_answer(leg.id)))
    else:
        reanswer(play, b"up-9")
    other = play.adopt()

    assert other.registered == [b"up-9"]
    assert exchange.answer["id"] == "again"
    assert dict(exchange.headers)[b"Mcp-Session-Id"] == b"up-9"
    assert play.session.current.number == 1
    other.visible_id = b"up-9"
    other.call()
    assert other.leg("tools/call").session_id == b"up-9"


def test_another_session_may_not_take_a_known_name() -> None:
    """A healed session is known by it still (R42)."""
    play, _ = lost()
    play.heal(b"up-2")
    play.session.is_taken = lambda known: known == b"up-1"

    again(play)
    reanswer(play, b"up-1")
    other = play.adopt()

    assert other.registered != [b"up-1"]


@pytest.mark.parametrize("status", [400, 403, 500])
def test_a_refusal_passes_and_changes_nothing(status: int) -> None:
    """The TypeScript SDK answers 400: the server is initialized already."""
    play = opened()

    exchange = again(play)
    play.refuse(play.leg("initialize"), status, b"no")

    assert (exchange.status, exchange.body) == (status, b"no")
    assert play.session.current.number == 1


def test_an_error_passes_and_changes_nothing() -> None:
    play = opened()

    exchange = again(play)
    leg = play.leg("initialize")
    play.answer(leg, {"jsonrpc": "2.0", "id": leg.id, "error": {"code": -32600, "message": "no"}})

    assert exchange.answer["error"]["code"] == -32600
    assert play.session.current.number == 1


def test_an_answer_that_names_no_session_begins_none() -> None:
    play = opened()

    exchange = again(play)
    reanswer(play, None)

    assert exchange.answer["id"] == "again"
    assert play.session.current.number == 1


def test_a_404_says_that_the_session_is_gone() -> None:
    """The client sees it; the next call heals."""
    play = opened()

    exchange = again(play)
    play.refuse(play.leg("initialize"), 404)

    assert exchange.status == 404
    assert play.session.state is SessionState.PARKED


def test_a_strangers_404_says_nothing() -> None:
    """Only callers that the session accepted are believed (R32)."""
    play = opened()

    play.post(initialize(id="again"), who=b"mallory")
    play.refuse(play.leg("initialize"), 404)

    assert play.session.state is SessionState.LIVE


def test_an_unreachable_server_is_an_error_and_the_session_stays() -> None:
    play = opened()

    exchange = again(play)
    play.unreachable(play.leg("initialize"))

    assert exchange.answer["error"]["code"] == -32051
    assert play.session.state is SessionState.LIVE


def test_during_a_heal_it_waits_for_its_end() -> None:
    play, exchange = lost()

    repeated = again(play)
    assert [leg.id for leg in play.sent("initialize")].count("again") == 0
    play.heal()

    assert play.leg("initialize").session_id == b"up-2"
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))
    assert exchange.answer["id"] == 5
    reanswer(play, b"up-2")
    assert repeated.answer["id"] == "again"
    assert play.session.current.number == 3


def test_a_client_that_leaves_while_it_waits_is_not_asked_for() -> None:
    play, _ = lost()
    repeated = again(play)

    play.leave(repeated)
    play.heal()

    assert not play.has_leg("initialize")


def test_behind_a_heal_that_fails_it_goes_up_all_the_same() -> None:
    play, exchange = lost()
    again(play)
    play.leave(exchange)

    play.unreachable(play.leg("initialize"))

    assert play.leg("initialize").id == "again"


def test_in_a_lost_session_it_opens_another_without_the_old_id() -> None:
    play, _ = lost()
    leg = play.leg("initialize")
    other_server = initialize_answer(leg.id, serverInfo={"name": "other", "version": "1"})
    play.answer(leg, other_server, headers=(*JSON, (b"Mcp-Session-Id", b"up-2")))
    assert play.session.state is SessionState.LOST

    exchange = again(play)
    assert play.leg("initialize").session_id is None
    reanswer(play, b"up-3")

    assert play.adopt().registered == [b"up-3"]
    assert exchange.answer["id"] == "again"


def test_in_a_parked_session_the_same_id_again_makes_it_live() -> None:
    play = opened()
    play.advance(6)
    play.post(notification("notifications/x"))
    play.refuse(play.leg("notifications/x"), 404)
    before = play.session.state

    again(play)
    reanswer(play)

    assert before is SessionState.PARKED
    assert play.session.state is SessionState.LIVE


def test_the_answer_counts_for_a_client_that_left() -> None:
    """The server has negotiated anew, whoever hears of it."""
    play = opened()
    exchange = again(play)

    play.leave(exchange)
    reanswer(play)

    assert exchange.status is None
    assert play.session.current.number == 2


def test_a_refusal_for_a_client_that_left_is_told_to_nobody() -> None:
    play = opened()
    exchange = again(play)

    play.leave(exchange)
    play.refuse(play.leg("initialize"), 400)

    assert exchange.status is None


def test_a_session_that_ends_meanwhile_answers_404() -> None:
    """DELETE wins over everything (R25)."""
    play, _ = lost()
    waiting = again(play)
    play.delete()
    play.refuse(play.leg("DELETE"), 404)

    assert waiting.status == 404

    play = opened()
    under_way = again(play)
    play.delete()
    play.answer(play.leg("DELETE"), b"", headers=())
    assert under_way.status == 404
    assert not play.has_leg("initialize")


def test_a_session_that_ends_answers_nobody_who_left() -> None:
    play, _ = lost()
    gone = again(play)
    play.leave(gone)
    play.delete()
    play.refuse(play.leg("DELETE"), 404)

    assert gone.status is None


def test_an_answer_larger_than_any_result_passes() -> None:
    play = opened(max_event_bytes=1_000)
    exchange = again(play)
    leg = play.leg("initialize")
    raw = json.dumps(initialize_answer(leg.id, instructions="x" * 2_000)).encode()

    play.answer(leg, raw, headers=(*JSON, (b"Mcp-Session-Id", b"up-1")))

    assert exchange.body == raw
    assert play.session.current.number == 1


def test_an_answer_that_breaks_is_an_error() -> None:
    play = opened()
    exchange = again(play)
    leg = play.leg("initialize")
    play.open(leg)
    play.end(leg, LegEnd.BROKEN)

    assert exchange.answer["error"]["data"]["reason"] == "upstream_lost"


def test_a_heal_that_begins_before_it_is_durable_goes_on() -> None:
    play = opened()
    repeated = again(play)
    play.is_persisting = False
    reanswer(play)
    record = play.persists.pop()
    play.is_persisting = True
    play.advance(6)
    exchange = play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.persists.append(record)
    play.heal()

    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))
    assert exchange.answer["id"] == 5
    assert repeated.answer["id"] == "again"


# --- never an endless wait --------------------------------------------------------------------------


def test_one_that_waits_for_a_heal_gets_an_error_at_the_heals_deadline() -> None:
    """The heal itself goes on while a client listens, however long the server is out of reach (G3)."""
    play, _, leg = listening()
    quiet(play)
    play.cut(leg)
    play.advance(1)
    play.refuse(play.leg("GET"), 404)
    exchange = again(play)

    while exchange.is_open and play.now < 1_100:
        play.unreachable(play.leg("initialize"))
        play.advance(2)

    assert exchange.answer["error"]["code"] == -32051
    assert exchange.answer["error"]["data"]["reason"] == "heal_deadline"
    assert play.session.state is SessionState.HEALING


def test_the_first_one_that_is_not_answered_is_told_when_the_process_goes_away() -> None:
    play = Play()
    exchange = play.post(initialize(id="first"))

    play.feed(DrainBegun(play.now + 10))
    play.advance(11)

    assert exchange.answer["error"]["data"]["reason"] == "draining"
    assert play.is_forgotten


@pytest.mark.parametrize("waits_for_a_heal", [True, False])
def test_one_within_a_session_is_told_when_the_process_goes_away(waits_for_a_heal: bool) -> None:
    play = lost()[0] if waits_for_a_heal else opened()
    exchange = again(play)

    play.feed(DrainBegun(play.now + 10))
    play.advance(11)

    assert exchange.answer["error"]["data"]["reason"] == "draining"
    assert not exchange.is_open


def test_a_server_that_never_answers_it_is_given_up() -> None:
    """Other requests of the session are no reason to wait for ever (G3)."""
    play = opened(max_silence_s=100.0)
    exchange = again(play)
    leg = play.leg("initialize")

    for number in range(3):
        play.advance(40)
        play.post(request("ping", id=number))
        play.answer(play.leg("ping"), result(play.leg("ping").id, {}))

    assert exchange.answer["error"]["data"]["reason"] == "upstream_silent"
    assert not leg.is_open
    assert play.session.state is SessionState.LIVE


@pytest.mark.parametrize("is_healed", [True, False])
def test_an_answer_that_comes_during_a_heal_waits_for_its_end(is_healed: bool) -> None:
    """The heal decides which session is the current one; two must not be the second."""
    play = opened()
    quiet(play)
    exchange = again(play)
    own = play.leg("initialize")
    call = play.call()
    play.refuse(play.leg("tools/call"), 404)
    healing = play.leg("initialize")

    headers = (*JSON, (b"Mcp-Session-Id", b"up-1"))
    play.answer(own, initialize_answer(own.id), headers=headers)
    assert exchange.status is None
    if is_healed:
        play.heal()
        play.adopt()
        other = play.adopted[-1][1]
        assert other.visible_id == b"up-1"
    else:
        play.refuse(healing, 403)
        assert play.session.state is SessionState.LIVE

    assert exchange.answer["id"] == "again"
    numbers = [one.number for one in play.session.generations]
    assert numbers == [1, 2]
    assert call.is_open or call.status == 200


def test_a_standalone_stream_that_waits_for_a_heal_is_opened_in_the_new_session() -> None:
    """Else its client would listen for ever to nothing."""
    play, exchange, leg = listening()
    quiet(play)
    play.cut(leg)
    play.advance(1)
    play.refuse(play.leg("GET"), 404)
    play.refuse(play.leg("initialize"), 403)
    assert play.session.state is SessionState.PARKED

    again(play)
    reanswer(play)
    leg = play.leg("GET")
    play.open(leg)
    play.send(leg, event(notification("notifications/tools/list_changed")))

    assert exchange.messages == [notification("notifications/tools/list_changed")]


def test_in_a_batch_it_is_found_wherever_it_stands() -> None:
    """What is awaited is the answer to it, not to what stands before it."""
    play = opened()
    exchange = play.post([request("ping", id=1), initialize(id="again")])
    leg = play.leg("batch")
    play.open(leg, ((b"Mcp-Session-Id", b"up-1"),))
    play.send(leg, event(initialize_answer("again")))

    assert play.session.current.number == 2
    assert exchange.answers[0]["id"] == "again"


def test_one_whose_client_left_during_the_heal_is_not_sent_and_nothing_waits_for_it() -> None:
    play, _ = lost(heal_deadline_s=45.0)
    exchange = again(play)
    play.leave(exchange)
    play.heal()
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))

    play.advance(46)

    assert exchange.status is None
    assert [one.id for one in play.sent("initialize")].count("again") == 0
    assert play.session.state is SessionState.LIVE
