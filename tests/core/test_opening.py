"""The client's `initialize`: guarded only if its answer carries a session id (R45, W4)."""

from __future__ import annotations

import json
import random

import pytest

from epochgate.core import http
from epochgate.core.commands import Persist
from epochgate.core.events import ClientStalled, LegAnswered, LegEnd, LegRead
from epochgate.core.journal import Budget
from epochgate.core.policy import Policy
from epochgate.core.records import SessionRecord
from epochgate.core.session import Session
from epochgate.core.states import SessionState
from tests.core.messages import (
    error,
    event,
    initialize,
    initialize_answer,
    notification,
    request,
    result,
    retry,
)
from tests.core.playbook import JSON, SSE, Play, opened
from tests.core.scenes import BR, open_call

SESSION = (b"Mcp-Session-Id", b"up-1")


def begun() -> Play:
    play = Play()
    play.post(initialize())
    return play


def test_initialize_goes_up_as_it_is() -> None:
    """Whether it is guarded is known only from its answer, so it is not stamped (R45)."""
    play = Play()
    raw = json.dumps(initialize(id="first"), indent=2).encode()

    play.post(raw)

    leg = play.leg("initialize")
    assert leg.body == raw
    assert leg.session_id is None
    assert http.find(leg.headers, b"accept-encoding") == b"identity"
    assert leg.within is None


def test_a_json_answer_with_an_id_opens_a_session_and_passes_unchanged() -> None:
    play = begun()
    raw = json.dumps(initialize_answer(0), indent=1).encode()

    play.answer(play.leg(), raw, headers=(*JSON, SESSION, (b"X-Own", b"1"), (b"X-Own", b"2")))

    exchange = play.exchanges[1]
    assert exchange.body == raw
    assert exchange.headers == (*JSON, SESSION, (b"X-Own", b"1"), (b"X-Own", b"2"))
    assert play.session.state is SessionState.LIVE
    assert play.registered == [b"up-1"]


def test_an_sse_answer_opens_a_session_without_priming_and_without_ids() -> None:
    """Never a priming event on `initialize`; the upstream's ids lead nowhere (R10)."""
    play = begun()
    leg = play.leg()
    play.open(leg, (SESSION,))

    play.send(leg, b"id: 1\ndata: \n\n", retry(100))
    assert play.exchanges[1].status is None
    play.send(leg, event(notification("notifications/message", {"level": "info", "data": 1}), 2))
    play.send(leg, event(initialize_answer(0), 3))

    exchange = play.exchanges[1]
    assert not exchange.is_open
    assert [one.id for one in exchange.events] == [None, None]
    assert exchange.answer == initialize_answer(0)
    uncached = ((b"Cache-Control", b"no-cache, no-transform"), (b"X-Accel-Buffering", b"no"))  # W11
    assert exchange.headers == (*SSE, SESSION, *uncached)
    assert leg.was_drained
    assert play.session.state is SessionState.LIVE


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (200, initialize_answer(0), ()),
        (200, error(0, -32602, "Unsupported protocol version"), (SESSION,)),
        (400, error(0), (SESSION,)),
        (401, {}, ((b"WWW-Authenticate", b'Bearer resource_metadata="x"'), SESSION)),
        (503, {}, (SESSION,)),
    ],
)
def test_any_other_answer_passes_and_there_is_no_session(
    status: int, body: object, headers: http.Headers
) -> None:
    play = begun()

    play.answer(play.leg(), body, status=status, headers=(*JSON, *headers))

    exchange = play.exchanges[1]
    assert (exchange.status, exchange.json, exchange.headers) == (status, body, (*JSON, *headers))
    assert play.is_forgotten
    assert play.registered == []


@pytest.mark.parametrize("how", [LegEnd.NOT_SENT, LegEnd.GONE, LegEnd.BROKEN])
def test_an_unreachable_server_is_an_error_with_status_200(how: LegEnd) -> None:
    """Some clients lose everything on a 5xx (W4)."""
    play = begun()

    play.end(play.leg(), how)

    exchange = play.exchanges[1]
    assert exchange.status == 200
    assert exchange.json["id"] == 0
    assert exchange.json["error"]["code"] == -32051
    assert play.is_forgotten


