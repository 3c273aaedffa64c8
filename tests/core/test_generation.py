"""A generation: what was valid in one server session, and for how long answered stamps are known."""

from __future__ import annotations

from epochgate.core import jsonrpc
from epochgate.core.epoch import Epoch
from epochgate.core.events import RequestHead
from epochgate.core.generation import MAX_RETIRED, MAX_TASKS, RETIRED_S, Generation, Stamped
from epochgate.core.journal import Budget
from epochgate.core.stream import Kind, Owed, Stream


def generation() -> Generation:
    return Generation(2, b"up-2", Epoch(None, None))


def test_a_stamp_that_was_answered_is_known_as_late_for_at_least_a_minute() -> None:
    """Servers send progress of an answered request for a while (W1)."""
    one = generation()
    assert not one.is_retired(b"1")

    one.retire(b"1", 100.0)
    one.retire(b"2", 100.0 + RETIRED_S - 1)
    one.retire(b"3", 100.0 + RETIRED_S)

    assert [one.is_retired(key) for key in (b"1", b"2", b"3", b"4")] == [True, True, True, False]


def test_later_it_is_foreign() -> None:
    one = generation()
    one.retire(b"1", 100.0)
    one.retire(b"2", 100.0 + RETIRED_S)
    one.retire(b"3", 100.0 + 2 * RETIRED_S)

    assert [one.is_retired(key) for key in (b"1", b"2", b"3")] == [False, True, True]


def test_however_many_are_answered_at_once_no_more_are_kept_than_twice_the_limit() -> None:
    one = generation()
    for number in range(2 * MAX_RETIRED + 1):
        one.retire(b"%d" % number, 100.0)

    assert not one.is_retired(b"0")
    assert not one.is_retired(b"%d" % (MAX_RETIRED - 1))
    assert one.is_retired(b"%d" % MAX_RETIRED)
    assert one.is_retired(b"%d" % (2 * MAX_RETIRED))


def test_stamps_of_one_generation_mean_nothing_in_another() -> None:
    one, other = generation(), generation()
    one.retire(b"1", 100.0)

    assert not other.is_retired(b"1")


def test_it_shows_whether_its_session_is_gone() -> None:
    one = generation()
    assert repr(one) == "<Generation 2>"

    one.is_gone = True
    assert repr(one) == "<Generation 2 gone>"


def test_the_token_of_a_task_is_known_until_so_many_others_followed() -> None:
    """Progress of a task comes after its answer, and what is kept of one is bounded (G8)."""
    one = generation()
    message = jsonrpc.read_message(b'{"id":1,"method":"tools/call","params":{"task":{}}}')
    head = RequestHead(b"/mcp", (), b"alice")
    stream = Stream(1, Kind.REQUEST, one, head, Budget(1 << 30))
    for number in range(MAX_TASKS + 1):
        key = b"%d" % number
        one.tokens[key] = Stamped(stream, Owed(message, b"12", key, is_stamped=True))
        one.keep_task(key)

    assert b"0" not in one.tokens
    assert b"1" in one.tokens
    assert b"%d" % MAX_TASKS in one.tokens
    assert len(one.tasks) == MAX_TASKS


def test_it_is_wanted_until_its_server_was_told_all_there_is_to_tell() -> None:
    """Its end, unless its server lost it, and each cancel before that (R26)."""
    one = generation()
    assert one.is_wanted

    one.is_ended = True
    assert not one.is_wanted
    one.cancels_open = 1
    assert one.is_wanted

    gone = generation()
    gone.is_gone = True
    assert not gone.is_wanted
