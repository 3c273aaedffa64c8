"""What a second run may show, epochs that the proxy states, preludes, batches (R38-R41)."""

from __future__ import annotations

import pytest

from epochgate.core.events import LegEnd
from epochgate.core.states import SessionState
from tests.core.messages import Json, ask, error, event, progress, result
from tests.core.playbook import Play, opened, quiet
from tests.core.scenes import running
from tests.core.sides import Exchange, Upstream

# --- R38 --------------------------------------------------------------------------------------------


def second_run(seen: list[Json], **settings: Json) -> tuple[Play, Exchange, Upstream]:
    """A run whose progress the client saw, and the beginning of the next."""
    play = opened(has_logging=True, **settings)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    for done, total in seen:
        play.send(leg, event(progress(leg.token, done, total=total)))
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    return play, exchange, again


def shown(exchange: Exchange) -> list[Json]:
    behind = [one["params"] for one in exchange.messages if one.get("method") == "notifications/progress"]
    return [(one["progress"], one.get("total")) for one in behind]


@pytest.mark.parametrize(
    ("seen", "of_second", "told"),
    [
        ([(95, 100)], [(1, 100), (95, 100), (96, 100)], [(96, 100)]),  # a restart at 95 %
        ([(30, None)], [(1, None), (31, None)], [(31, None)]),
        ([(3, 10)], [(50, 100), (4, 100)], []),  # a count against per cent
        ([(3, 10)], [(4, 12), (11, 12)], []),  # another total
        ([(3, None)], [(4, 10)], []),
        ([], [(1, 10)], [(1, 10)]),
    ],
)
def test_progress_of_the_second_run(seen: list[Json], of_second: list[Json], told: list[Json]) -> None:
    """Dropped, not delayed; compared only where the totals are equal; never scaled (R38)."""
    play, exchange, leg = second_run(seen)
    before = len(shown(exchange))
    for done, total in of_second:
        play.send(leg, event(progress(leg.token, done, total=total)))
    play.send(leg, event(result(leg.id)))

    assert shown(exchange)[before:] == told
    assert exchange.answer["id"] == 5


# --- R39 --------------------------------------------------------------------------------------------


def test_a_client_that_checks_the_proxys_epoch_is_not_run_for_twice() -> None:
    """Its library aborts at another value and issues again itself: the proxy must not as well (R39)."""
    play = opened(epoch=7, advertise_epoch=True)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(progress(leg.token, 1, 7), 1))
    assert exchange.messages[-1]["params"]["_meta"] == {"session_epoch": 1}
    play.cut(leg)
    play.refuse(play.leg("GET"), 404)

    assert play.runs == 1
    assert exchange.answer["error"]["code"] == -32050


# --- R40 --------------------------------------------------------------------------------------------


def at_the_prelude() -> tuple[Play, Exchange, Upstream]:
    play = opened(replay_tools=("login",))
    play.call("login", id=1)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)
    exchange = play.call("work", id=2)
    play.refuse(play.leg("tools/call"), 404)
    play.heal()
    leg = play.leg("tools/call")
    assert leg.json["params"]["name"] == "login"
    return play, exchange, leg


def _error(play: Play, leg: Upstream) -> None:
    play.answer(leg, error(leg.id))


def _tool_error(play: Play, leg: Upstream) -> None:
    play.answer(leg, result(leg.id, {"content": [], "isError": True}))


def _question(play: Play, leg: Upstream) -> None:
    play.open(leg)
    play.send(leg, event(ask(0)))
    play.advance(10)


def _silence(play: Play, _leg: Upstream) -> None:
    play.advance(10)


def _break(play: Play, leg: Upstream) -> None:
    play.end(leg, LegEnd.BROKEN)


@pytest.mark.parametrize("fails", [_error, _tool_error, _question, _silence, _break])
def test_a_prelude_that_does_not_succeed_is_an_incompatible_heal(fails: Json) -> None:
    """No client is there to be asked or told (R40)."""
    play, exchange, leg = at_the_prelude()

    fails(play, leg)

    assert play.heals == [("session_gone", "incompatible")]
    assert exchange.json["error"]["code"] == -32051
    assert play.session.state is SessionState.LOST
    assert play.leg("DELETE").session_id == b"up-2"
    assert [one.json["params"]["name"] for one in play.sent("tools/call")] == ["login", "work", "login"]


def test_a_prelude_that_asks_and_succeeds_without_an_answer_is_incompatible_too() -> None:
    """What it did without the user is not what the user did (R40)."""
    play, _, leg = at_the_prelude()
    play.open(leg)
    play.send(leg, event(ask(0)), event(result(leg.id)))
    play.advance(10)

    assert play.heals == [("session_gone", "incompatible")]


def test_no_record_holds_the_arguments_of_a_prelude_behind_its_call() -> None:
    """They are credentials: kept in memory alone (R40)."""
    play = opened(replay_tools=("login",))
    play.call("login", id=1, arguments={"password": "s3cret"})
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    play.is_persisting = False
    quiet(play)
    play.call("work", id=2)
    records = [repr(one.record) for one in play.persists]
    play.is_persisting = True
    play.persist()
    play.refuse(play.leg("tools/call"), 404)
    play.is_persisting = False
    play.heal()
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    play.answer(play.leg("tools/list"), result(play.leg("tools/list").id, {"tools": [{"name": "work"}]}))
    records += [repr(one.record) for one in play.persists]

    assert len(records) >= 2
    assert not [one for one in records if "s3cret" in one]


# --- R41 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1])
def test_a_batch_inside_an_event_is_relayed_whole_or_not_at_all(at: int) -> None:
    """One member that states another epoch is enough (R41)."""
    play, exchange, leg = running(1, epoch=7)
    before = len(exchange.messages)
    members = [progress(leg.token, 2, 7), progress(leg.token, 3, 7)]
    members[at]["params"]["_meta"] = {"session_epoch": 8}

    play.send(leg, event(members))

    assert len(exchange.messages) == before
    assert play.reasons == ["epoch_mismatch"]
