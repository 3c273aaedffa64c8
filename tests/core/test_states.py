"""The state tables: each pair has a cell or is impossible, ends are final, every state can be reached."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from epochgate.core.errors import ImpossibleTransition
from epochgate.core.states import (
    CLIENT,
    INTAKE,
    SESSION,
    TERMINAL,
    UPSTREAM,
    ClientAsk,
    ClientHalf,
    ClientInput,
    Does,
    SessionInput,
    SessionState,
    Up,
    UpInput,
    look_up,
)

MACHINES: list[tuple[Mapping[Any, Any], type[Enum], type[Enum], Enum]] = [
    (SESSION, SessionState, SessionInput, SessionState.OPENING),
    (UPSTREAM, Up, UpInput, Up.WAITING),
    (CLIENT, ClientHalf, ClientInput, ClientHalf.UNBORN),
]
each_machine = pytest.mark.parametrize(
    ("table", "states", "inputs", "start"), MACHINES, ids=["session", "upstream", "client"]
)


@each_machine
def test_each_pair_is_a_cell_or_impossible(
    table: Mapping[Any, Any], states: type[Enum], inputs: type[Enum], start: Enum
) -> None:
    for state, event in itertools.product(states, inputs):
        if (state, event) in table:
            assert look_up(table, state, event) in states
        else:
            with pytest.raises(ImpossibleTransition, match=str(state)):
                look_up(table, state, event)


@each_machine
def test_every_state_can_be_reached_and_every_input_happens(
    table: Mapping[Any, Any], states: type[Enum], inputs: type[Enum], start: Enum
) -> None:
    reached = {start}
    for _ in states:
        reached |= {new for (old, _), new in table.items() if old in reached}

    assert reached == set(states)
    assert {event for _, event in table} == set(inputs)


def test_an_ended_session_stays_so() -> None:
    assert not [pair for pair in SESSION if pair[0] is SessionState.ENDED]
    assert {event for state, event in SESSION if state is SessionState.LOST} == {SessionInput.ENDED}


def test_a_stream_that_ended_can_only_be_forgotten() -> None:
    for state in TERMINAL:
        ways_out = {event: new for (old, event), new in UPSTREAM.items() if old is state}
        assert ways_out in ({}, {UpInput.FORGOTTEN: Up.GONE})
    assert not [pair for pair in UPSTREAM if pair[0] is Up.GONE]


def test_what_is_not_over_can_fail_and_be_cancelled() -> None:
    for state in set(Up) - TERMINAL:
        assert look_up(UPSTREAM, state, UpInput.FAILED) is Up.FAILED
        assert look_up(UPSTREAM, state, UpInput.CANCELLED) is Up.CANCELLED


def test_only_a_void_stream_is_superseded() -> None:
    assert [state for state, event in UPSTREAM if event is UpInput.SUPERSEDED] == [Up.VOID]


def test_a_stream_that_was_never_proven_is_resumed_only_by_way_of_proving() -> None:
    """After a break nothing but headers of a resume leads on, and they lead to PROVING."""
    ways_on = {new for (old, event), new in UPSTREAM.items() if old is Up.RETRY}

    assert ways_on == {Up.PROVING, Up.RETRY, Up.VOID, Up.FAILED, Up.CANCELLED}


def test_a_client_that_was_given_no_id_cannot_return() -> None:
    assert look_up(CLIENT, ClientHalf.UNBORN, ClientInput.LEFT_WITHOUT_ID) is ClientHalf.DONE
    assert (ClientHalf.UNBORN, ClientInput.RETURNED) not in CLIENT


# The table of what is done with a client's request is written out once more, by hand (R24, R25).
D = Does
EXPECTED = {
    #                            OPENING        LIVE              HEALING           PARKED           LOST
    ClientAsk.REQUEST:      (D.NOT_YET, D.SEND,           D.WAIT,           D.HEAL_AND_WAIT, D.NOT_FOUND),
    ClientAsk.ANSWER:       (None,      D.ROUTE,          D.ROUTE,          D.ROUTE,         D.ACCEPT),
    ClientAsk.NOTIFICATION: (None,      D.SEND,           D.ACCEPT,         D.ACCEPT,        D.ACCEPT),
    ClientAsk.GET:          (None,      D.STREAM,         D.STREAM,         D.STREAM,        D.NOT_FOUND),
    ClientAsk.RESUME:       (None,      D.RESOLVE,        D.RESOLVE,        D.RESOLVE,       D.RESOLVE),
    ClientAsk.DELETE:       (None,      D.FORWARD_DELETE, D.FORWARD_DELETE, D.CLOSE,         D.CLOSE),
}  # fmt: skip


@pytest.mark.parametrize("asked", EXPECTED, ids=lambda asked: asked.value)
def test_what_is_done_with_a_request(asked: ClientAsk) -> None:
    states = list(SessionState)[:5]

    assert tuple(INTAKE.get((state, asked)) for state in states) == EXPECTED[asked]
    assert look_up(INTAKE, SessionState.ENDED, asked) is Does.NOT_FOUND


def test_every_way_to_treat_a_request_is_used() -> None:
    assert set(INTAKE.values()) == set(Does)
