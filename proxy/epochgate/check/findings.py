"""From what was seen of a server to conditions, advice and the exit code; without I/O.

The judges are the proxy's table of verdicts (opaque epochs) and the library for clients (integer epochs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from epochgate.core.axes import (
    AnswerEvidence,
    Asked,
    Before,
    Break,
    BreakEvidence,
    Claim,
    IdStep,
    Leg,
    Match,
    MessageEvidence,
    Named,
    Owed,
    Poll,
    Provable,
    Shape,
    Size,
    Strikes,
    Time,
)
from epochgate.core.enums import Enum
from epochgate.core.verdict import judge


class Reply(Enum):
    """What answered one request of the check."""

    NOT_ASKED = "not asked"
    GONE = "404"
    REFUSED = "400 or 410"
    AUTH = "401 or 403"
    NOT_ALLOWED = "405"
    BUSY = "409, 429, 502, 503 or 504"
    UNREACHABLE = "no answer"
    OTHER = "neither an error nor an event stream"
    QUIET = "200 without a message"
    SERVED = "200 with messages"


class Form(Enum):
    """How the tool call was answered, as far as a resume is concerned."""

    NO_TOOL = "no tool was called"
    JSON = "the call was answered without an event stream"
    NO_IDS = "the events carry no ids"
    IDS = "the events carry ids"


class State(Enum):
    KEPT = "kept"
    BROKEN = "broken"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True)
class Event:
    """One event behind the break: its claim, its epoch and its id, each against what was before."""

    claim: Claim
    epoch: Match
    step: IdStep
    shown: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that the check saw of a server."""

    has_session: bool = True
    is_epoch_stated: bool = False
    form: Form = Form.NO_TOOL
    resume: Reply = Reply.NOT_ASKED
    events: tuple[Event, ...] = ()
    is_first_trusted: bool | None = None  # what the library for clients says of the first event
    unknown_cursor: Reply = Reply.NOT_ASKED
    foreign_cursor: Reply = Reply.NOT_ASKED
    is_foreign_message: bool = False  # the answer to it has a message of the other session
    standalone: Reply = Reply.NOT_ASKED
    second_get: Reply = Reply.NOT_ASKED
    unknown_session: Reply = Reply.NOT_ASKED
    deleted: Reply = Reply.NOT_ASKED  # SERVED: any 2xx
    after_delete: Reply = Reply.NOT_ASKED
    servers: tuple[str, ...] = ()
    pings_lost: int = 0  # of those sent in a session that was alive
    epoch_key: str | None = None  # stated under a name that the settings do not have
    epoch_header: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    number: int
    name: str
    state: State
    seen: str


@dataclass(frozen=True, slots=True)
class Treatment:
    situation: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class Findings:
    conditions: tuple[Condition, ...]
    client: Literal["resume", "restart"]
    treatment: tuple[Treatment, ...]
    settings: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    exit_code: int


NAMES = (
    "the buffer lives exactly as long as the session",
    "event ids are monotonic, and a cursor from before the session is rejected",
    "a resumed handler is rebuilt from durable state, not from defaults",
    "a session epoch can be checked on every resumed event",
)
SOUND, UNSOUND, UNSURE = 0, 1, 2
_IS_SERVED = (Reply.QUIET, Reply.SERVED)
_IS_REJECTED = (Reply.GONE, Reply.REFUSED)
_SHAPES = {
    Reply.GONE: Shape.GONE,
    Reply.REFUSED: Shape.REFUSED,
    Reply.AUTH: Shape.AUTH,
    Reply.NOT_ALLOWED: Shape.NOT_ALLOWED,
    Reply.BUSY: Shape.BUSY,
    Reply.UNREACHABLE: Shape.UNREACHABLE,
    Reply.OTHER: Shape.UNSUITABLE,
    Reply.QUIET: Shape.SSE,
    Reply.SERVED: Shape.SSE,
}
_STATED = frozenset((Match.EQUAL, Match.HEADER_EQUAL))
_Found = tuple[bool, State, str]


