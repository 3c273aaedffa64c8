"""The traces of R1 to R9: which run a message belongs to, and what proves it."""

from __future__ import annotations

import pytest

from epochgate.core.commands import Drifted
from epochgate.core.events import LegEnd
from epochgate.core.policy import Stamps
from tests.core.messages import Json, ask, event, log, progress, request, result
from tests.core.playbook import JSON, MARK, Play, opened
from tests.core.scenes import broken, call, drift, open_call, resume
from tests.core.sides import Exchange, Upstream

# --- R1: a stream belongs for life to the generation of its POST ------------------------------------


@pytest.mark.parametrize(("epoch", "is_relayed"), [(1, True), (2, False)])
def test_a_resume_after_drift_is_judged_by_the_epoch_of_the_post(epoch: int, is_relayed: bool) -> None:
    """The first trace, on a resumed leg: drift adopted 2, and this stream is still of 1 (R1)."""
    play = opened(epoch=1)
    exchange, post = call(play)
    play.send(post, event(progress(post.token, 1, 1), 1))
    drift(play, 2)
    play.cut(post)

    leg = resume(play, (progress(post.token, 2, epoch), 2))

    assert leg.session_id == b"up-1"
    assert (b'"progress":2' in exchange.body) is is_relayed
    assert play.reasons == ([] if is_relayed else ["epoch_mismatch"])


def test_without_stamps_nothing_goes_up_again_into_the_same_upstream_session() -> None:
    """The second trace: two runs of one id in one session could not be told apart (R1)."""
    play = opened(epoch=1, stamp=Stamps.OFF)
    exchange, post = call(play)
    play.send(post, event(progress(1, 1, 1), 1))
    drift(play, 2)

    play.cut(post)

    assert exchange.answer["error"]["code"] == -32050
    assert play.runs == 1
    assert not play.has_leg("initialize")


# --- R2, R3: another epoch on a leg that never broke ------------------------------------------------


def test_a_list_that_is_answered_by_sse_after_an_eviction_is_asked_for_once() -> None:
    """The second trace: taken for a mismatch, every such answer would cost a second run (R2)."""
    play = opened(epoch=1)
    exchange = play.post(request("tools/list", id=3))
    leg = play.leg("tools/list")
    play.open(leg)

    play.send(leg, event(result(leg.id, {"tools": []}, 2)))

    assert exchange.answer["result"]["tools"] == []
    assert len(play.sent("tools/list")) == 1
    assert len(play.sent("initialize")) == 1
    assert play.facts(Drifted) == [Drifted(2)]


def test_a_log_that_was_tagged_when_it_was_sent_pins_nothing() -> None:
    """The first trace to its end: nothing of the first run is seen beside the second (R2)."""
    play = opened(epoch=1)
    exchange, post = call(play)

    play.send(post, event(log("of session 1, tagged 2", 2)))
    assert not post.is_open
    play.heal(epoch=2)
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(progress(again.token, 1, 2)), event(result(again.id, {"run": 2}, 2)))

    assert [one.get("method") for one in exchange.messages] == ["notifications/progress", None]
    assert exchange.answer["result"]["run"] == 2


def test_a_notice_of_the_proxys_own_is_no_event_of_the_new_run() -> None:
    """Another session was made before the second run went up: its answer alone is one execution (R2)."""
    play = opened(epoch=1, has_logging=True)
    exchange, post = call(play)
    play.send(post, event(progress(post.token, 1, 1)))
    play.cut(post)
    play.heal(epoch=2)
    again = play.leg("tools/call")
    play.open(again)

    play.send(again, event(result(again.id, {"run": 2}, 3)))

    assert exchange.answer["result"]["run"] == 2
    assert exchange.answer["result"]["_meta"][MARK]["discarded_events"] == 1
    assert play.facts(Drifted) == [Drifted(3)]
    assert play.runs == 2


