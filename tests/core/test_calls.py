"""A call goes up under a stamp and its answer comes down under the client's own id."""

from __future__ import annotations

import pytest

from epochgate.core import commands as do
from epochgate.core import http
from epochgate.core.commands import EndAnswer, Write
from epochgate.core.events import LegEnd
from tests.core.messages import error, event, log, notification, progress, request, result, retry
from tests.core.playbook import JSON, opened
from tests.core.scenes import open_call


def test_the_request_goes_up_under_the_upstream_id_and_with_its_own_headers() -> None:
    """Without a coding that would have to be undone, and without a limit (W6, W16)."""
    play = opened()

    play.post(request("tools/list"), headers=((b"X-Own", b"1"), (b"Accept-Encoding", b"gzip")))

    leg = play.leg()
    assert leg.session_id == b"up-1"
    assert http.find(leg.headers, b"x-own") == b"1"
    assert [value for name, value in leg.headers if name.lower() == b"accept-encoding"] == [b"identity"]
    assert leg.within is None  # W6: JSON servers send their headers when the tool is done


def test_an_sse_answer_is_primed_relayed_and_ended_with_the_answer_in_one_write() -> None:
    """Primed when the headers come, never before (R10, W7)."""
    play = opened()
    exchange = play.call(token=1)
    leg = play.leg()
    play.open(leg)
    assert [one.data for one in exchange.events] == [b""]  # the priming event, as the headers came

    play.send(leg, event(progress(leg.token, 1)))
    assert exchange.is_open
    before = exchange.body
    play.steps.clear()
    play.send(leg, event(result(leg.id)))

    written = [step for step in play.steps if isinstance(step, do.Write | do.EndAnswer)]
    assert written == [do.EndAnswer(exchange.number, exchange.body[len(before) :])]
    assert leg.was_drained


def test_cursors_are_contiguous_and_no_upstream_id_is_shown() -> None:
    play = opened()
    exchange = play.call(token=1)
    leg = play.leg()
    play.open(leg)
    play.send(leg, *[event(progress(leg.token, n), f"uuid-{n}") for n in range(5)])
    play.send(leg, event(result(leg.id), "uuid-9"))

    ids = [int(one.id or b"") for one in exchange.events]
    assert ids == list(range(ids[0], ids[0] + 7))
    assert b"uuid" not in exchange.body


def test_the_upstreams_priming_is_swallowed_and_its_retry_kept() -> None:
    """Its cursor leads nowhere (R10)."""
    play = opened()
    exchange = play.call()
    leg = play.leg()
    play.open(leg)

    play.send(leg, b"id: a\nretry: 2500\ndata: \n\n")

    assert exchange.body.endswith(b"retry: 2500\n\n")
    assert len(exchange.events) == 1


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_events_cut_anywhere_arrive_whole(end: str) -> None:
    play = opened(version="2025-06-18")
    exchange = play.call(token=1)
    leg = play.leg()
    play.open(leg)
    body = event(progress(leg.token, 1), end=end) + event(result(leg.id), end=end)

    for at in range(len(body)):
        if leg.is_open:
            play.send(leg, body[at : at + 1])

    assert exchange.messages == [progress(1, 1), result(5)]
    assert exchange.body.count(b"\r\n") == (0 if end == "\n" else 2 * 4)


def test_a_request_that_the_server_refuses_gets_the_servers_answer() -> None:
    play = opened()
    exchange = play.call()
    leg = play.leg()

    play.answer(leg, error(leg.id, -32602), status=400, headers=(*JSON, (b"X-Own", b"1")))

    assert (exchange.status, exchange.json) == (400, error(5, -32602))
    assert http.find(exchange.headers, b"x-own") == b"1"


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_pass_with_their_challenge(status: int) -> None:
    play = opened()
    exchange = play.call()

    play.answer(play.leg(), b"{}", status=status, headers=(*JSON, (b"WWW-Authenticate", b"Bearer")))

    assert exchange.status == status
    assert http.find(exchange.headers, b"www-authenticate") == b"Bearer"
    assert not play.heals


def test_404_that_says_method_not_found_passes() -> None:
    """Never a loss (R27)."""
    play = opened()
    play.advance(10)
    exchange = play.call()

    play.answer(play.leg(), error(play.leg().id, -32601), status=404)

    assert exchange.status == 404
    assert not play.has_leg("initialize")


def test_a_message_that_answers_another_stream_never_arrives() -> None:
    """A response only on its own stream (R30); G2."""
    play = opened()
    first, second = play.call("a", id=1, token="ta"), play.call("b", id=2)
    one, two = play.sent("tools/call")
    play.open(one)
    play.open(two)

    play.send(two, event(result(one.id, {"of": "a"})), event(result(777)))
    play.send(two, event(progress("strange", 1)))
    assert second.messages == []
    assert play.dropped == ["foreign", "foreign", "foreign"]

    play.send(two, event(progress(one.token, 3)))  # of this generation: mapped and passed where it came
    assert second.messages == [progress("ta", 3)]
    play.send(one, event(result(one.id)))
    play.send(two, event(result(two.id)))
    assert (first.answer["id"], second.answer["id"]) == (1, 2)


def test_what_follows_the_answer_is_late() -> None:
    play = opened()
    exchange = play.call()
    leg = play.leg()
    play.open(leg)

    play.send(leg, event(result(leg.id)), event(result(leg.id)), event(log("bye")))

    assert len(exchange.messages) == 1


def test_an_error_without_id_passes_and_answers_nothing() -> None:
    """On a leg that never broke (R30)."""
    play = opened()
    exchange = play.call()
    leg = play.leg()
    play.open(leg)

    play.send(leg, event(error(None)))
    assert exchange.is_open
    play.send(leg, event(result(leg.id)))

    assert exchange.messages == [error(None), result(5)]


def test_a_json_answer_without_an_answer_is_an_explicit_error() -> None:
    play = opened()
    exchange = play.call()

    play.answer(play.leg(), b"{}")

    assert exchange.json["error"]["code"] == -32050


def test_a_notification_is_forwarded_and_acknowledged() -> None:
    """202 always, and never sent again (R37, W4)."""
    play = opened()
    exchange = play.post(notification("notifications/roots/list_changed"))

    leg = play.leg("notifications/roots/list_changed")
    assert leg.session_id == b"up-1"
    play.end(leg, LegEnd.NOT_SENT)

    assert exchange.status == 202  # W4, R37: always, and never sent again
    assert len(play.sent("notifications/roots/list_changed")) == 1


def test_retry_between_events_is_not_taken_for_a_message() -> None:
    play = opened()
    exchange = play.call()
    leg = play.leg()
    play.open(leg)

    play.send(leg, retry(10), b": ping\n\n", event(result(leg.id)))

    assert exchange.messages == [result(5)]


def test_the_answer_and_the_final_chunk_are_one_write_and_the_leg_is_drained() -> None:
    """Python closes right after the answer, before the terminator (W7)."""
    play = opened()
    exchange, leg = open_call(play)
    play.steps.clear()
    play.send(leg, event(progress(leg.token, 2)), event(result(leg.id)))

    written = [step for step in play.steps if isinstance(step, Write | EndAnswer)]
    assert [type(step) for step in written] == [EndAnswer]
    assert leg.was_drained
    play.leave(exchange)  # whatever the client does: it is done
    assert play.get(exchange.last_id).status == 405
