"""The resume rule for client authors: which divergence is named first, and that nothing else is raised."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import epochgate
from epochgate import SessionEpoch, StreamResumeDivergence, resume_or_restart, validate_resumed_event

CAPTURED = SessionEpoch("s-1", 7)


def resumed(id: Any = 901, epoch: Any = 7, **more: Any) -> dict[str, Any]:
    return {"id": id, "_meta": {"session_epoch": epoch}, **more}


@pytest.mark.parametrize("id", [901, "901"])
def test_the_same_epoch_and_the_next_id_may_go_on(id: Any) -> None:
    assert validate_resumed_event(CAPTURED, resumed(id), 900) is None  # type: ignore[func-returns-value]  # the contract
    assert resume_or_restart(CAPTURED, resumed(id), 900) == "resume"


def test_epoch_zero_is_an_epoch() -> None:
    assert resume_or_restart(SessionEpoch("s", 0), resumed(epoch=0), 900) == "resume"


# Each case is wrong in this and in every later respect: what is checked first is what is named.
ORDER = [
    (None, resumed(99, epoch=None), "no_epoch_captured", ["None"]),
    (None, resumed(99, epoch=8), "no_epoch_captured", ["None", "8"]),
    (CAPTURED, resumed(99, epoch=None), "no_epoch_on_event", ["7", "None"]),
    (CAPTURED, {"id": 99}, "no_epoch_on_event", ["7", "None"]),
    (CAPTURED, resumed(99, epoch=8), "epoch_mismatch", ["7", "8"]),
    (CAPTURED, resumed(99), "event_id_gap", ["900", "99"]),
]


@pytest.mark.parametrize(("captured", "event", "reason", "values"), ORDER)
def test_the_first_divergence_is_named_with_both_values(
    captured: SessionEpoch | None, event: dict[str, Any], reason: str, values: list[str]
) -> None:
    with pytest.raises(StreamResumeDivergence) as raised:
        validate_resumed_event(captured, event, 900)

    assert str(raised.value).startswith(reason)
    assert all(value in str(raised.value) for value in values)
    assert resume_or_restart(captured, event, 900) == "restart"


@pytest.mark.parametrize(
    "id", [900, 902, 0, -901, "902", "", "x", "901 ", "9.01e2", "٩٠١", None, 901.0, True, b"901", [901]]
)
def test_an_id_that_is_not_the_next_one_diverges(id: Any) -> None:
    """The library is strict where the proxy learns (R31)."""
    with pytest.raises(StreamResumeDivergence):
        validate_resumed_event(CAPTURED, resumed(id), 900)


@pytest.mark.parametrize(
    "event",
    [
        None,
        "event",
        [],
        {},
        {"id": 901},
        {"id": 901, "_meta": None},
        {"id": 901, "_meta": "session_epoch"},
        {"id": 901, "_meta": [7]},
        {"_meta": {"session_epoch": 7}},
        resumed(epoch="7"),
        resumed(epoch=7.0),
        resumed(epoch=[7]),
        {"id": 901, "session_epoch": 7},
        {"id": 901, "result": {"_meta": {"session_epoch": 7}}},
    ],
)
def test_malformed_input_is_a_divergence(event: Any) -> None:
    with pytest.raises(StreamResumeDivergence):
        validate_resumed_event(CAPTURED, event, 900)


def test_true_is_not_epoch_one() -> None:
    assert resume_or_restart(SessionEpoch("s", 1), resumed(epoch=True), 900) == "restart"


def test_a_last_id_that_is_no_number_diverges() -> None:
    last: Any = None
    assert resume_or_restart(CAPTURED, resumed(1), last) == "restart"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
)
SHAPED = st.fixed_dictionaries(
    {},
    optional={"id": ANYTHING, "_meta": ANYTHING | st.fixed_dictionaries({"session_epoch": ANYTHING})},
)


@given(
    st.none() | st.builds(SessionEpoch, st.text(), st.integers()) | ANYTHING,
    ANYTHING | SHAPED,
    st.integers() | ANYTHING,
)
def test_nothing_but_a_divergence_is_ever_raised(captured: Any, event: Any, last: Any) -> None:
    assert resume_or_restart(captured, event, last) in ("resume", "restart")


@given(st.integers(), st.integers(), st.integers(-3, 3), st.integers(-3, 3))
def test_it_resumes_exactly_when_epoch_and_id_fit(epoch: int, last: int, off: int, shift: int) -> None:
    choice = resume_or_restart(SessionEpoch("s", epoch), resumed(last + 1 + off, epoch + shift), last)

    assert (choice == "resume") is (off == 0 and shift == 0)


def test_a_divergence_is_a_runtime_error() -> None:
    assert issubclass(StreamResumeDivergence, RuntimeError)
    assert epochgate.SessionEpoch is SessionEpoch


def test_importing_it_needs_nothing_but_the_standard_library() -> None:
    script = (
        "import sys; before = set(sys.modules); from epochgate import resume_or_restart;"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new - set(sys.stdlib_module_names) - {'epochgate'}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )

    assert run.stdout.strip() == "[]"
