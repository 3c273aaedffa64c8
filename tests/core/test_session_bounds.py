"""A session that lives for weeks does not grow: what is remembered of its past has limits (G8)."""

from __future__ import annotations

from tests.core.messages import ask, event, request, result
from tests.core.playbook import opened
from tests.core.scenes import call, drift


def test_generations_that_nothing_is_left_of_are_forgotten() -> None:
    """A server that makes its sessions anew every few minutes."""
    play = opened(epoch=1)

    for epoch in range(2, 52):
        drift(play, epoch)

    assert play.session.current.number == 51
    assert len(play.session.generations) == 2  # the one before is let go when the next one comes


def test_a_generation_with_a_running_call_is_kept() -> None:
    play = opened(epoch=1)
    exchange, leg = call(play)
    for epoch in range(2, 12):
        drift(play, epoch)

    play.send(leg, event(result(leg.id, {"n": 1}, 1)))

    assert exchange.answer["result"]["n"] == 1
    assert [one.number for one in play.session.generations] == [1, 10, 11]


def test_a_caller_that_is_at_work_is_not_forgotten() -> None:
    play = opened()

    for number in range(200):
        for who in (b"alice", b"token-%d" % number):
            play.post(request("ping", id=number), who=who)
            play.answer(play.leg("ping"), result(play.leg("ping").id, {}))

    assert b"alice" in play.session.accepted


def test_ids_of_the_servers_questions_are_forgotten_in_time() -> None:
    """A server that pings its client all day."""
    play = opened()
    _, leg = call(play)

    for number in range(0, 11_000, 100):
        play.send(leg, *[event(ask(number + one, "ping")) for one in range(100)])

    assert len(play.session.current.asked) == len(play.session.questions) == 10_000


def test_errors_for_an_expired_cursor_leave_no_more_tombstones_than_there_may_be() -> None:
    """Each of them gives cursors out, too."""
    play = opened(max_tombstones=4)
    exchange, _ = call(play)
    play.leave(exchange)
    play.advance(301)

    told = [play.get(exchange.last_id) for _ in range(4)]

    assert {one.answer["error"]["data"]["reason"] for one in told} == {"expired"}
    assert len(play.session.tombstones) == 4
    assert play.get(told[-1].last_id).status == 405


def test_of_a_call_that_asked_nothing_large_is_kept() -> None:
    """Its question is remembered for long, so that an answer that comes late is known."""
    play = opened()
    exchange = play.call(text="x" * 10_000)
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(ask(0), 1))
    stream = play.session.exchanges[exchange.number]
    play.post(result(0, {}))
    play.accept(play.leg("answer"))
    play.send(leg, event(result(leg.id), 2))
    play.advance(61)

    (question,) = play.session.questions.values()
    assert question.stream is stream
    assert stream.body is None
    assert [(owed.id, owed.method, owed.message.raw) for owed in stream.owed] == [(b"5", "tools/call", b"")]
    assert stream.ids.last is None
