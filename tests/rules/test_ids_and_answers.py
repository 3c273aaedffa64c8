"""Equal ids in flight, JSON answers, second GETs, stamps (R33-R36)."""

from __future__ import annotations

import itertools

import pytest

from epochgate.core.events import LegAnswered, LegEnd, LegRead
from epochgate.core.policy import PollWithoutEpoch, Reissue, Stamps
from tests.core.messages import Json, event, log, progress, request, result, retry
from tests.core.playbook import JSON, opened
from tests.core.scenes import listening, open_call, say, texts

# --- R33 --------------------------------------------------------------------------------------------


def test_an_id_that_comes_again_while_its_first_request_is_re_issued() -> None:
    """Two stamps, two streams, two answers, each on its own (R33)."""
    play = opened()
    first, leg = open_call(play, id=1)
    play.cut(leg)
    during = play.call("other", id=1)
    play.heal()
    after = play.call("third", id=1)
    for one in play.sent("tools/call")[1:]:
        play.answer(one, result(one.id, {"of": one.json["params"]["name"]}))

    assert first.answer["result"]["of"] == "work"
    assert (during.json["id"], during.json["result"]["of"]) == (1, "other")
    assert after.json == result(1, {"of": "third"})
    assert len({one.id for one in play.sent("tools/call")}) == 4


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("is_sse", [True, False])
def test_with_stamps_off_equal_ids_pass_and_each_leg_answers_its_own(
    order: tuple[int, int], is_sse: bool
) -> None:
    """Passed through: a server that answers both is believed (R33)."""
    play = opened(stamp=Stamps.OFF)
    exchanges = [play.call("a", id=1), play.call("b", id=1)]
    legs = play.sent("tools/call")
    assert [leg.id for leg in legs] == [1, 1]
    for at in order:
        if is_sse:
            play.open(legs[at])
            play.send(legs[at], event(result(1, {"of": at})))
        else:
            play.answer(legs[at], result(1, {"of": at}))

    assert [exchange.answer["result"]["of"] for exchange in exchanges] == [0, 1]


def test_ids_that_cannot_be_stamped_are_kept_apart_by_their_legs() -> None:
    """Two of `1.5` in flight (R33, R36)."""
    play = opened()
    raw = b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}'
    first, second = play.post(raw), play.post(raw)
    one, two = play.sent("tools/list")
    play.answer(one, result(1.5, {"of": 1}))
    play.answer(two, result(1.5, {"of": 2}))

    assert [first.json["result"]["of"], second.json["result"]["of"]] == [1, 2]


# --- R34 --------------------------------------------------------------------------------------------


def test_a_break_in_a_json_answer_of_20_megabytes_is_an_abort() -> None:
    """Above 1 MiB it is passed on as it comes: neither result nor error can be told any more (R34)."""
    play = opened()
    exchange = play.call()
    leg = play.leg("tools/call")
    play.feed(LegAnswered(leg.number, 200, JSON))
    play.feed(LegRead(leg.number, b'{"jsonrpc":"2.0","id":%d,"result":{"text":"' % leg.id))
    for _ in range(20):
        play.feed(LegRead(leg.number, b"x" * (1 << 20)))
    assert exchange.status == 200
    play.cut(leg)

    assert exchange.is_aborted
    assert play.runs == 1


def test_a_second_run_answers_json_or_a_refusal_on_a_leg_that_is_a_stream_already() -> None:
    """One message event; another status is an error that names it (R34)."""
    play = opened()
    json_one, first = open_call(play, id=1)
    refused, second = open_call(play, id=2)
    play.cut(first)
    play.cut(second)
    play.heal()
    by_token = {leg.json["params"]["_meta"]["progressToken"]: leg for leg in play.sent("tools/call")}
    again = list(by_token.values())[2:]
    play.answer(again[0], result(again[0].id, {"run": 2}))
    play.refuse(again[1], 401)

    assert json_one.answer["result"]["run"] == 2
    assert json_one.events[-1].id is not None
    assert refused.answer["error"]["data"]["status"] == 401
    assert (json_one.status, refused.status) == (200, 200)


def test_a_client_that_drops_before_a_json_answer_has_no_id_to_return_with() -> None:
    """G5 covers streams that gave the client an id (R34)."""
    play = opened(session_idle_s=30.0)
    exchange = play.call()
    play.leave(exchange)
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))
    play.advance(100)

    assert exchange.body == b""
    assert play.is_forgotten


