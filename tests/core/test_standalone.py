"""The one standalone stream: held, taken over, reopened, never opened twice (R12, R13, R21, R35)."""

from __future__ import annotations

import pytest

from epochgate.core import http
from epochgate.core.events import LegCompleted, LegEnd
from epochgate.core.policy import SessionLoss
from tests.core.messages import event, log, notification, result
from tests.core.playbook import SSE, Play, opened, quiet
from tests.core.scenes import BR, drift, listening, open_call, say, texts
from tests.core.sides import Exchange, Upstream


def break_a_call(play: Play, session_id: bytes) -> Upstream:
    """A call breaks and is run again in a new session; the standalone stream there."""
    exchange, leg = open_call(play, id=session_id.decode())
    play.cut(leg)
    play.heal(session_id)
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert "result" in exchange.answer
    stream = play.sent("GET")[-1]
    assert stream.session_id == session_id
    play.open(stream)
    return stream


def told(play: Play, exchange: Exchange) -> list[str]:
    """What the new session says reaches the client, on the one GET that went up in it."""
    (leg,) = [one for one in play.sent("GET") if one.session_id == b"up-2"]
    play.open(leg)
    say(play, leg, "a")
    return [word for word in texts(exchange) if len(word) == 1]


@pytest.mark.parametrize("status", [405, 401, 400, 503])
def test_a_server_that_offers_none_says_so_itself(status: int) -> None:
    """405 is an answer, not an error."""
    play = opened()
    exchange = play.get()

    play.answer(play.leg("GET"), b"no", status=status, headers=((b"Allow", b"POST"),))

    assert (exchange.status, exchange.body) == (status, b"no")
    assert http.find(exchange.headers, b"allow") == b"POST"


def test_it_goes_up_under_its_own_headers_before_the_server_answered_anything_else() -> None:
    """The Python SDK sends its first GET beside `notifications/initialized`; `initialize` has no version."""
    play = opened(is_initialized=False)
    play.client_headers = ((b"MCP-Protocol-Version", b"2025-06-18"),)

    play.get()

    assert http.find(play.leg("GET").headers, http.PROTOCOL_VERSION) == b"2025-06-18"


def test_it_is_held_while_the_client_is_away_and_loses_nothing() -> None:
    play, first, leg = listening()
    say(play, leg, "a")
    play.leave(first)
    say(play, leg, "b", "c")

    second = play.get(first.last_id)

    assert texts(first, second) == ["a", "b", "c"]
    assert len(play.sent("GET")) == 1


@pytest.mark.parametrize("how", [LegEnd.BROKEN, LegEnd.CLEAN])
def test_a_broken_one_is_reopened_with_back_off_and_never_heals(how: LegEnd) -> None:
    """The third trace: a balancer cuts it every minute; that is no new session (R21)."""
    play, exchange, leg = listening()
    waits = []
    for _ in range(4):
        play.end(leg, how)
        began = play.now
        while not play.has_leg("GET"):
            play.advance(0.25)
        waits.append(round(play.now - began))
        leg = play.leg("GET")
        assert leg.last_event_id is None
        play.end(leg, LegEnd.NOT_SENT)

    assert waits[0] == 1
    assert exchange.is_open
    assert not play.has_leg("initialize")


def test_one_whose_server_has_left_its_place_is_healed_for_the_client_that_listens() -> None:
    play, exchange, leg = listening()
    play.cut(leg)
    play.advance(1.5)

    play.end(play.leg("GET"), LegEnd.GONE)
    play.heal()
    leg = play.leg("GET")
    play.open(leg)
    say(play, leg, "b")

    assert leg.session_id == b"up-2"
    assert texts(exchange)[-1] == "b"
    assert exchange.is_open


def test_a_first_get_to_a_server_that_has_left_waits_for_the_heal() -> None:
    """405 would take the stream from its client for the life of the session."""
    play = opened()
    exchange = play.get()

    play.end(play.leg("GET"), LegEnd.GONE)
    play.heal()
    leg = play.leg("GET")
    play.open(leg)
    say(play, leg, "a")

    assert exchange.status == 200
    assert texts(exchange)[-1] == "a"


def test_a_reopened_one_goes_on_and_the_gap_is_counted() -> None:
    play, exchange, leg = listening()
    say(play, leg, "a")
    play.cut(leg)
    play.advance(2)
    leg = play.leg("GET")
    play.open(leg)
    say(play, leg, "b")

    assert texts(exchange) == ["a", "b"]
    assert play.counted == ["standalone_gaps"]


def test_the_server_may_withdraw_it() -> None:
    """405 on a reopen: the client's leg ends with the final chunk (W8)."""
    play, exchange, leg = listening()
    play.cut(leg)
    play.advance(2)
    play.refuse(play.leg("GET"), 405)

    assert not exchange.is_open
    assert not exchange.is_aborted
    play.get()
    assert play.has_leg("GET")


def test_two_gets_before_the_server_answered_are_one_upstream() -> None:
    """Never a second upstream GET (R35)."""
    play = opened()
    first = play.get()
    leg = play.leg("GET")
    second = play.get()

    assert len(play.sent("GET")) == 1
    play.open(leg)
    say(play, leg, "a")
    assert texts(second) == ["a"] or texts(first) == ["a"]
    assert first.status is not None
    assert second.status is not None


