"""Progress of a request on the standalone stream, where some servers put all of it (R38)."""

from __future__ import annotations

import pytest

from tests.core.messages import event, log, progress
from tests.core.scenes import call, listening


def test_progress_that_came_on_the_standalone_stream_counts_as_seen() -> None:
    """Some servers put all progress there (R38, W1)."""
    play, listener, standalone = listening(has_logging=True)
    exchange, leg = call(play)
    play.send(standalone, event(progress(leg.token, 5)))
    play.send(leg, event(log("begun")))
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)

    for step in (4, 5, 6):
        play.send(again, event(progress(again.token, step)))

    assert [one["params"]["progress"] for one in listener.messages if "progress" in one["params"]] == [5]
    assert [one["params"]["progress"] for one in exchange.messages if "progress" in one["params"]] == [6]


@pytest.mark.parametrize(("has_logging", "seen"), [(True, [5, 6]), (False, [5])])
def test_progress_of_a_run_again_on_the_standalone_stream_is_held_back_as_on_its_own(
    has_logging: bool, seen: list[int]
) -> None:
    """Who could not be told of the restart gets none of it (R5, R38)."""
    play, listener, standalone = listening(has_logging=has_logging)
    _, leg = call(play)
    play.send(leg, event(log("begun")))
    play.send(standalone, event(progress(leg.token, 5)))
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    standalone = play.leg("GET")
    play.open(standalone)

    for step in (4, 5, 6):
        play.send(standalone, event(progress(again.token, step)))

    assert [one["params"]["progress"] for one in listener.messages if "progress" in one["params"]] == seen