def find(seen: Seen) -> Findings:
    """The first line that holds decides each condition; all kept is sound, any broken is unsound."""
    lines = (_buffer(seen), _ids(seen), _handler(seen), _epoch(seen))
    conditions = tuple(
        Condition(number, name, *_first(found))
        for number, (name, found) in enumerate(zip(NAMES, lines, strict=True), start=1)
    )
    states = {condition.state for condition in conditions}
    is_several = len(set(seen.servers)) > 1 or seen.pings_lost > 0
    code = UNSOUND if State.BROKEN in states else UNSURE if is_several or State.UNKNOWN in states else SOUND
    is_safe = code == SOUND and seen.is_first_trusted is not False
    return Findings(
        conditions, "resume" if is_safe else "restart", _treatment(seen), _settings(seen), _notes(seen), code
    )


def _first(lines: tuple[_Found, ...]) -> tuple[State, str]:
    return next((state, text) for holds, state, text in lines if holds)


def _buffer(seen: Seen) -> tuple[_Found, ...]:
    after = seen.after_delete
    return (
        (seen.deleted is not Reply.SERVED, State.UNKNOWN, "the session could not be ended by DELETE"),
        (after is Reply.SERVED, State.BROKEN, "after DELETE a resume was served from the old buffer"),
        (after is Reply.QUIET, State.BROKEN, "after DELETE a resume was answered 200"),
        (after is Reply.NOT_ASKED, State.UNKNOWN, f"nothing to resume: {seen.form.value}"),
        (seen.resume not in _IS_SERVED, State.UNKNOWN, f"the resume was not served ({seen.resume.value})"),
        (after is Reply.GONE, State.KEPT, "after DELETE a resume got 404"),
        (True, State.UNKNOWN, f"after DELETE a resume got {after.value}, not a clean 404"),
    )


def _ids(seen: Seen) -> tuple[_Found, ...]:
    steps = {event.step for event in seen.events}
    unknown, foreign = seen.unknown_cursor, seen.foreign_cursor
    return (
        (seen.is_foreign_message, State.BROKEN, "a later session was served messages of an earlier one"),
        (IdStep.RESET in steps, State.BROKEN, "event ids went back or came twice"),
        (unknown is Reply.SERVED, State.BROKEN, "a cursor that names nothing was served messages"),
        (
            Reply.QUIET in (unknown, foreign),
            State.BROKEN,
            "a cursor that names nothing here was taken: 200, and no message comes",
        ),
        (seen.form is not Form.IDS, State.UNKNOWN, seen.form.value),
        (seen.resume is not Reply.SERVED, State.UNKNOWN, f"no resumed event ({seen.resume.value})"),
        (
            unknown in _IS_REJECTED and foreign in _IS_REJECTED,
            State.KEPT,
            "an unknown cursor and one of an earlier session were refused",
        ),
        (True, State.UNKNOWN, f"unknown cursor: {unknown.value}; earlier session's: {foreign.value}"),
    )


def _handler(seen: Seen) -> tuple[_Found, ...]:
    is_other = any(event.epoch is Match.DIFFERENT for event in seen.events)
    is_proven = bool(seen.events) and all(event.epoch in _STATED for event in seen.events)
    return (
        (is_other, State.BROKEN, "a resumed event was made in another session epoch"),
        (
            seen.unknown_session in _IS_SERVED,
            State.BROKEN,
            "a session id that the server never gave out was served: sessions are made on the spot",
        ),
        (seen.after_delete in _IS_SERVED, State.BROKEN, "the session was made anew after its DELETE"),
        (
            is_proven and seen.unknown_session is Reply.GONE and seen.after_delete is Reply.GONE,
            State.KEPT,
            "resumed events state the captured epoch, and dead session ids get 404",
        ),
        (True, State.UNKNOWN, f"unknown session id: {seen.unknown_session.value}; no proof by epochs"),
    )


def _epoch(seen: Seen) -> tuple[_Found, ...]:
    epochs = {event.epoch for event in seen.events}
    return (
        (Match.DIFFERENT in epochs, State.BROKEN, "a resumed event states another epoch"),
        (seen.resume is not Reply.SERVED, State.UNKNOWN, f"no resumed event ({seen.resume.value})"),
        (not seen.is_epoch_stated, State.BROKEN, "`initialize` stated no epoch, yet resumes are served"),
        (epochs == {Match.EQUAL}, State.KEPT, f"all {len(seen.events)} resumed events state the epoch"),
        (epochs <= _STATED, State.KEPT, "the answer to the resume states the epoch in its header"),
        (True, State.BROKEN, "a resumed event states no epoch of its own"),
    )