def test_one_that_the_server_withdrew_while_the_client_was_away_is_gone_for_good() -> None:
    play, exchange, leg = listening(hold_s=30.0)
    play.leave(exchange)
    play.cut(leg)
    play.advance(2)
    play.refuse(play.leg("GET"), 405)
    play.advance(60)

    second = play.get(exchange.last_id)
    play.open(play.leg("GET"))
    assert second.status == 200


def test_a_standalone_stream_in_a_coding_is_refused() -> None:
    """The client goes on without it."""
    play = opened()
    exchange = play.get()

    play.open(play.leg("GET"), (BR,))

    assert exchange.status == 405


def test_a_first_get_in_a_parked_session_has_it_healed() -> None:
    """R27: the next caller tries again."""
    play = opened(epoch=7, heal_deadline_s=2.0)
    call = play.call(token=1)
    play.refuse(play.leg("tools/call"), 404)
    play.refuse(play.leg("ping"), 404)
    while call.status is None:
        play.unreachable(play.leg("initialize"))
        play.advance(2)
    assert play.heals == [("session_gone", "parked")]

    exchange = play.get()

    assert exchange.status == 200
    play.heal()
    assert play.leg("GET").session_id == b"up-2"
    assert exchange.is_open


def test_the_server_says_the_session_is_gone_on_a_reopen() -> None:
    play, exchange, leg = listening()
    play.cut(leg)
    quiet(play, 2)
    play.refuse(play.leg("GET"), 404)

    assert play.has_leg("initialize")
    assert exchange.is_open


def overtaken() -> tuple[Play, Exchange, Upstream]:
    """A GET that the old session has not answered yet when a heal is committed."""
    play = opened()
    exchange = play.get()
    old = play.leg("GET")
    _, call = open_call(play)
    play.cut(call)
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    return play, exchange, old


@pytest.mark.parametrize("status", [200, 404])
def test_a_get_that_a_heal_overtook_goes_on_in_the_new_session(status: int) -> None:
    """The old session answers it after the commit (R12, R26)."""
    play, exchange, old = overtaken()

    if status == 200:
        play.open(old)
    else:
        play.refuse(old, status)

    assert exchange.status == 200
    assert not old.is_open
    assert told(play, exchange) == ["a"]


def test_what_came_with_the_head_of_such_a_get_is_told_first() -> None:
    """One read brings the head, events and the end of the old session's stream (R12, G5)."""
    play, exchange, old = overtaken()

    play.feed(LegCompleted(old.number, 200, SSE, event(log("b"))))

    assert not old.is_open
    assert told(play, exchange) == ["b", "a"]


@pytest.mark.parametrize("has_cursor", [True, False])
def test_what_two_old_generations_journalled_comes_before_what_is_new(has_cursor: bool) -> None:
    """The trace, twice: notifications journalled while away, a heal, a return (R12)."""
    play, first, leg = listening()
    say(play, leg, "a")
    play.leave(first)
    say(play, leg, "b")
    leg = break_a_call(play, b"up-2")
    say(play, leg, "c")
    leg = break_a_call(play, b"up-3")
    say(play, leg, "d")

    second = play.get(first.last_id if has_cursor else None)
    say(play, leg, "e")

    assert [word for word in texts(second) if len(word) == 1] == ["b", "c", "d", "e"]


def test_one_that_waits_to_be_reopened_is_left_to_the_heal_of_a_session_that_was_lost() -> None:
    """A GET into a session that is gone would only be refused."""
    play, exchange, leg = listening()
    quiet(play)
    play.cut(leg)
    play.post(notification("notifications/roots/list_changed"))
    play.refuse(play.leg("notifications/roots/list_changed"), 404)
    play.advance(2)

    assert len(play.sent("GET")) == 1
    play.heal()
    assert play.leg("GET").session_id == b"up-2"
    assert exchange.is_open


def test_one_that_the_server_has_not_answered_is_not_found_when_its_session_ends() -> None:
    play = opened()
    exchange = play.get()

    play.delete()
    play.refuse(play.leg("DELETE"), 200)

    assert (exchange.status, exchange.body) == (404, b"session not found")


def test_one_that_the_server_withdrew_gives_a_client_that_returns_what_it_has_not_read() -> None:
    """Then the server's own 405 (G5)."""
    play, first, leg = listening()
    say(play, leg, "a")
    play.leave(first)
    say(play, leg, "b")
    play.cut(leg)
    play.advance(2)
    play.refuse(play.leg("GET"), 405)

    second = play.get(first.last_id)
    assert texts(first, second) == ["a", "b"]
    assert not second.is_open

    third = play.get(second.last_id)
    play.refuse(play.leg("GET"), 405)
    assert third.status == 405
    play.advance(400)
    assert play.session.streams == {}


