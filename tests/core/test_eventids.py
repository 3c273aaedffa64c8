"""What a server's event ids prove after a resume (R31)."""

from __future__ import annotations

import pytest

from epochgate.core import sse
from epochgate.core.axes import IdStep
from epochgate.core.eventids import EventIds

NEXT, SAME, GAP, RESET, UNJUDGED = (
    IdStep.NEXT,
    IdStep.SAME,
    IdStep.GAP,
    IdStep.RESET,
    IdStep.UNJUDGED,
)


def event(id: str | None, data: str = "{}") -> sse.Event:
    line = "" if id is None else f"id: {id}\n"
    return sse.parse(f"{line}data: {data}\n\n".encode())


def seen(*ids: str) -> EventIds:
    known = EventIds()
    for id in ids:
        one = event(id, f'{{"of":"{id}"}}')
        known.saw([id.encode()], one.raw)
    return known


STEPPED = [
    (("1", "2", "3", "4"), "5", NEXT),
    (("1", "2", "3", "4"), "6", GAP),
    (("1", "2", "3", "4"), "0", RESET),
    (("0", "1", "2", "3"), "4", NEXT),
    (("s_1", "s_2", "s_3", "s_4"), "s_5", NEXT),
    (("s_1", "s_2", "s_3", "s_4"), "s_7", GAP),
    (("s_1", "s_2", "s_3", "s_4"), "t_5", GAP),
    (("a_b_1", "a_b_2", "a_b_3", "a_b_4"), "a_b_5", NEXT),
    (("1", "2", "3", "4"), "s_5", GAP),
    (("1", "2", "3", "4"), "5x", GAP),
    (("9999999999999998", "9999999999999999", "10000000000000000", "10000000000000001"),
     "10000000000000002", NEXT),
]  # fmt: skip
UNLEARNED = [
    ((), "1", UNJUDGED),
    (("1",), "9", UNJUDGED),
    (("1", "2", "3"), "9", UNJUDGED),  # two steps could be chance
    (("1", "3", "4", "5", "6"), "9", UNJUDGED),  # a counter that other streams use too
    (("1", "2", "3", "4", "6"), "9", UNJUDGED),
    (("a", "b", "c", "d", "e"), "f", UNJUDGED),
    (("1", "2", "3", "4", "uuid"), "9", UNJUDGED),
    (("01", "02", "03", "04"), "06", UNJUDGED),
]


@pytest.mark.parametrize(("before", "id", "step"), [*STEPPED, *UNLEARNED])
def test_an_id_against_those_before_it(before: tuple[str, ...], id: str, step: IdStep) -> None:
    """Comparable after three steps of one, always (R31)."""
    assert seen(*before).step(event(id)) is step


@pytest.mark.parametrize("ids", [("1", "2", "3", "4"), ("x", "y"), ("7",)])
def test_the_same_event_again_is_known_by_id_and_bytes(ids: tuple[str, ...]) -> None:
    """Other bytes under it are a reset (R31)."""
    known = seen(*ids)

    for id in ids:
        assert known.step(event(id, f'{{"of":"{id}"}}')) is SAME
        assert known.step(event(id, '{"of":"another run"}')) is RESET


def test_an_event_without_id_is_not_judged() -> None:
    assert seen("1", "2", "3", "4").step(event(None)) is UNJUDGED
    assert seen("1", "2", "3", "4").step(event("")) is UNJUDGED


def test_the_last_id_is_what_a_resume_asks_with() -> None:
    assert EventIds().last is None
    assert seen("1", "2", "uuid").last == b"uuid"


def test_ids_of_a_whole_block_are_learned_at_once() -> None:
    known = EventIds()
    known.saw([b"1", b"2", b"3", b"4"], b"".join(event(id).raw for id in ("1", "2", "3", "4")))

    assert known.is_comparable
    assert known.step(event("5")) is NEXT
    assert known.step(event("2")) is SAME


def test_one_step_that_was_none_in_a_block_is_remembered_behind_it() -> None:
    known = EventIds()
    ids = [b"4", b"9", b"10", b"11", b"12"]
    known.saw(ids, b"".join(event(id.decode()).raw for id in ids))

    assert not known.is_comparable
    assert known.step(event("20")) is UNJUDGED


def test_only_the_youngest_events_are_kept_to_compare() -> None:
    known = EventIds()
    for number in range(1, 20):
        known.saw([b"%d" % number], event(str(number), "x" * 50_000).raw)

    assert known.step(event("19", "x" * 50_000)) is SAME
    assert known.step(event("1", "x" * 50_000)) is RESET  # too old to be recognised: the careful reading


def test_a_block_that_goes_on_from_the_last_id_is_learned_at_once() -> None:
    known = seen("1")
    known.saw([b"2", b"3", b"4"], b"".join(event(id).raw for id in ("2", "3", "4")))

    assert known.is_comparable
    assert known.last == b"4"
    assert known.step(event("5")) is NEXT
    assert known.step(event("7")) is GAP


@pytest.mark.parametrize("ids", [[b"5", b"7"], [b"5", b"9", b"7"], [b"5", b"6", b"6"]])
def test_a_block_that_goes_on_and_then_jumps_ends_the_comparing(ids: list[bytes]) -> None:
    """A counter that other streams use too proves nothing any more (R31)."""
    known = seen("1", "2", "3", "4")
    assert known.is_comparable

    known.saw(ids, b"".join(event(id.decode()).raw for id in ids))

    assert not known.is_comparable
    assert known.step(event("20")) is UNJUDGED


@pytest.mark.parametrize(
    ("id", "data", "is_repeat"),
    [
        ("2", '{"of":"2"}', True),
        ("2", '{"of":"another run"}', False),
        ("0", "{}", False),  # below the first: the server numbers anew
        ("5", "{}", False),
        ("s_1", "{}", False),  # another counter
        ("uuid", "{}", False),
        ("", "{}", False),
        (None, "{}", False),
    ],
)
def test_history_that_a_reopened_stream_gives_again_is_known(
    id: str | None, data: str, is_repeat: bool
) -> None:
    """By its bytes, or by a number that was passed long ago (W16)."""
    assert seen("1", "2", "3", "4").is_repeat(event(id, data)) is is_repeat


def test_what_was_given_before_is_known_without_any_numbers_to_compare() -> None:
    known = seen("a", "b")

    assert known.is_repeat(event("a", '{"of":"a"}'))
    assert not known.is_repeat(event("a", '{"of":"another run"}'))
    assert not known.is_repeat(event("c"))


def test_an_id_that_another_events_data_holds_is_not_taken_for_that_event() -> None:
    known = seen("a")
    known.remember(event("b", '{"text":"x"}').raw)

    assert known.step(event("x")) is UNJUDGED
    assert not known.is_repeat(event("x", '{"text":"x"}'))
