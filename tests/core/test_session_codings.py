"""Answers in a content coding that cannot be read, though `identity` was asked for (W16)."""

from __future__ import annotations

from epochgate.core.events import LegCompleted, LegRead
from epochgate.core.policy import Stamps
from tests.core.messages import result
from tests.core.playbook import JSON, opened
from tests.core.scenes import BR


def test_a_stamped_request_gets_an_error() -> None:
    """Its own id stands nowhere in what came, so that no client could take it for its answer."""
    play = opened()
    exchange = play.call()

    play.answer(play.leg("tools/call"), b"\x0b\x02\x80", headers=(*JSON, BR))

    assert exchange.answer["error"]["code"] == -32050
    assert exchange.answer["error"]["data"]["reason"] == "content_coding"
    assert play.judged == [("upstream", "fail", "content_coding")]
    assert play.runs == 1


def test_without_stamps_it_passes_as_it_is() -> None:
    """The client's own id stands in it."""
    play = opened(stamp=Stamps.OFF)
    exchange = play.call()
    leg = play.leg("tools/call")

    play.feed(LegCompleted(leg.number, 200, (*JSON, BR), b"\x0b\x02\x80"))
    leg.is_open = False

    assert exchange.body == b"\x0b\x02\x80"
    assert dict(exchange.headers)[b"Content-Encoding"] == b"br"
    assert not exchange.is_open


def test_without_stamps_one_that_breaks_is_broken_off() -> None:
    play = opened(stamp=Stamps.OFF)
    exchange = play.call()
    leg = play.leg("tools/call")
    play.open(leg, (BR,))
    play.feed(LegRead(leg.number, b"\x0b"))
    play.cut(leg)

    assert exchange.is_aborted


def test_identity_is_no_coding() -> None:
    play = opened()
    exchange = play.call()
    leg = play.leg("tools/call")

    play.answer(leg, result(leg.id), headers=(*JSON, (b"Content-Encoding", b"identity")))

    assert exchange.answer["id"] == 5