def test_another_call_re_creates_the_session_under_an_open_connection() -> None:
    """The trace: nothing is known of the connection that could tell (R3)."""
    play = opened(epoch=1)
    exchange, post = call(play)
    play.send(post, event(log("of session 1", 1)))
    other, second = call(play, id=6, token=6)
    play.send(second, event(result(second.id, epoch=2)))

    play.send(post, event(progress(post.token, 2, 2)))

    assert other.answer["id"] == 6
    assert [one["params"].get("data") for one in exchange.messages] == ["of session 1"]
    assert play.reasons == ["epoch_mismatch"]


# --- R4: polls --------------------------------------------------------------------------------------


def test_a_clean_end_of_a_server_without_epochs_is_never_rejoined() -> None:
    """The trace: the stream ended because the session expired, and a stranger answers the GET (R4)."""
    play = opened()
    exchange, post = call(play)
    play.send(post, event(log("of run 1"), 1))

    play.end(post, LegEnd.CLEAN)
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id, {"run": 2}))

    assert not play.sent("GET")
    assert play.reasons == ["no_epoch_captured"]
    assert exchange.answer["result"]["run"] == 2
    assert exchange.answer["result"]["_meta"][MARK]["reissued"] is True


# --- R5: notices ------------------------------------------------------------------------------------


def test_a_notice_that_was_not_read_is_given_again_before_the_run_that_came_to_be() -> None:
    """The second run never went up and its client left; progress of the third needs a notice (R5)."""
    play = opened(has_logging=True)
    exchange, leg = open_call(play)
    at_1 = exchange.last_id
    play.cut(leg)
    play.heal()
    play.leave(exchange)
    while play.has_leg("tools/call"):
        play.unreachable(play.leg("tools/call"))
        play.advance(1)

    second = play.get(at_1)
    play.heal(b"up-3")
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(progress(again.token, 2)), event(result(again.id)))

    notice, step, answer = second.messages
    assert notice["params"]["data"]["discarded_events"] == 1
    assert step["params"]["progress"] == 2
    assert answer["result"]["_meta"][MARK]["reissued"] is True


# --- R6, R7: what proves a message on a resumed leg -------------------------------------------------


def by_header(play: Play) -> tuple[Exchange, Upstream, Upstream]:
    """A call of a server that states its epoch in the header only, cut and resumed."""
    exchange, post = call(play)
    play.send(post, event(progress(post.token, 1), "f3a"))
    play.cut(post)
    leg = play.leg("GET")
    play.open(leg, ((b"Mcp-Session-Epoch", b"e1"),))
    return exchange, post, leg


def test_a_server_that_replays_all_streams_gives_no_call_anothers_log() -> None:
    """The trace: two calls; the leg of the second is cut; its resume brings the log of the first (R6)."""
    play = opened(epoch_header=b"e1")
    first, one = call(play, id=1, token="a")
    second, two = call(play, id=2, token="b")
    play.send(one, event(log("of the first"), "u1"))
    play.send(two, event(progress(two.token, 1), "u2"))
    play.cut(two)

    leg = play.leg("GET")
    play.open(leg, ((b"Mcp-Session-Epoch", b"e1"),))
    play.send(leg, event(log("of the first"), "u1"), event(result(two.id), "u3"))
    play.send(one, event(result(one.id)))

    assert [one.get("method") for one in second.messages] == ["notifications/progress", None]
    assert [one.get("method") for one in first.messages] == ["notifications/message", None]
    assert (first.answer["id"], second.answer["id"]) == (1, 2)
    assert play.dropped == ["unproven"]


def test_a_ping_on_a_resumed_leg_needs_no_proof() -> None:
    """It tells the client nothing, and its answer tells the server nothing (R6)."""
    play = opened(epoch_header=b"e1")
    exchange, _, leg = by_header(play)

    play.send(leg, event(request("ping", id=3), "u2"))

    assert exchange.messages[-1] == request("ping", id=3)
    assert not play.reasons