@pytest.mark.parametrize("was_read", [True, False])
def test_one_that_is_withdrawn_while_its_client_is_away_keeps_what_was_not_read(was_read: bool) -> None:
    """Of it and of those that followed it (G5); one of which all was read is asked for anew."""
    play, exchange, leg = listening(epoch=7)
    play.send(leg, event(log("a", 7)))
    play.leave(exchange)
    if not was_read:
        play.send(leg, event(log("b", 7)))
    drift(play, 8)
    play.refuse(play.leg("GET"), 405)

    back = play.get(exchange.last_id)

    assert texts(back) == ([] if was_read else ["b"])
    assert play.has_leg("GET") is back.is_open is was_read


def test_a_leg_of_a_session_that_was_made_anew_goes_on_as_the_leg_of_that_one() -> None:
    """Its head states another epoch: what follows is of the new generation, and no GET is sent beside it."""
    play, exchange, leg = listening(epoch_header=b"h1")
    say(play, leg, "a")
    play.cut(leg)
    play.advance(2)

    play.open(play.leg("GET"), ((b"Mcp-Session-Epoch", b"h2"),))
    say(play, play.leg("GET"), "b")

    assert texts(exchange) == ["a", "b"]
    assert play.session.standalone is not None
    assert play.session.standalone.generation is play.session.current
    assert play.session.current.number == 2
    assert len(play.sent("GET")) == 2


# What a server on the C# SDK answers to the second GET of a session.
ONE_GET = (
    b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: This server does not support multiple '
    b'GET requests. Start a new session or use Last-Event-ID header to resume."}}'
)


def refused_on_reopening(status: int = 400, body: bytes = ONE_GET) -> tuple[Play, Exchange]:
    play, exchange, leg = listening(epoch=7)
    play.cut(leg)
    quiet(play)
    play.refuse(play.leg("GET"), status, body)
    return play, exchange


def test_a_400_to_a_get_gives_no_session_up_that_a_ping_finds_alive() -> None:
    """It may mean the GET alone, whatever its text says (R21)."""
    play, exchange = refused_on_reopening()
    assert not play.has_leg("initialize")

    ping = play.leg("ping")
    play.answer(ping, result(ping.id, {}, 7))

    assert play.heals == []
    assert exchange.is_open
    play.advance(30)
    play.open(play.leg("GET"))
    say(play, play.leg("GET"), "a")
    assert texts(exchange) == ["a"]


@pytest.mark.parametrize("what", ["gone", "another epoch", "silence"])
def test_a_400_to_a_get_is_believed_if_a_ping_finds_no_session_alive(what: str) -> None:
    play, exchange = refused_on_reopening()
    ping = play.leg("ping")

    match what:
        case "gone":
            play.refuse(ping, 404)
        case "another epoch":
            play.answer(ping, result(ping.id, {}, 8))
        case _:
            play.advance(10)

    assert play.has_leg("initialize")
    assert exchange.is_open


def test_a_first_get_that_is_refused_is_refused_to_its_client() -> None:
    """The server had given its one GET before; the session goes on."""
    play = opened()
    exchange = play.get()
    play.refuse(play.leg("GET"), 400, ONE_GET)

    ping = play.leg("ping")
    play.answer(ping, result(ping.id, {}))

    assert (exchange.status, exchange.body) == (400, ONE_GET)
    assert not play.has_leg("initialize")


def test_a_ping_that_a_heal_overtook_says_nothing_of_the_new_session() -> None:
    play, exchange = refused_on_reopening()
    ping = play.leg("ping")
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.heal()

    play.refuse(ping, 404)

    assert told(play, exchange) == ["a"]
    assert len(play.heals) == 1


def test_a_get_refused_after_its_session_was_lost_is_refused_to_its_client() -> None:
    play = opened(session_loss=SessionLoss.SURFACE)
    quiet(play)
    exchange = play.get()
    get = play.leg("GET")
    play.call()
    play.refuse(play.leg("tools/call"), 404)

    play.refuse(get, 404, b"gone")

    assert (exchange.status, exchange.body) == (404, b"gone")
    assert not play.has_leg("initialize")


def returned_too_late() -> tuple[Play, Exchange]:
    """Its client comes back with a cursor after the stream was given up."""
    play, away, leg = listening()
    say(play, leg, "before")
    play.leave(away)
    play.advance(301)
    return play, play.get(away.last_id)


@pytest.mark.parametrize("how", ["no server", "400", "500"])
def test_a_cursor_gets_200_and_a_later_try_if_the_server_gives_no_stream(how: str) -> None:
    """Go's client ends its session at anything else (R13)."""
    play, exchange = returned_too_late()

    if how == "no server":
        play.unreachable(play.leg("GET"))
    else:
        play.refuse(play.leg("GET"), int(how))

    assert (exchange.status, exchange.is_open) == (200, True)
    play.advance(1)
    play.open(play.leg("GET"))
    say(play, play.leg("GET"), "a")
    assert texts(exchange) == ["a"]


@pytest.mark.parametrize("status", [401, 405])
def test_a_cursor_is_told_that_its_caller_is_unknown_or_no_stream_offered(status: int) -> None:
    play, exchange = returned_too_late()

    play.refuse(play.leg("GET"), status)

    assert exchange.status == status
