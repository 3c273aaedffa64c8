"""The judge: what the evidence about a resumed stream amounts to.

Four literal tables, one for each question that is asked: a message came, a resume was answered, a
leg broke, a client presented a cursor. Rows are tried from the top and the first that fits decides;
`tests/core/test_verdict.py` shows that no evidence falls through. Epochs are compared here and
nowhere else. Standard library only: the library for client authors is built on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from epochgate.core.enums import Enum


class Verdict(Enum):
    """What to do with a message, an answer, a broken leg or a cursor."""

    RELAY = "relay"
    DROP = "drop"
    WAIT = "wait"
    RETRY = "retry"
    RESTART = "restart"
    FAIL = "fail"
    REFUSE = "refuse"
    PASS = "pass"
    END = "end"


class Scope(Enum):
    """What a restart is about (R21): SESSION heals, STREAM heals only to re-issue."""

    NONE = "-"
    STREAM = "stream"
    SESSION = "session"


class Leg(Enum):
    """How the upstream leg of a message came to be."""

    UNBROKEN = "unbroken"
    RESUMED = "resumed"
    POLLED = "polled"  # rejoined after an announced close (R4)


class Match(Enum):
    """How the epoch stated by a message or a header compares with the one captured (R7, R8)."""

    NOT_CAPTURED = "not_captured"
    EQUAL = "equal"
    HEADER_EQUAL = "header_equal"  # the leg's header only; proves one moment (R7)
    ABSENT = "absent"
    DIFFERENT = "different"


class Size(Enum):
    FITS = "fits"
    TOO_LARGE = "too_large"


class Claim(Enum):
    """What a message claims to be, as its stamp shows (R30, R36)."""

    ANSWER = "answer"
    PROGRESS = "progress"
    ELSEWHERE_ANSWER = "elsewhere_answer"  # the stamp of another request of this generation
    ELSEWHERE_PROGRESS = "elsewhere_progress"
    UNKNOWN_ANSWER = "unknown_answer"  # fits no stamp of this generation
    UNKNOWN_PROGRESS = "unknown_progress"
    LATE = "late"  # its request is answered already
    PLAIN = "plain"  # a notification that carries no stamp
    PING = "ping"
    QUESTION = "question"  # a request of the server
    IDLESS_ERROR = "idless_error"
    UNREADABLE = "unreadable"


class Asked(Enum):
    """A server request's id against those seen in its generation (R6, R19)."""

    NO = "no"  # the message is no server request
    NEW = "new"
    SEEN = "seen"
    OPEN = "open"


class IdStep(Enum):
    """An event id against the last one, where the stream's ids are comparable (R31)."""

    UNJUDGED = "unjudged"
    NEXT = "next"
    SAME = "same"  # seen before with the same bytes
    GAP = "gap"
    RESET = "reset"  # lower, or seen before with other bytes


class Before(Enum):
    """What of the stream was relayed before this message (R2)."""

    NOTHING = "nothing"
    SOMETHING = "something"


class Shape(Enum):
    """What answered a resume or a poll."""

    SSE = "sse"
    GONE = "gone"  # the session classifier says so (W5)
    AUTH = "auth"  # 401, 403
    REFUSED = "refused"  # 400
    NOT_ALLOWED = "not_allowed"  # 405
    BUSY = "busy"  # 409, 429, 502-504
    UNREACHABLE = "unreachable"  # refused, cut or silent before its headers
    UNSUITABLE = "unsuitable"  # anything else


class Named(Enum):
    """The session id on an answer."""

    OURS = "ours"  # or none: its absence proves nothing
    OTHER = "other"


class Time(Enum):
    LEFT = "left"
    UP = "up"


class Owed(Enum):
    ANSWER = "answer"
    NOTHING = "nothing"
    CANCELLED = "cancelled"
    SESSION_ENDED = "session_ended"


class Break(Enum):
    """How an upstream leg broke."""

    ANNOUNCED = "announced"  # a clean end after `retry:` (R4)
    CUT = "cut"  # a reset, a truncation, or a clean end that was not announced
    INSIDE_EVENT = "inside_event"  # within an event that was streamed through (R9)


