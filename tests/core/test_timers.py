"""A session's timers: one time for each purpose and object, taken in the order of their times."""

from __future__ import annotations

from epochgate.core.timers import Timer, Timers


def test_the_next_deadline_is_the_earliest_of_all() -> None:
    timers = Timers()
    assert timers.next_deadline() is None

    timers.set(Timer.HOLD, 1, 30.0)
    timers.set(Timer.HOLD, 2, 10.0)
    timers.set(Timer.RETRY, 1, 20.0)

    assert timers.next_deadline() == 10.0


def test_a_timer_that_is_set_anew_has_its_new_time_only() -> None:
    timers = Timers()
    timers.set(Timer.SILENCE, 1, 10.0)
    timers.set(Timer.SILENCE, 1, 20.0)

    assert timers.next_deadline() == 20.0
    assert list(timers.take_due(10.0)) == []
    assert list(timers.take_due(20.0)) == [(Timer.SILENCE, 1)]


def test_it_is_known_whether_one_is_due_before_what_was_told_last() -> None:
    """The shell asks for the deadline anew then, and only then."""
    timers = Timers()
    timers.set(Timer.IDLE, 0, 50.0)
    assert timers.has_new

    timers.next_deadline()
    assert not timers.has_new
    timers.set(Timer.HOLD, 1, 60.0)
    assert not timers.has_new
    timers.set(Timer.HOLD, 2, 40.0)
    assert timers.has_new


def test_a_cleared_timer_is_not_due_and_others_stay() -> None:
    timers = Timers()
    timers.set(Timer.HOLD, 1, 10.0)
    timers.set(Timer.HOLD, 2, 20.0)
    timers.set(Timer.RETRY, 1, 30.0)

    timers.clear(Timer.HOLD, 1)
    timers.clear(Timer.HOLD, 1)
    timers.clear(Timer.WAIT, 1)

    assert not timers.is_set(Timer.HOLD, 1)
    assert timers.is_set(Timer.HOLD, 2)
    assert timers.next_deadline() == 20.0


def test_timers_of_one_object_are_cleared_by_name() -> None:
    timers = Timers()
    for timer in (Timer.HOLD, Timer.RETRY, Timer.WAIT):
        timers.set(timer, 1, 10.0)
    timers.set(Timer.RETRY, 2, 15.0)

    timers.clear_each((Timer.RETRY, Timer.WAIT, Timer.CANCEL), 1)

    assert list(timers.take_due(20.0)) == [(Timer.HOLD, 1), (Timer.RETRY, 2)]


def test_of_a_session_that_is_over_none_is_left() -> None:
    timers = Timers()
    timers.set(Timer.HOLD, 1, 10.0)
    timers.set(Timer.IDLE, 0, 20.0)

    timers.clear_all()

    assert timers.next_deadline() is None
    assert list(timers.take_due(30.0)) == []


def test_what_is_due_is_taken_in_the_order_of_its_times_and_once() -> None:
    timers = Timers()
    timers.set(Timer.HOLD, 1, 3.0)
    timers.set(Timer.WAIT, 1, 1.0)
    timers.set(Timer.HOLD, 2, 2.0)
    timers.set(Timer.HOLD, 3, 9.0)

    assert list(timers.take_due(3.0)) == [(Timer.WAIT, 1), (Timer.HOLD, 2), (Timer.HOLD, 1)]
    assert list(timers.take_due(3.0)) == []
    assert timers.next_deadline() == 9.0


def test_one_that_an_earlier_one_clears_or_sets_anew_is_left() -> None:
    timers = Timers()
    timers.set(Timer.WAIT, 1, 1.0)
    timers.set(Timer.RETRY, 1, 2.0)
    timers.set(Timer.HOLD, 1, 2.0)
    due = timers.take_due(5.0)

    assert next(due) == (Timer.WAIT, 1)
    timers.clear(Timer.RETRY, 1)
    timers.set(Timer.HOLD, 1, 7.0)

    assert list(due) == []
    assert timers.next_deadline() == 7.0


def test_the_time_that_is_left_to_one_is_handed_over_to_another() -> None:
    timers = Timers()
    timers.set(Timer.HOLD, 1, 10.0)

    timers.hand_over(Timer.HOLD, 1, 2)
    timers.hand_over(Timer.HOLD, 3, 4)  # which has none
    timers.hand_over(Timer.RETRY, 1, 2)

    assert list(timers.take_due(10.0)) == [(Timer.HOLD, 2)]
    assert timers.next_deadline() is None