def test_what_states_nothing_on_a_leg_whose_session_was_re_created_is_not_relayed() -> None:
    """The trace: header right, then another call re-creates the session and the handler goes on (R7)."""
    play = opened(epoch_header=b"e1")
    exchange, _, leg = by_header(play)
    play.call(id=6)
    other = play.leg("tools/call")
    play.answer(other, result(other.id), headers=(*JSON, (b"Mcp-Session-Epoch", b"e2")))
    assert play.facts(Drifted) == [Drifted(2)]
    before = exchange.body

    play.send(leg, event(log("of session 2"), "u2"))
    play.send(leg, event(ask(0), "u3"))

    assert exchange.body == before
    assert play.dropped == ["unproven"]
    assert play.reasons == ["unproven_request"]


def test_silence_on_a_leg_that_a_header_proved_is_probed() -> None:
    """The header proved one moment; the answer to a ping proves another (R7, R22)."""
    play = opened(epoch_header=b"e1")
    _, _, leg = by_header(play)
    play.advance(60.5)
    ping = play.leg("ping")

    play.answer(ping, result(ping.id, {}), headers=(*JSON, (b"Mcp-Session-Epoch", b"e2")))

    assert not leg.is_open
    assert play.reasons == ["epoch_mismatch"]


def test_each_resume_needs_a_header_of_its_own() -> None:
    """That of the resume before proves nothing of this one (R7)."""
    play = opened(epoch_header=b"e1")
    exchange, post, leg = by_header(play)
    play.send(leg, event(progress(post.token, 2), "u2"))
    play.cut(leg)
    play.advance(1)
    before = exchange.body

    resume(play, (progress(post.token, 3), "u3"))

    assert exchange.body == before
    assert play.reasons == ["no_epoch_on_event"]


# --- R8: carriers and equality ----------------------------------------------------------------------


@pytest.mark.parametrize(("written", "reason"), [(b"7", None), (b"7.0", None), (b'"7"', "epoch_mismatch")])
def test_an_epoch_is_compared_as_the_value_that_it_is_written_for(written: bytes, reason: str | None) -> None:
    """`7` and `7.0` are one value, `"7"` is another (R8)."""
    play, exchange = broken(epoch=7)
    post = play.sent("tools/call")[0]
    meta = b'{"content":[],"_meta":{"session_epoch":%b}}' % written

    resume(play, (b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (post.id, meta), 5))

    assert (exchange.is_open, play.reasons) == ((False, []) if reason is None else (True, [reason]))


@pytest.mark.parametrize("header", [b"7", b"8"])
def test_a_header_is_no_carrier_of_a_server_that_began_with_the_other(header: bytes) -> None:
    """`7` in `_meta` at `initialize`: `"7"` in a header proves nothing, `"8"` refutes nothing (R8)."""
    play, exchange = broken(epoch=7)
    post = play.sent("tools/call")[0]
    leg = play.leg("GET")
    play.open(leg, ((b"Mcp-Session-Epoch", header),))

    play.send(leg, event(progress(post.token, 4, 7), 5))
    assert exchange.messages[-1]["params"]["progress"] == 4
    play.send(leg, event(progress(post.token, 5), 6))

    assert exchange.messages[-1]["params"]["progress"] == 4
    assert play.reasons == ["no_epoch_on_event"]


def test_a_server_that_tags_progress_but_no_logs_is_heard_until_its_leg_breaks() -> None:
    """An untagged log passes on a leg that never broke, and is dropped on a resumed one (R8, R6)."""
    play = opened(epoch=7)
    exchange, post = call(play)
    play.send(post, event(progress(post.token, 1, 7), 1), event(log("before"), 2))
    play.cut(post)

    resume(play, (log("behind"), 3), (progress(post.token, 2, 7), 4), (result(post.id, epoch=7), 5))

    said: list[Json] = [one.get("params", {}).get("data") for one in exchange.messages]
    assert said == [None, "before", None, None]
    assert play.dropped == ["unproven"]
    assert not play.reasons
