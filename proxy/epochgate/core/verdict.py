"""The judge: what the evidence about a resumed stream amounts to.

Four literal tables, one for each question that is asked: a message came, a resume was answered, a
leg broke, a client presented a cursor. Rows are tried from the top and the first that fits decides;
`tests/core/test_verdict.py` shows that no evidence falls through. What follows from an epoch is
decided here and nowhere else. Standard library only: the library for client authors is built on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from epochgate.core.axes import (
    AnswerEvidence,
    Asked,
    Before,
    Break,
    BreakEvidence,
    Claim,
    CursorEvidence,
    Evidence,
    Half,
    IdStep,
    Leg,
    Match,
    MessageEvidence,
    Named,
    Names,
    Owed,
    Poll,
    Position,
    Provable,
    Shape,
    Size,
    Strikes,
    Time,
)
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
    _row(_V.RESTART, "request_id_reset",  _S.SESSION, asked=(Asked.OPEN, Asked.OTHER)),
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

# What is decided outside the tables: a question that can have no answer (R18), a POST that the server
# refused because its session is gone, silence (R22), what can neither be kept nor passed on (R9), what
# cannot be read (W16), and an answer in a batch that must not be relayed (R41).
OUTSIDE: dict[str, Ruling] = {
    "question_void": Ruling(Verdict.RESTART, "question_void", Scope.STREAM),
    "request_id_reset": Ruling(Verdict.RESTART, "request_id_reset", Scope.SESSION),
    "session_gone": Ruling(Verdict.RESTART, "session_gone", Scope.SESSION),
    "upstream_lost": Ruling(Verdict.RESTART, "upstream_lost", Scope.STREAM),
    "not_resumable": Ruling(Verdict.RESTART, "not_resumable", Scope.STREAM),
    "event_too_large": Ruling(Verdict.FAIL, "event_too_large"),
    "content_coding": Ruling(Verdict.FAIL, "content_coding"),
    "upstream_silent": Ruling(Verdict.FAIL, "upstream_silent", Scope.STREAM),
}
# The place where the session was begun is nobody's any more: there is no deadline to wait for.
SERVER_GONE = Ruling(Verdict.RESTART, "upstream_lost", Scope.SESSION)


@cache
def judge(evidence: Evidence) -> Ruling:
    """The ruling of the first row that fits.

    The domain is finite and every row's test is pure, so the answers are kept.
    """
    for row in _TABLES[type(evidence)]:
        if row.fits(evidence):
            return row.ruling
    raise AssertionError(f"no row for {evidence}")


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
