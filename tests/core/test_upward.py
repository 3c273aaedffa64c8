"""Stamps stand for the client's ids upstream, and its own come back with their type (R33, R36)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from epochgate.core import http, upward
from epochgate.core.epoch import Epoch
from epochgate.core.events import RequestHead
from epochgate.core.generation import Generation
from epochgate.core.http import Headers
from epochgate.core.policy import Stamps
from tests.core.messages import (
    cancel,
    event,
    log,
    progress,
    request,
    result,
)
from tests.core.playbook import JSON, opened
from tests.core.scenes import give, lost, rerun, running

IDS: list[Any] = [5, 0, -3, 2**53 - 1, "5", "a-b", "", 'q"uote', "é"]


@pytest.mark.parametrize("id", IDS)
def test_an_id_is_replaced_upstream_by_one_of_its_type_and_put_back(id: Any) -> None:
    """The client's own bytes come back (R36)."""
    play = opened()
    exchange = play.call(id=id)
    leg = play.leg("tools/call")

    assert type(leg.id) is type(id)
    assert leg.id != id
    if isinstance(id, int):
        assert 10**13 <= leg.id < 10**14
    play.answer(leg, result(leg.id))

    assert exchange.json == result(id)


@pytest.mark.parametrize("id", [5, "call"])
@pytest.mark.parametrize("token", [5, 0, "t"])
def test_a_progress_token_has_a_stamp_of_its_own_type(id: Any, token: Any) -> None:
    """Both lead to the request (R36)."""
    play = opened()
    exchange = play.call(id=id, token=token)
    leg = play.leg("tools/call")
    assert type(leg.token) is type(token)
    assert leg.token not in (token, leg.id)

    play.open(leg)
    play.send(leg, event(progress(leg.token, 1)), event(progress(leg.token, 2)))
    play.send(leg, event(result(leg.id)))

    assert exchange.messages == [progress(token, 1), progress(token, 2), result(id)]


def test_nothing_but_id_and_token_changes_on_the_way_up() -> None:
    """Digits inside other data stay (R36)."""
    play = opened()
    raw = (
        b'{"method": "tools/call","params":{"x": [1.0, 1e400], "_meta":{"progressToken" : "t" }},\n "id":  5}'
    )

    play.post(raw)

    leg = play.leg()
    assert leg.body is not None
    assert leg.body == raw.replace(b'"t"', json.dumps(leg.token).encode()).replace(b"5}", b"%d}" % leg.id)


def test_nothing_but_ids_changes_on_the_way_down() -> None:
    """Digits inside other data stay (R36)."""
    play = opened()
    exchange = play.call(id=5)
    leg = play.leg()
    raw = b'{ "result" : {"content":[ 1.50, "5" ]},"jsonrpc":"2.0", "id" :%d }\n' % leg.id

    play.answer(leg, raw, headers=(*JSON, (b"X-Own", b"a"), (b"X-Own", b"b")))

    assert exchange.body == raw.replace(b"%d" % leg.id, b"5")
    assert exchange.headers == (*JSON, (b"X-Own", b"a"), (b"X-Own", b"b"))


def test_a_server_that_turns_ids_into_text_is_understood() -> None:
    """Ids that come back as text with the same digits are the same (R36)."""
    play = opened()
    exchange = play.call(id=5)
    leg = play.leg()

    play.answer(leg, result(str(leg.id)))

    assert exchange.json == result(5)


@pytest.mark.parametrize("raw_id", [b"null", b"1.5", b"1e400", b"9007199254740993"])
def test_an_id_that_cannot_be_stamped_passes_and_is_neither_resumed_nor_sent_again(raw_id: bytes) -> None:
    """What comes back could not be told apart (R36)."""
    play = opened(epoch=7)
    exchange = play.post(b'{"jsonrpc":"2.0","id":%b,"method":"tools/list"}' % raw_id)
    leg = play.leg()
    assert leg.body == b'{"jsonrpc":"2.0","id":%b,"method":"tools/list"}' % raw_id

    play.open(leg)
    play.send(leg, event(log("x", 7), 1))
    play.cut(leg)

    assert not play.sent("GET")
    assert b'"id":%b' % raw_id in exchange.body
    assert exchange.answer["error"]["code"] == -32050
    assert len(play.sent("tools/list")) == 1


