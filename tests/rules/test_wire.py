"""What real clients and servers force, where the core decides (W1, W3-W6)."""

from __future__ import annotations

import pytest

from epochgate.core import http
from epochgate.core.states import SessionState
from tests.core.messages import (
    event,
    initialize,
    initialize_answer,
    notification,
    progress,
    request,
    result,
)
from tests.core.playbook import JSON, Play, opened, quiet
from tests.core.scenes import broken, listening, lost, open_call, say

GONE = b'{"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}'

# --- W1 ---------------------------------------------------------------------------------------------


def test_progress_of_one_call_on_the_stream_of_another_is_mapped_and_passed() -> None:
    """mcp-go's POSTs read one notification channel; nothing is restarted (W1)."""
    play = opened()
    first, one = open_call(play, id=1)
    second, two = open_call(play, id=2)
    play.send(two, event(progress(one.token, 7)))
    play.send(one, event(result(one.id)))
    play.send(two, event(result(two.id)))

    assert second.messages[1:] == [progress(1, 7), result(2)]
    assert first.answer["id"] == 1
    assert not play.reasons


def test_progress_behind_its_answer_is_late_for_a_minute_and_then_nobodys() -> None:
    """The table keeps an entry to the answer and 60 s longer (W1)."""
    play, stream, leg = listening()
    play.call(token="mine")
    post = play.leg("tools/call")
    play.answer(post, result(post.id))
    play.advance(59)
    play.send(leg, event(progress(post.token, 3)))
    for _ in range(3):  # forgetting takes turns
        play.advance(61)
        play.call(id=6, token="other")
        play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    play.send(leg, event(progress(post.token, 3)))

    assert play.dropped == ["late", "foreign"]
    assert stream.messages == []


# --- W3 ---------------------------------------------------------------------------------------------


def test_each_status_of_a_resume() -> None:
    """The cursor is resolved first; nothing but what stands here ends in a 4xx (W3)."""
    play, listener, stand = listening(hold_s=200.0, retain_s=60.0)
    say(play, stand, "a")
    running, leg = open_call(play, id=1)
    play.leave(running)
    finished, other = open_call(play, id=2)
    play.send(other, event(progress(other.token, 2)), event(result(other.id)))
    before_last = [one.id for one in finished.events][-2]

    assert play.get(listener.last_id).status == 200  # the session's own standalone stream
    resumed = play.get(running.last_id)
    assert (resumed.status, resumed.is_open) == (200, True)  # running: replay, then live
    replayed = play.get(before_last)
    assert (replayed.status, replayed.answer["id"], replayed.is_open) == (200, 2, False)
    end = play.get(finished.last_id)
    assert (end.status, http.find(end.headers, b"allow")) == (405, b"POST, DELETE")
    assert play.get(b"12").status == 400  # names nothing of this session
    assert play.get(b"x").status == 400

    play.send(leg, event(result(leg.id)))
    play.advance(61)
    stone = play.get(before_last)  # finished, its answer no longer kept
    assert (stone.status, stone.answer["id"], stone.answer["error"]["code"]) == (200, 2, -32050)
    assert not stone.is_open


# --- W4 ---------------------------------------------------------------------------------------------


def test_a_request_that_fails_in_a_session_is_200_with_an_error() -> None:
    """No 5xx inside a session (W4)."""
    play = opened()
    exchange = play.post(request("tools/list"))
    while exchange.status is None:
        for rpc in ("tools/list", "initialize"):
            if play.has_leg(rpc):
                play.unreachable(play.leg(rpc))
        play.advance(1)

    assert (exchange.status, exchange.json["id"]) == (200, 5)
    assert exchange.json["error"]["code"] == -32051


def test_a_session_that_is_gone_is_404_in_plain_text() -> None:
    """A JSON-RPC body would make Go keep a dead session (W4)."""
    play, _ = lost()
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id, capabilities={}), headers=(*JSON, (b"Mcp-Session-Id", b"u")))
    assert play.session.state is SessionState.LOST

    exchange = play.call(id=6)

    assert exchange.status == 404
    assert http.media_type(exchange.headers) == b"text/plain"
    assert play.post(notification("notifications/x")).status == 202


def test_initialize_with_the_server_down_is_200_with_an_error() -> None:
    """A 4xx or 5xx would have clients take it for another kind of server (W4)."""
    play = Play()
    exchange = play.post(initialize(id="first"))
    play.unreachable(play.leg("initialize"))

    assert (exchange.status, exchange.json["id"]) == (200, "first")
    assert exchange.json["error"]["code"] == -32051


# --- W5 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "is_gone"),
    [
        (404, b"", True),
        (404, b'{"error":{"code":-32001,"message":"Session not found"}}', True),
        (404, b'{"error":{"code":-32601,"message":"Method not found"}}', False),
        (400, GONE, True),
        (410, b'{"error":{"code":-32001,"message":"session expired"}}', True),
        (400, b'{"error":{"code":-32600,"message":"Invalid SESSION"}}', True),
        (400, b'{"error":{"code":-32602,"message":"no session in params"}}', False),
        (400, b'{"error":{"code":-32000,"message":"bad accept"}}', False),
        (400, b"no valid session", False),
        (500, GONE, False),
    ],
)
def test_which_answers_say_that_the_session_is_gone(status: int, body: bytes, is_gone: bool) -> None:
    """The sample that most TypeScript servers copy says 400 (W5)."""
    play = opened()
    quiet(play)
    exchange = play.call()
    play.answer(play.leg("tools/call"), body, status=status)

    assert play.has_leg("initialize") is is_gone
    assert exchange.status == (None if is_gone else status)


def test_the_same_words_on_the_request_that_carried_no_id_say_nothing() -> None:
    """`initialize` opens a session: there is none that could be gone (W5)."""
    play = Play()
    exchange = play.post(initialize())
    play.answer(play.leg("initialize"), GONE, status=400)

    assert (exchange.status, exchange.body) == (400, GONE)
    assert play.is_forgotten


# --- W6 ---------------------------------------------------------------------------------------------


def test_a_clients_post_has_no_limit_for_its_headers_and_all_else_has() -> None:
    """JSON servers send headers when the tool is done (W6)."""
    play, _ = broken()
    assert play.sent("tools/call")[0].within is None
    assert play.leg("GET").within == 5.0
    play.refuse(play.leg("GET"), 405)
    assert play.leg("initialize").within == 10.0
    play.heal()
    assert {leg.within for leg in play.sent("notifications/initialized")[1:]} == {10.0}
    assert play.sent("tools/call")[-1].within is None


def test_headers_of_a_call_may_take_as_long_as_its_session_answers_pings() -> None:
    """A tool of an hour is no fault (W6)."""
    play = opened()
    exchange = play.call()
    for _ in range(50):
        play.advance(60)
        if play.has_leg("ping"):
            play.answer(play.leg("ping"), result(play.leg("ping").id, {}))
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))

    assert exchange.json == result(5)
    assert play.runs == 1


def test_a_ping_whose_headers_do_not_come_is_given_up() -> None:
    """Ten seconds, and the leg counts as broken (W6)."""
    play = opened()
    play.call()
    play.advance(60)
    assert play.leg("ping").within == 10.0
    play.advance(10)

    assert not play.has_leg("ping")
    assert play.reasons == ["no_epoch_captured"]
