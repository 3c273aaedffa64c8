"""The client's `initialize`: guarded only if its answer carries a session id (R45, W4)."""

from __future__ import annotations

import json

import pytest

from epochgate.core import http
from epochgate.core.commands import Persist
from epochgate.core.events import LegEnd
from epochgate.core.records import SessionRecord
from epochgate.core.states import SessionState
from tests.core.messages import (
    error,
    event,
    initialize,
    initialize_answer,
    notification,
    retry,
)
from tests.core.playbook import JSON, SSE, Play, opened

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


@pytest.mark.parametrize("how", [LegEnd.NOT_SENT, LegEnd.BROKEN])
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