class Provable(Enum):
    """What a resume could be proven with."""

    EPOCH_AND_ID = "epoch_and_id"
    EPOCH_ONLY = "epoch_only"
    ID_ONLY = "id_only"
    NOTHING = "nothing"


class Strikes(Enum):
    """Resumes in a row that brought no new message (R23)."""

    LEFT = "left"
    SPENT = "spent"
    SPENT_EMPTY = "spent_empty"  # and none carried any event


class Poll(Enum):
    """`poll_without_epoch`; RESTART too when stamps are off (R4, R36)."""

    ACCEPT = "accept"
    RESTART = "restart"


class Names(Enum):
    """What a client's cursor names."""

    NOTHING = "nothing"
    TOMBSTONE = "tombstone"
    REQUEST = "request"
    STANDALONE = "standalone"


class Position(Enum):
    EARLIER = "earlier"
    LAST = "last"
    BEYOND = "beyond"  # past the durable tail of its block (R16)
    EVICTED = "evicted"  # what follows it is no longer kept


class Half(Enum):
    """The named stream itself."""

    RUNNING = "running"
    FINISHED = "finished"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class MessageEvidence:
    """A message that came on an upstream leg."""

    leg: Leg
    size: Size
    claim: Claim
    epoch: Match
    asked: Asked
    step: IdStep
    before: Before


@dataclass(frozen=True, slots=True)
class AnswerEvidence:
    """The answer to a resume or poll; `epoch` compares its header."""

    shape: Shape
    named: Named
    epoch: Match
    time: Time


@dataclass(frozen=True, slots=True)
class BreakEvidence:
    """An upstream leg that ended."""

    owed: Owed
    how: Break
    provable: Provable
    strikes: Strikes
    poll: Poll


@dataclass(frozen=True, slots=True)
class CursorEvidence:
    """A cursor that a client presented."""

    names: Names
    position: Position
    half: Half


Evidence = MessageEvidence | AnswerEvidence | BreakEvidence | CursorEvidence


@dataclass(frozen=True, slots=True)
class Ruling:
    verdict: Verdict
    reason: str
    scope: Scope = Scope.NONE


@dataclass(frozen=True, slots=True)
class Row:
    """Fits evidence whose every named axis has one of the listed values."""

    when: Mapping[str, tuple[Enum, ...]]
    ruling: Ruling

    def fits(self, evidence: Evidence) -> bool:
        return all(getattr(evidence, axis) in values for axis, values in self.when.items())


def _row(verdict: Verdict, reason: str, scope: Scope = Scope.NONE, **when: Enum | tuple[Enum, ...]) -> Row:
    axes = {axis: value if isinstance(value, tuple) else (value,) for axis, value in when.items()}
    return Row(axes, Ruling(verdict, reason, scope))


_AGAIN = (Leg.RESUMED, Leg.POLLED)
_STAMPED = (Claim.ANSWER, Claim.PROGRESS)
_V, _S = Verdict, Scope

