"""The traces of R10 to R15: what a client that comes back is given, and by which cursor."""

from __future__ import annotations

import pytest

from epochgate.core import cursor as cursors
from epochgate.core import journal
from epochgate.core.cursor import Blocks
from tests.core.messages import event, initialize, initialize_answer, log, progress, result
from tests.core.playbook import JSON, Play, opened
from tests.core.scenes import cursor, give, open_call, running, steps

# --- R10: priming -----------------------------------------------------------------------------------


def negotiated(asked: str, answered: str) -> Play:
    """A session whose client asked for one revision and was given another."""
    play = Play()
    play.post(initialize(asked))
    leg = play.leg("initialize")
    headers = (*JSON, (b"Mcp-Session-Id", b"up-1"))
    play.answer(leg, initialize_answer(leg.id, version=answered), headers=headers)
    play.visible_id = b"up-1"
    return play


@pytest.mark.parametrize(
    ("asked", "answered", "is_primed"),
    [
        ("2025-11-25", "2025-11-25", True),
        ("2025-11-25", "2025-03-26", True),
        ("2025-06-18", "2025-11-25", False),
        ("2025-03-26", "2025-03-26", False),
    ],
)
def test_what_the_client_asked_for_decides_whether_it_is_primed(
    asked: str, answered: str, is_primed: bool
) -> None:
    """Its parser is as old as the revision that it asks for, whatever was negotiated (R10)."""
    play = negotiated(asked, answered)
    exchange = play.call()
    assert exchange.body == b""

    play.open(play.leg("tools/call"))

    assert [one.data for one in exchange.events] == ([b""] if is_primed else [])


def test_a_priming_event_never_stands_for_what_was_missed() -> None:
    """The trace: at 5 the client leaves; 6 to 10 come; it returns, is cut, and returns (R10)."""
    play, first, leg = running(5)
    at_5 = first.last_id
    play.leave(first)
    give(play, leg, 5, 10)

    second = play.get(at_5)
    play.leave(second)  # of what was written to it nothing was read
    third = play.get(at_5)
    play.leave(third)
    fourth = play.get(third.last_id)

    assert steps(second) == steps(third) == [5, 6, 7, 8, 9]
    assert all(one.data for one in (*second.events, *third.events))
    assert [one.data for one in fourth.events] == [b""]
    play.send(leg, event(result(leg.id)))
    assert fourth.answer == result(5)


def test_every_return_brings_a_new_id() -> None:
    """Go ends a session after five resumes without one, TypeScript loses its cursor at the first (R10)."""
    play, exchange, leg = running(1)
    seen = [exchange.last_id]
    for _ in range(7):
        play.leave(exchange)
        exchange = play.get(seen[-1])
        seen.append(exchange.last_id)

    assert sorted(set(map(int, seen))) == list(map(int, seen))
    play.send(leg, event(result(leg.id)))
    assert exchange.answer == result(5)


# --- R11: successors --------------------------------------------------------------------------------


def test_a_stream_of_the_first_generation_that_still_runs_is_served_from_its_own_journal() -> None:
    """The second trace: it never broke, another stream was healed, its client comes back (R11)."""
    play = opened()
    first, one = open_call(play, id=1)
    _, two = open_call(play, id=2)
    play.leave(first)
    play.send(one, event(progress(one.token, 2)))
    play.cut(two)
    play.heal()

    second = play.get(first.last_id)
    play.send(one, event(progress(one.token, 3)), event(result(one.id)))

    assert steps(second) == [2, 3]
    assert second.answer["id"] == 1
    assert ("client", "resume", "journal") in play.judged
    assert sum(leg.id == one.id for leg in play.sent("tools/call")) == 1
    assert play.runs == 3


def test_a_cursor_is_followed_through_every_restart() -> None:
    """To the last of the successors, and to its first event (R11)."""
    play = opened(has_logging=True, max_reissues=2)
    first, leg = open_call(play)
    for number in (2, 3):
        play.cut(leg)
        play.heal(b"up-%d" % number)
        leg = play.leg("tools/call")
        play.open(leg)
        play.send(leg, event(log(f"of run {number}")))
    play.leave(first)

    second = play.get(cursor(first, 1))
    play.send(leg, event(result(leg.id)))

    said = [one["params"]["data"] for one in second.messages[:-1]]
    assert [one if isinstance(one, str) else one["generation"] for one in said] == [3, "of run 3"]
    assert second.answer["id"] == 5
    assert play.runs == 3


# --- R12: standalone streams ------------------------------------------------------------------------


# --- R13: expiry ------------------------------------------------------------------------------------


# --- R14: the end of a stream -----------------------------------------------------------------------


def test_an_error_that_was_cut_in_flight_is_replayed() -> None:
    """The trace: the client comes back with the cursor before the error, and learns of it (R14)."""
    play = opened(tools=[{"name": "work", "annotations": {"destructiveHint": True}}])
    first, leg = open_call(play)
    play.cut(leg)
    play.heal()
    assert first.answer["error"]["code"] == -32050

    second = play.get(cursor(first, 1))
    third = play.get(first.last_id)

    assert (second.status, second.answer) == (200, first.answer)
    assert not second.is_open
    assert third.status == 405


def test_an_answer_is_kept_from_the_last_leg_it_was_written_to() -> None:
    """Not from the first (R14)."""
    play, first, leg = running(2, retain_s=60.0)
    play.send(leg, event(result(leg.id)))
    for _ in range(3):
        play.advance(59)
        assert play.get(cursor(first, 2)).answer == result(5)

    play.advance(61)

    assert play.get(cursor(first, 2)).answer["error"]["code"] == -32050


# --- R15: cursors -----------------------------------------------------------------------------------


def test_a_cursor_carried_into_a_new_session_leads_nowhere() -> None:
    """The trace: 404, `initialize` anew, and the resume loop of call 5 goes on there (R15)."""
    old, exchange, _ = running(3)
    carried = exchange.last_id
    new = opened()
    new.session.blocks = Blocks(new.session.entropy(32))  # each session begins elsewhere
    _, leg = open_call(new, id=9)
    new.send(leg, event(result(leg.id, {"of": "another call"})))

    refused = new.get(carried)

    assert refused.status == 400
    assert refused.body != b""
    assert new.judged == [("client", "refuse", "cursor_unknown")]
    assert old.get(carried).status == 200


def test_streams_that_outgrow_their_blocks_do_not_run_into_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cursors are unique in the session, increase in a block, and follow the order of events (R15)."""
    monkeypatch.setattr(journal, "BLOCK_SPAN", 3)  # a block is full after three events
    play = opened()
    calls = [open_call(play, id=id) for id in (1, 2)]
    for step in (2, 3, 4, 5, 6, 7):
        for _, leg in calls:
            play.send(leg, event(progress(leg.token, step)))

    ids = [[int(one.id or b"") for one in exchange.events] for exchange, _ in calls]
    blocks = [sorted({one // cursors.BLOCK_SPAN for one in of_stream}) for of_stream in ids]

    assert len({*ids[0], *ids[1]}) == 16  # each is primed and has seven events
    assert (len(blocks[0]), len(blocks[1])) == (3, 3)
    for of_stream in ids:
        assert of_stream == sorted(of_stream)
        for seen, id in enumerate(of_stream):
            assert steps(play.get(b"%d" % id)) == list(range(seen + 1, 8))