@pytest.mark.parametrize("name", [b"Signature", b"Content-Digest", b"Content-Encoding"])
def test_a_signed_or_coded_body_passes_unchanged(name: bytes) -> None:
    """Its bytes must stay as they are (R36)."""
    play = opened()

    play.post(request("tools/list", id=5), headers=((name, b"x"),))

    assert play.leg().id == 5


def test_stamps_can_be_limited_to_31_bits_or_turned_off() -> None:
    """Old rmcp reads 32 bits (R36)."""
    small = opened(stamp=Stamps.INTS_31)
    small.call(id=5)
    assert 10**9 <= small.leg().id < 2**31

    off = opened(stamp=Stamps.OFF)
    exchange = off.call(id=5, token="t")
    assert (off.leg().id, off.leg().token) == (5, "t")
    off.answer(off.leg(), result(5))
    assert exchange.json == result(5)


def test_the_same_id_twice_in_flight_is_two_requests_and_two_answers() -> None:
    """Kept by a handle for each POST, never by id (R33)."""
    play = opened()
    first, second = play.call("a", id=1), play.call("b", id=1)
    one, two = play.sent("tools/call")
    assert one.id != two.id

    play.answer(two, result(two.id, {"of": "b"}))
    play.answer(one, result(one.id, {"of": "a"}))

    assert first.json == result(1, {"of": "a"})
    assert second.json == result(1, {"of": "b"})


def test_an_id_and_its_text_are_two_requests() -> None:
    """Ids compare with their type (R33)."""
    play = opened()
    number, text = play.call("a", id=1), play.call("b", id="1")
    one, two = play.sent("tools/call")

    play.answer(one, result(one.id))
    play.answer(two, result(two.id))

    assert number.json["id"] == 1
    assert text.json["id"] == "1"


def test_a_stamp_that_stands_for_something_already_is_drawn_again() -> None:
    """Unique in its generation, ids and tokens together (R36)."""
    play = opened()
    drawn = iter([1, 2, 2, 1, 3])
    play.session.entropy = lambda _bits: next(drawn)

    play.call(id=5, token=6)
    play.call(id=7)

    first, second = play.sent("tools/call")
    assert len({first.id, first.token, second.id}) == 3


def test_a_token_that_cannot_be_stamped_leaves_its_request_as_it_is() -> None:
    """What comes back could not be told apart (R36)."""
    play = opened()

    play.call(id=5, token=1.5)

    assert (play.leg().id, play.leg().token) == (5, 1.5)


def test_a_request_with_a_key_that_stands_twice_passes_as_it_is() -> None:
    """Which of both the server reads is not known (R36)."""
    play = opened()
    raw = b'{"jsonrpc":"2.0","id":5,"id":5,"method":"tools/list"}'

    play.post(raw)

    assert play.leg("tools/list").body == raw


def test_a_request_that_is_sent_again_has_new_stamps_and_its_history() -> None:
    """What the client saw of the first run is not told it twice (R38)."""
    play, exchange, leg = running(3, has_logging=True)
    play.cut(leg)
    play.heal()
    again = play.sent("tools/call")[-1]
    assert (again.session_id, leg.session_id) == (b"up-2", b"up-1")
    assert len({leg.id, leg.token, again.id, again.token}) == 4

    play.open(again)
    give(play, again, 0, 5)
    play.send(again, event(result(again.id)))

    told = [one for one in exchange.messages if one.get("method") == "notifications/progress"]
    assert [one["params"]["progress"] for one in told] == [0, 1, 2, 3, 4]
    assert exchange.answer["id"] == 5


def test_what_is_sent_again_goes_up_with_the_credentials_of_who_waits_for_it_now() -> None:
    """And with its own other headers (R32)."""
    play = opened()
    play.client_headers = (*play.client_headers, (b"Cookie", b"of=alice"), (b"X-Trace", b"1"))
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    give(play, leg, 0, 1)
    play.leave(exchange)
    play.client_headers = ((b"X-API-Key", b"of-bob"), (b"X-Trace", b"2"))
    second = play.get(exchange.last_id, who=b"bob")
    play.answer(play.leg("ping"), result(play.leg("ping").id))

    play.cut(leg)
    rerun(play)

    again = play.sent("tools/call")[-1]
    assert http.without(again.headers, (b"mcp-session-id", b"accept-encoding")) == (
        (b"MCP-Protocol-Version", b"2025-11-25"),
        (b"X-Trace", b"1"),
        (b"Content-Type", b"application/json"),
        (b"X-API-Key", b"of-bob"),
        (b"Authorization", b"bob"),
    )
    assert second.answer["result"]["run"] == 2