# fmt: off
MESSAGE_TABLE: tuple[Row, ...] = (
    # size (R9)
    _row(_V.RELAY,   "unbroken",          leg=Leg.UNBROKEN, size=Size.TOO_LARGE),
    _row(_V.RESTART, "event_too_large",   _S.STREAM, size=Size.TOO_LARGE),
    # stamp (R6, R30)
    _row(_V.DROP,    "late",              claim=Claim.LATE),
    _row(_V.DROP,    "foreign",           leg=Leg.UNBROKEN,
         claim=(Claim.UNKNOWN_ANSWER, Claim.UNKNOWN_PROGRESS, Claim.ELSEWHERE_ANSWER)),
    _row(_V.RESTART, "foreign_message",   _S.STREAM, leg=_AGAIN,
         claim=(Claim.UNKNOWN_ANSWER, Claim.UNKNOWN_PROGRESS, Claim.ELSEWHERE_ANSWER,
                Claim.ELSEWHERE_PROGRESS)),
    _row(_V.DROP,    "unproven",          leg=_AGAIN, claim=(Claim.IDLESS_ERROR, Claim.UNREADABLE)),
    # epoch (R1, R2, R3, R6, R7)
    _row(_V.RELAY,   "drift",             _S.SESSION, leg=Leg.UNBROKEN, epoch=Match.DIFFERENT,
         claim=Claim.ANSWER, before=Before.NOTHING),
    _row(_V.RESTART, "epoch_mismatch",    _S.SESSION, epoch=Match.DIFFERENT),
    _row(_V.RESTART, "no_epoch_captured", _S.STREAM, leg=Leg.RESUMED, epoch=Match.NOT_CAPTURED),
    _row(_V.DROP,    "unproven",          leg=_AGAIN, claim=Claim.PLAIN,
         epoch=(Match.ABSENT, Match.HEADER_EQUAL, Match.NOT_CAPTURED)),
    _row(_V.RESTART, "unproven_request",  _S.STREAM, leg=_AGAIN, claim=Claim.QUESTION,
         epoch=(Match.ABSENT, Match.HEADER_EQUAL, Match.NOT_CAPTURED)),
    _row(_V.RESTART, "no_epoch_on_event", _S.STREAM, leg=_AGAIN, claim=_STAMPED, epoch=Match.ABSENT),
    # server request id (R6, R19)
    _row(_V.DROP,    "duplicate",         leg=_AGAIN, asked=(Asked.SEEN, Asked.OPEN)),
    _row(_V.RESTART, "request_id_reset",  _S.SESSION, asked=Asked.OPEN),
    # event id (R31)
    _row(_V.DROP,    "duplicate",         leg=_AGAIN, step=IdStep.SAME),
    _row(_V.RESTART, "event_id_reset",    _S.SESSION, leg=_AGAIN, step=IdStep.RESET),
    _row(_V.RESTART, "event_id_gap",      _S.STREAM, leg=_AGAIN, step=IdStep.GAP),
    # accepted
    _row(_V.RELAY,   "unbroken",          leg=Leg.UNBROKEN),
    _row(_V.RELAY,   "server_poll",       leg=Leg.POLLED, epoch=Match.NOT_CAPTURED),
    _row(_V.RELAY,   "epoch_match",       leg=_AGAIN),
)

ANSWER_TABLE: tuple[Row, ...] = (
    _row(_V.PASS,    "unauthorized",      shape=Shape.AUTH),
    _row(_V.RESTART, "session_gone",      _S.SESSION, shape=Shape.GONE),
    _row(_V.RETRY,   "busy",              shape=Shape.BUSY, time=Time.LEFT),
    _row(_V.RESTART, "not_resumable",     _S.STREAM, shape=Shape.BUSY),
    _row(_V.RETRY,   "unreachable",       shape=Shape.UNREACHABLE, time=Time.LEFT),
    _row(_V.RESTART, "upstream_lost",     _S.STREAM, shape=Shape.UNREACHABLE),
    _row(_V.RESTART, "cursor_unknown",    _S.STREAM, shape=Shape.REFUSED),
    _row(_V.RESTART, "not_resumable",     _S.STREAM, shape=(Shape.NOT_ALLOWED, Shape.UNSUITABLE)),
    _row(_V.RESTART, "session_replaced",  _S.SESSION, named=Named.OTHER),
    _row(_V.RESTART, "epoch_mismatch",    _S.SESSION, epoch=Match.DIFFERENT),
    _row(_V.WAIT,    "no_message_yet"),
)

BREAK_TABLE: tuple[Row, ...] = (
    _row(_V.END,     "session_ended",     owed=Owed.SESSION_ENDED),
    _row(_V.END,     "nothing_owed",      owed=(Owed.NOTHING, Owed.CANCELLED)),
    _row(_V.FAIL,    "event_too_large",   _S.STREAM, how=Break.INSIDE_EVENT),
    _row(_V.RESTART, "empty_resume",      _S.STREAM, strikes=Strikes.SPENT_EMPTY),
    _row(_V.RESTART, "not_resumable",     _S.STREAM, strikes=Strikes.SPENT),
    _row(_V.WAIT,    "server_poll",       how=Break.ANNOUNCED, provable=Provable.EPOCH_AND_ID),
    _row(_V.RESTART, "no_upstream_id",    _S.STREAM, provable=Provable.EPOCH_ONLY),
    _row(_V.WAIT,    "server_poll",       how=Break.ANNOUNCED, provable=Provable.ID_ONLY, poll=Poll.ACCEPT),
    _row(_V.RESTART, "poll_unproven",     _S.STREAM, how=Break.ANNOUNCED,
         provable=(Provable.ID_ONLY, Provable.NOTHING)),
    _row(_V.RETRY,   "resume",            provable=Provable.EPOCH_AND_ID),
    _row(_V.RESTART, "no_epoch_captured", _S.STREAM),
)

