"""Stamps stand for the client's ids upstream, and its own come back with their type (R33, R36)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from epochgate.core.policy import Stamps
from tests.core.messages import (
    event,
    log,
    progress,
    request,
    result,
)
from tests.core.playbook import JSON, opened

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