def test_there_is_no_cursor_before_the_servers_headers() -> None:
    """mcp-go sends them with the result (R34)."""
    play = opened()
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.advance(50)
    assert exchange.status is None

    play.open(leg)
    play.send(leg, event(result(leg.id)))

    assert [one.data == b"" for one in exchange.events] == [True, False]


# --- R35 --------------------------------------------------------------------------------------------


def test_no_get_goes_up_beside_one_that_is_held() -> None:
    """Java replaces ours, mcp-go splits events, rmcp shadows, C# refuses for life (R35)."""
    play, first, leg = listening()
    play.advance(6)
    second = play.get()
    play.leave(second)
    third = play.get()
    say(play, leg, "x")

    assert [one.status for one in (first, second, third)] == [200, 200, 200]
    assert texts(third) == ["x"]
    assert len(play.sent("GET")) == 1


def test_a_write_that_failed_frees_the_stream_at_once() -> None:
    """A client that tries twice in 2.5 s must not lose its GET to the limit of 5 s (R35)."""
    play, first, _ = listening()
    play.leave(first)
    play.advance(1)
    second = play.get()
    play.leave(second)
    play.advance(1.5)

    assert [second.status, play.get().status] == [200, 200]


def test_of_two_resumes_of_one_call_the_newest_wins_and_the_older_ends_cleanly() -> None:
    """Python stops after two aborted GETs of a session's life (R35)."""
    play = opened()
    exchange, leg = open_call(play)
    play.leave(exchange)
    second, third = play.get(exchange.last_id), play.get(exchange.last_id)
    play.send(leg, event(progress(leg.token, 2)), event(result(leg.id)))

    assert (second.is_open, second.is_aborted, second.messages) == (False, False, [])
    assert third.messages == [progress(5, 2), result(5)]


# --- R36 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [5, "five"])
def test_what_a_stamp_looks_like(id: Json) -> None:
    """14 digits, or 128 bits of short ASCII; exact in doubles (R36)."""
    play = opened()
    play.call(id=id, token=id)
    leg = play.leg("tools/call")

    for stamp in (leg.id, leg.token):
        if isinstance(id, int):
            assert len(str(stamp)) == 14
            assert int(float(stamp)) == stamp
        else:
            assert len(stamp) == 2 + 128 // 4
            assert stamp.isascii()
            int(stamp.removeprefix("eg"), 16)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":5,"method":"tools/list","id":5}',  # a key that stands twice
        b'{"jsonrpc":"2.0","id":"\xff","method":"tools/list"}',  # no UTF-8
        b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1e400,"method":"tools/list"}',
    ],
)
def test_a_body_that_cannot_be_stamped_passes_byte_for_byte(raw: bytes) -> None:
    """And is neither resumed nor sent again (R36)."""
    play = opened(epoch=7, reissue=Reissue.ALWAYS)
    exchange = play.post(raw)
    (leg,) = [one for one in play.legs.values() if one.body == raw]
    play.open(leg)
    if leg.is_open:
        play.send(leg, event(log("x", 7), 1))
    if leg.is_open:
        play.cut(leg)
    play.advance(60)

    assert b"GET" not in [one.method for one in play.legs.values()]
    assert len([one for one in play.legs.values() if one.body == raw]) == 1
    assert exchange.status == 200


def test_stamps_off_never_send_again_and_never_poll_without_epochs() -> None:
    """Nothing could prove whose messages come back (R36)."""
    play = opened(stamp=Stamps.OFF, reissue=Reissue.ALWAYS, poll_without_epoch=PollWithoutEpoch.ACCEPT)
    exchange = play.call(id=5, token="t")
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(progress("t", 1), 1), retry(100))
    play.end(leg, LegEnd.CLEAN)
    play.advance(1)

    assert not play.sent("GET")
    assert exchange.answer["error"]["code"] == -32050
    assert play.runs == 1


def test_stamps_are_drawn_and_not_counted() -> None:
    """What a restart or another replica draws is another: none is told by those before it (R36)."""
    play = opened()
    for number in range(20):
        play.call(id=number, token=number)
    stamps = [stamp for leg in play.sent("tools/call") for stamp in (leg.id, leg.token)]

    assert len(set(stamps)) == 40
    assert len({after - before for before, after in itertools.pairwise(stamps)}) == 39


def test_a_request_of_an_id_that_is_a_string_of_digits_stays_a_string() -> None:
    """Ids compare with their type (R33)."""
    play = opened()
    exchange = play.post(request("ping", id="7"))
    leg = play.leg("ping")
    play.answer(leg, result(leg.id, {}))

    assert isinstance(leg.id, str)
    assert exchange.json == result("7", {})