def test_an_answer_that_breaks_half_way_is_an_error_not_half_an_answer() -> None:
    play = begun()
    leg = play.leg()
    play.open(leg, (SESSION,))
    play.send(leg, event(initialize_answer(0))[:20])

    play.cut(leg)

    assert play.exchanges[1].json["error"]["code"] == -32051
    assert play.registered == []


def test_the_record_is_durable_before_the_client_knows_of_the_session() -> None:
    """With its epoch, generation and upstream id (R16)."""
    play = begun()
    play.is_persisting = False

    play.answer(play.leg(), initialize_answer(0, 7), headers=(*JSON, SESSION))
    assert play.exchanges[1].status is None
    (persist,) = play.persists
    assert isinstance(persist, Persist)
    assert isinstance(persist.record, SessionRecord)
    assert (persist.record.upstream_id, persist.record.epoch_meta) == (b"up-1", b"7")

    play.persist()
    assert play.exchanges[1].status == 200


@pytest.mark.parametrize(
    ("meta", "header", "known"),
    [
        (7, None, (b"7", None)),
        ("7", None, (b'"7"', None)),
        (None, b"7", (None, b"7")),
        (7, b"x", (b"7", b"x")),
        (None, None, (None, None)),
    ],
)
def test_each_carrier_of_the_epoch_is_captured_by_itself(
    meta: object, header: bytes | None, known: tuple[bytes | None, bytes | None]
) -> None:
    """One never stands for the other (R8)."""
    play = opened(epoch=meta, epoch_header=header)

    captured = play.session.current.epoch
    assert (captured.meta, captured.header) == known


def test_a_client_that_leaves_before_the_answer_leaves_a_session_that_runs_idle() -> None:
    play = begun()
    play.leave(play.exchanges[1])

    play.answer(play.leg(), initialize_answer(0), headers=(*JSON, SESSION))

    assert play.registered == [b"up-1"]
    play.advance(3_600 + 60)
    assert play.is_forgotten


def test_initialized_is_forwarded_in_the_session() -> None:
    play = opened(is_initialized=False)
    exchange = play.post(notification("notifications/initialized"))

    leg = play.leg("notifications/initialized")
    assert leg.session_id == b"up-1"
    play.accept(leg)
    assert (exchange.status, exchange.body) == (202, b"")


def test_an_idle_session_that_owes_nothing_ends_and_is_forgotten() -> None:
    play = opened(session_idle_s=20.0)
    call = play.call()
    play.advance(50)
    assert play.session.state is SessionState.LIVE  # a request is running

    play.answer(play.leg("tools/call"), error(play.leg("tools/call").id))
    assert call.status == 200
    play.advance(100)

    assert play.is_forgotten


def test_an_initialize_that_cannot_be_read_passes_unguarded() -> None:
    play = Play()
    exchange = play.post(initialize())
    play.answer(play.leg("initialize"), b"\x0b", headers=(*JSON, BR, (b"Mcp-Session-Id", b"s")))

    assert exchange.body == b"\x0b"
    assert play.is_forgotten


def test_an_answer_larger_than_any_result_passes_as_it_comes_and_opens_nothing() -> None:
    """Cut in the middle it must not look whole."""
    for how, is_cut in ((LegEnd.CLEAN, False), (LegEnd.BROKEN, True)):
        play = Play(Policy(max_event_bytes=1_000))
        exchange = play.post(initialize())
        leg = play.leg("initialize")
        play.feed(LegAnswered(leg.number, 200, (*JSON, SESSION)))
        play.feed(LegRead(leg.number, b"x" * 2_000))
        assert exchange.body == b"x" * 2_000
        play.feed(LegRead(leg.number, b"y"))
        assert exchange.body == b"x" * 2_000 + b"y"

        play.end(leg, how)

        assert (exchange.is_open, exchange.is_aborted) == (False, is_cut)
        assert play.is_forgotten