CURSOR_TABLE: tuple[Row, ...] = (
    _row(_V.REFUSE,  "cursor_unknown",    names=Names.NOTHING),
    _row(_V.FAIL,    "expired",           names=Names.TOMBSTONE),
    _row(_V.RELAY,   "superseded",        half=Half.SUPERSEDED),
    _row(_V.RELAY,   "superseded",        _S.STREAM, names=Names.REQUEST, position=Position.BEYOND),
    _row(_V.RELAY,   "journal",           names=Names.STANDALONE),
    _row(_V.FAIL,    "expired",           position=Position.EVICTED),
    _row(_V.END,     "finished",          position=Position.LAST, half=Half.FINISHED),
    _row(_V.RELAY,   "journal"),
)
# fmt: on

_TABLES: dict[type, tuple[Row, ...]] = {
    MessageEvidence: MESSAGE_TABLE,
    AnswerEvidence: ANSWER_TABLE,
    BreakEvidence: BREAK_TABLE,
    CursorEvidence: CURSOR_TABLE,
}

# Restarts that are decided outside the tables: a question that can have no answer (R18), a POST that
# the server refused because its session is gone, and silence (R22).
OUTSIDE: dict[str, Ruling] = {
    "question_void": Ruling(Verdict.RESTART, "question_void", Scope.STREAM),
    "request_id_reset": Ruling(Verdict.RESTART, "request_id_reset", Scope.SESSION),
    "session_gone": Ruling(Verdict.RESTART, "session_gone", Scope.SESSION),
    "upstream_lost": Ruling(Verdict.RESTART, "upstream_lost", Scope.STREAM),
    "upstream_silent": Ruling(Verdict.FAIL, "upstream_silent", Scope.STREAM),
}


@cache
def judge(evidence: Evidence) -> Ruling:
    """The ruling of the first row that fits.

    The domain is finite and every row's test is pure, so the answers are kept.
    """
    for row in _TABLES[type(evidence)]:
        if row.fits(evidence):
            return row.ruling
    raise AssertionError(f"no row for {evidence}")


def axes(evidence_type: type[Any]) -> dict[str, type[Enum]]:
    """The axes of one kind of evidence and their enumerations, for tests and generated tables."""
    kinds = {kind.__name__: kind for kind in Enum.__subclasses__()}
    return {field.name: kinds[str(field.type)] for field in fields(evidence_type)}


def _resume_labels() -> frozenset[tuple[str, str, str, str]]:
    """What `epochgate_resumes_total` can say: leg, stream, verdict, reason."""
    counted = (Verdict.RESTART, Verdict.FAIL, Verdict.PASS)
    labels = {
        ("upstream", stream, row.ruling.verdict.value, row.ruling.reason)
        for table in (MESSAGE_TABLE, ANSWER_TABLE, BREAK_TABLE)
        for row in table
        for stream in ("request", "standalone")
        if row.ruling.verdict in counted
    }
    for stream in ("request", "standalone"):
        labels |= {("upstream", stream, "resume", reason) for reason in ("epoch_match", "server_poll")}
        labels |= {("upstream", stream, r.verdict.value, r.reason) for r in OUTSIDE.values()}
        for row in CURSOR_TABLE:
            verdict = "resume" if row.ruling.verdict is Verdict.RELAY else row.ruling.verdict.value
            labels.add(("client", stream, verdict, row.ruling.reason))
    return frozenset(labels)


RESUME_LABELS = _resume_labels()