def _treatment(seen: Seen) -> tuple[Treatment, ...]:
    said = []
    if seen.form in (Form.IDS, Form.NO_IDS):
        said.append(_rule("the connection breaks", _break(seen)))
    if seen.resume is not Reply.NOT_ASKED:
        said.append(_rule("the answer to a resume", _answer(seen.resume)))
    rulings = [_rule("a resumed event", _message(event)) for event in seen.events]
    said += list(dict.fromkeys(rulings))
    if seen.after_delete is not Reply.NOT_ASKED:
        said.append(_rule("a resume of a dead session", _answer(seen.after_delete)))
    return tuple(said)


def _rule(situation: str, evidence: BreakEvidence | AnswerEvidence | MessageEvidence) -> Treatment:
    ruling = judge(evidence)
    return Treatment(situation, ruling.verdict.value, ruling.reason)


def _break(seen: Seen) -> BreakEvidence:
    provable = {
        (True, True): Provable.EPOCH_AND_ID,
        (True, False): Provable.EPOCH_ONLY,
        (False, True): Provable.ID_ONLY,
        (False, False): Provable.NOTHING,
    }[seen.is_epoch_stated, seen.form is Form.IDS]
    return BreakEvidence(Owed.ANSWER, Break.CUT, provable, Strikes.LEFT, Poll.ACCEPT)


def _answer(reply: Reply) -> AnswerEvidence:
    return AnswerEvidence(_SHAPES[reply], Named.OURS, Match.ABSENT, Time.UP)


def _message(event: Event) -> MessageEvidence:
    asked = Asked.NEW if event.claim is Claim.QUESTION else Asked.NO
    return MessageEvidence(
        Leg.RESUMED, Size.FITS, event.claim, event.epoch, asked, event.step, Before.SOMETHING
    )


def _settings(seen: Seen) -> tuple[tuple[str, str], ...]:
    is_lazy = seen.unknown_session in _IS_SERVED or seen.after_delete in _IS_SERVED
    lines = (
        (seen.epoch_key is not None, f"epoch_keys: {seen.epoch_key}", "the server states an epoch there"),
        (seen.epoch_header is not None, f"epoch_header: {seen.epoch_header}", "an epoch is stated there"),
        (
            not seen.is_epoch_stated and seen.form is Form.IDS,
            "poll_without_epoch: restart",
            "no epoch can prove a polled stream; accept trusts it and marks the answer",
        ),
        (
            is_lazy,
            "unknown_sessions: refuse",
            "the server would make a session for any id, also for one that the proxy lost",
        ),
        (
            seen.form in (Form.JSON, Form.NO_IDS) or not seen.is_epoch_stated,
            "never_reissue: the tools that must not run twice",
            "a broken call cannot be resumed safely: it is sent again or fails",
        ),
        (
            seen.resume is Reply.QUIET,
            "keepalive: below the idle timeout of what stands before it",
            "streams may stay quiet for long",
        ),
    )
    return tuple((setting, why) for holds, setting, why in lines if holds)


def _notes(seen: Seen) -> tuple[str, ...]:
    several = len(set(seen.servers)) > 1
    lines = (
        (
            seen.form is Form.NO_TOOL,
            "no tool declares readOnlyHint: true and needs no arguments; name one that may be called: "
            "--tool NAME --allow-tool",
        ),
        (not seen.has_session, "the server keeps no sessions: it gave no Mcp-Session-Id"),
        (several, f"several servers answer behind this address: {', '.join(sorted(set(seen.servers)))}"),
        (
            seen.pings_lost > 0,
            f"{seen.pings_lost} pings in a live session were not served: several servers may answer here",
        ),
        (seen.second_get is Reply.BUSY, "a second GET beside the first is refused as busy"),
        (seen.second_get in _IS_SERVED, "a second GET beside the first is served too"),
        (seen.standalone is Reply.NOT_ALLOWED, "there is no standalone stream (GET gets 405)"),
    )
    return tuple(text for holds, text in lines if holds)