@pytest.mark.parametrize(
    ("status", "body", "is_told"),
    [(200, b"half an an", False), (500, b"half an explanation", True), (400, b"{}", True)],
)
def test_an_answer_that_ends_with_its_connection_is_whole_if_it_stands_by_itself(
    status: int, body: bytes, is_told: bool
) -> None:
    """JSON says where it ends, a refusal stands in its status, anything else may have been cut."""
    play = Play()
    exchange = play.post(initialize())
    leg = play.leg("initialize")
    play.feed(LegAnswered(leg.number, status, JSON))
    play.feed(LegRead(leg.number, body))

    play.end(leg, LegEnd.CLOSED)

    if is_told:
        assert (exchange.status, exchange.body) == (status, body)
    else:
        assert exchange.status == 200
        assert exchange.json["error"]["data"]["reason"] == "upstream_lost"
    assert play.is_forgotten


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_server_that_says_nothing_for_as_long_as_a_session_may_be_idle_opens_none(has_begun: bool) -> None:
    play = Play(Policy(session_idle_s=30.0, max_event_bytes=1_000))
    exchange = play.post(initialize())
    leg = play.leg("initialize")
    if has_begun:
        play.feed(LegAnswered(leg.number, 200, JSON))
        play.feed(LegRead(leg.number, b"x" * 2_000))

    play.advance(31)

    assert not leg.is_open
    assert play.is_forgotten
    if has_begun:
        assert exchange.is_aborted
    else:
        assert exchange.json["error"]["data"]["reason"] == "upstream_silent"


def test_initialize_again_is_answered_within_the_session() -> None:
    """And a refusal of it ends nothing."""
    play = opened()
    again = play.post(initialize(id=7))
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(7), headers=(*JSON, SESSION))
    assert again.json == initialize_answer(7)

    refused = play.post(initialize(id=8))
    play.end(play.leg("initialize"), LegEnd.NOT_SENT)

    assert refused.json["error"]["data"]["reason"] == "upstream_unreachable"
    assert not play.is_forgotten


def test_an_id_that_another_session_goes_by_is_hidden_behind_one_of_the_proxys() -> None:
    """The server may give an id twice: once to a session that was healed since."""
    play = Play()
    entropy = random.Random(7).getrandbits
    play.session = Session(Policy(), entropy, Budget(1 << 20), lambda id: id == b"up-1")
    exchange = play.post(initialize())
    play.answer(play.leg("initialize"), initialize_answer(0), headers=(*JSON, SESSION))

    (visible,) = play.registered
    assert visible.startswith(b"eg")
    assert len(visible) == 34
    assert http.find(exchange.headers, b"mcp-session-id") == visible


def test_the_generation_is_stated_in_the_answer_if_clients_are_to_check_it() -> None:
    """`advertise_epoch`: in JSON and in events."""
    for is_sse in (False, True):
        play = Play(Policy(advertise_epoch=True))
        exchange = play.post(initialize())
        leg = play.leg("initialize")
        if is_sse:
            play.open(leg, (SESSION,))
            play.send(leg, event(notification("notifications/x")), event(initialize_answer(0, 77)))
        else:
            play.answer(leg, initialize_answer(0, 77), headers=(*JSON, SESSION))

        assert exchange.answer["result"]["_meta"] == {"session_epoch": 1}
        assert http.find(exchange.headers, b"mcp-session-epoch") == b"1"


def test_a_client_that_leaves_its_initialize_beside_a_call_is_told_nothing_and_the_call_goes_on() -> None:
    play = opened()
    exchange, leg = open_call(play)
    again = play.post(initialize(id="again"))
    own = play.leg("initialize")

    play.leave(again)
    play.answer(own, initialize_answer(own.id), headers=(*JSON, (b"Mcp-Session-Id", b"up-1")))
    play.send(leg, event(result(leg.id)))

    assert again.status is None
    assert exchange.answer["id"] == 5
    assert play.session.current.number == 2


def test_a_client_that_is_slow_when_all_that_it_asked_was_answered_slows_nothing() -> None:
    play = opened()
    _, leg = open_call(play)
    done = play.post(request("ping", id="p"))
    play.answer(play.leg("ping"), result(play.leg("ping").id, {}))

    play.feed(ClientStalled(done.number))

    assert not leg.is_paused