def test_of_a_batch_only_the_unanswered_members_go_up_again_and_under_stamps() -> None:
    play = opened()
    note = b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}'
    one, two = (b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}' % id for id in (1, 2))
    play.post(b"[ %b, %b ,%b]" % (one, note, two))
    leg = play.leg("batch")
    stamps = [each["id"] for each in leg.json if "id" in each]
    assert leg.body == b"[ %b, %b ,%b]" % (
        one.replace(b":1,", b":%d," % stamps[0]),
        note,
        two.replace(b":2,", b":%d," % stamps[1]),
    )

    play.open(leg)
    play.send(leg, event(result(stamps[0])))
    play.cut(leg)
    play.heal()

    (member,) = play.sent("batch")[-1].json
    assert member["method"] == "tools/list"
    assert member["id"] not in (1, 2, *stamps)


HEAD: Headers = (
    (b"Accept", b"application/json"),
    (b"Content-Type", b"application/json"),
    (b"Authorization", b"alice"),
    (b"Mcp-Session-Id", b"visible"),
    (b"Last-Event-ID", b"77"),
    (b"Accept-Encoding", b"br"),
    (b"Expect", b"100-continue"),
    (b"X-Own", b"1"),
)
OWN: Headers = ((b"Authorization", b"alice"), (b"X-Own", b"1"))
IDENTITY = (b"Accept-Encoding", b"identity")
UP_1 = (b"Mcp-Session-Id", b"up-1")


def head() -> RequestHead:
    return RequestHead(b"/mcp", HEAD, b"alice")


def generation(**cookies: bytes) -> Generation:
    made = Generation(1, b"up-1", Epoch(None, None))
    made.cookies = {name.encode(): value for name, value in cookies.items()}
    return made


def test_a_post_goes_up_with_its_own_headers_under_the_upstream_session() -> None:
    assert upward.headers_of_post(head(), generation()) == (
        (b"Accept", b"application/json"),
        (b"Content-Type", b"application/json"),
        (b"Authorization", b"alice"),
        (b"Expect", b"100-continue"),
        (b"X-Own", b"1"),
        UP_1,
        IDENTITY,
    )


def test_a_get_has_nothing_of_a_body_and_the_servers_own_cursor() -> None:
    asked = (*OWN, UP_1, IDENTITY, (b"Accept", b"text/event-stream"))

    assert upward.headers_of_get(head(), generation(), None) == asked
    assert upward.headers_of_get(head(), generation(), b"e-1") == (*asked, (b"Last-Event-ID", b"e-1"))


def test_a_request_of_the_proxys_own_goes_up_in_the_callers_name() -> None:
    """Without a session it opens one."""
    said = ((b"Accept", b"application/json, text/event-stream"), (b"Content-Type", b"application/json"))

    assert upward.headers_of_own_post(head(), generation()) == (*OWN, UP_1, IDENTITY, *said)
    assert upward.headers_of_own_post(head(), None) == (*OWN, IDENTITY, *said)


def test_the_cookies_of_a_heal_lead_to_the_server_that_was_healed() -> None:
    """A balancer's affinity (W16)."""
    healed = generation(route=b"n2")
    made = (*OWN, (b"Cookie", b"route=n2"), UP_1, IDENTITY)

    assert upward.headers_of_get(head(), healed, None) == (*made, (b"Accept", b"text/event-stream"))
    assert http.find(upward.headers_of_post(head(), healed), b"cookie") == b"route=n2"


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(0, 0.5), (1, 1.0), (2, 2.0), (5, 16.0), (6, 30.0), (10**6, 30.0)]
)
def test_attempts_that_fail_are_further_and_further_apart_up_to_a_limit(
    attempts: int, seconds: float
) -> None:
    assert upward.back_off(0.5, 30.0, attempts) == seconds


def test_a_batch_goes_up_without_what_was_cancelled_while_it_waited() -> None:
    """A cancel takes its request off the queue (R29)."""
    play, _ = lost()
    exchange = play.post([request("tools/list", id=1), request("ping", id=2), request("prompts/list", id=3)])
    play.post(cancel(2))

    play.heal()

    leg = play.sent("batch")[-1]
    assert [one["method"] for one in leg.json] == ["tools/list", "prompts/list"]
    play.answer(leg, [result(one["id"]) for one in leg.json])
    assert sorted(one["id"] for one in exchange.answers) == [1, 3]
