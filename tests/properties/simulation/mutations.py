"""Deliberate bugs in the guard: a simulation that finds none of them would be worth nothing.

Each is a small patch of the real core, undone afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from epochgate.core import ending, epoch, evidence, questions, reissue, reissuing, resuming, verdict
from epochgate.core.axes import Match, MessageEvidence
from epochgate.core.journal import Journal
from epochgate.core.session import Session
from epochgate.core.stream import OwedState, Stream

Patch = Callable[[ExitStack], None]


@dataclass(frozen=True, slots=True)
class Mutation:
    """`breaks`: what it does to the guard. `within`: how many schedules may be played until it is found."""

    name: str
    breaks: str
    patch: Patch
    within: int = 3_000


def _put(stack: ExitStack, target: object, name: str, value: object) -> Any:
    """Put `value` in the place of an attribute; the original."""
    original = getattr(target, name)
    stack.enter_context(mock.patch.object(target, name, value))
    return original


def _without_rows(stack: ExitStack, *reasons: str) -> None:
    table = verdict.MESSAGE_TABLE
    rest = tuple(row for row in table if row.ruling.reason not in reasons)
    stack.enter_context(mock.patch.dict(verdict._TABLES, {MessageEvidence: rest}))


# --- the bugs -------------------------------------------------------------------------------------


def _epochs_never_differ(stack: ExitStack) -> None:
    def compare(*args: Any) -> Match:
        found: Match = original(*args)
        return Match.EQUAL if found is Match.DIFFERENT else found

    original = _put(stack, epoch, "compare", compare)


def _unproven_messages_pass(stack: ExitStack) -> None:
    _without_rows(stack, "unproven", "unproven_request")


def _late_answers_pass(stack: ExitStack) -> None:
    _without_rows(stack, "late")


def _restarts_are_not_told(stack: ExitStack) -> None:
    def hand_over(session: Session, stream: Stream, successor: Stream) -> None:
        original(session, stream, successor)
        successor.is_mute = False

    original = _put(stack, reissuing, "_hand_over", hand_over)
    _put(stack, reissuing, "can_notify", lambda _session: False)


def _everything_is_sent_again(stack: ExitStack) -> None:
    _put(stack, reissue, "_why_withheld", lambda *_args: None)


def _reissues_are_not_counted(stack: ExitStack) -> None:
    def succeed(*args: Any) -> Stream:
        successor: Stream = original(*args)
        successor.reissues = 0
        return successor

    original = _put(stack, reissuing, "_succeed", succeed)


def _answers_go_to_the_current_generation(stack: ExitStack) -> None:
    def find_asked(session: Session, answer: Any) -> Any:
        question = original(session, answer)
        if question is not None:
            question.generation = session.current
        return question

    original = _put(stack, questions, "find_asked", find_asked)


def _deletes_stop_nothing(stack: ExitStack) -> None:
    _put(stack, ending, "defer_while_deleting", lambda _session, _action: False)


def _replays_skip_an_event(stack: ExitStack) -> None:
    def after(journal: Journal, position: int) -> list[bytes]:
        blocks: list[bytes] = original(journal, position + 1 if position >= 0 else position)
        return blocks

    original = _put(stack, Journal, "after", after)


def _cancelled_calls_are_open(stack: ExitStack) -> None:
    def open_owed(stream: Stream) -> list[Any]:
        return [owed for owed in stream.owed if owed.state is not OwedState.ANSWERED]

    _put(stack, Stream, "open_owed", property(open_owed))


def _nobody_is_asked(stack: ExitStack) -> None:
    _put(stack, resuming, "ask_first", lambda _session, event, then: then(event))


def _nothing_is_recorded_first(stack: ExitStack) -> None:
    def persist(session: Session, record: Any, then: Callable[[], None]) -> None:
        original(session, record, lambda: None)
        then()

    original = _put(stack, Session, "persist", persist)


def _old_sessions_are_left(stack: ExitStack) -> None:
    _put(stack, ending, "end_if_over", lambda _session, _generation: None)


MUTATIONS = (
    Mutation("epochs_never_differ", "another epoch counts as the captured one (G1)", _epochs_never_differ),
    Mutation(
        "unproven_messages_pass", "what proves nothing passes on a resumed leg (G2)", _unproven_messages_pass
    ),
    Mutation("late_answers_pass", "a second answer to the same request is relayed (G3)", _late_answers_pass),
    Mutation("restarts_are_not_told", "a second run follows the first, unsaid (G1)", _restarts_are_not_told),
    Mutation(
        "everything_is_sent_again", "the re-issue policy withholds nothing (G4)", _everything_is_sent_again
    ),
    Mutation(
        "reissues_are_not_counted",
        "a request may be sent again any number of times (G4)",
        _reissues_are_not_counted,
    ),
    Mutation(
        "answers_go_to_the_current_generation",
        "a heal turns answers to other questions (G2)",
        _answers_go_to_the_current_generation,
        within=10_000,
    ),
    Mutation(
        "deletes_stop_nothing", "a heal goes on while a DELETE is under way (R25)", _deletes_stop_nothing
    ),
    Mutation("replays_skip_an_event", "a redelivery begins one event too late (G5)", _replays_skip_an_event),
    Mutation(
        "cancelled_calls_are_open",
        "a cancelled call is sent, and sent again (R29)",
        _cancelled_calls_are_open,
    ),
    Mutation("nobody_is_asked", "a cursor is enough to be given a journal (G9)", _nobody_is_asked),
    Mutation(
        "nothing_is_recorded_first",
        "a POST goes up before its record is durable (R16)",
        _nothing_is_recorded_first,
    ),
    Mutation(
        "old_sessions_are_left",
        "a heal leaves a session that still lives behind (R26)",
        _old_sessions_are_left,
    ),
)
QUICK = ("restarts_are_not_told", "replays_skip_an_event", "nobody_is_asked")


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """The core with this bug in it."""
    (mutation,) = (one for one in MUTATIONS if one.name == name)
    with ExitStack() as stack:
        mutation.patch(stack)
        stack.callback(_forget_rulings)
        _forget_rulings()
        yield


def _forget_rulings() -> None:
    """Rulings are kept by the core: those of another table must not be."""
    evidence._judge.cache_clear()
    verdict.judge.cache_clear()
