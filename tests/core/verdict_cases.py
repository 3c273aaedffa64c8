"""One written-out case for each row of the verdict tables: evidence, and what it must amount to.

The base of each kind of evidence is the harmless one; a case names what is different.
`tests/test_listing.py` fails when a row has no case.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

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
from epochgate.core.verdict import Ruling, Scope, Verdict

RELAY, DROP, WAIT, RETRY = Verdict.RELAY, Verdict.DROP, Verdict.WAIT, Verdict.RETRY
RESTART, FAIL, REFUSE, PASS, END = Verdict.RESTART, Verdict.FAIL, Verdict.REFUSE, Verdict.PASS, Verdict.END
STREAM, SESSION = Scope.STREAM, Scope.SESSION

MESSAGE = MessageEvidence(
    Leg.UNBROKEN, Size.FITS, Claim.PROGRESS, Match.EQUAL, Asked.NO, IdStep.UNJUDGED, Before.SOMETHING
)
RESUMED = replace(MESSAGE, leg=Leg.RESUMED)
POLLED = replace(MESSAGE, leg=Leg.POLLED, epoch=Match.NOT_CAPTURED)
ANSWER = AnswerEvidence(Shape.SSE, Named.OURS, Match.EQUAL, Time.LEFT)
BREAK = BreakEvidence(Owed.ANSWER, Break.CUT, Provable.EPOCH_AND_ID, Strikes.LEFT, Poll.ACCEPT)
CURSOR = CursorEvidence(Names.REQUEST, Position.EARLIER, Half.RUNNING)


@dataclass(frozen=True)
class Case:
    name: str
    evidence: Evidence
    ruling: Ruling


def _case(
    name: str, base: Any, verdict: Verdict, reason: str, scope: Scope = Scope.NONE, **changes: Any
) -> Case:
    return Case(name, replace(base, **changes), Ruling(verdict, reason, scope))


_QUESTION: dict[str, Any] = {"claim": Claim.QUESTION, "asked": Asked.NEW}

MESSAGE_CASES = (
    # a leg that never broke
    _case("an undisturbed message", MESSAGE, RELAY, "unbroken"),
    _case("no epoch was ever stated", MESSAGE, RELAY, "unbroken", epoch=Match.NOT_CAPTURED),
    _case("R3: no epoch on it, unbroken", MESSAGE, RELAY, "unbroken", epoch=Match.ABSENT),
    _case("R3: another epoch on the same leg", MESSAGE, RESTART, "epoch_mismatch", SESSION,
          epoch=Match.DIFFERENT),
    _case("R2: the answer is the first message", MESSAGE, RELAY, "drift", SESSION,
          epoch=Match.DIFFERENT, claim=Claim.ANSWER, before=Before.NOTHING),
    _case("R2: the answer after something", MESSAGE, RESTART, "epoch_mismatch", SESSION,
          epoch=Match.DIFFERENT, claim=Claim.ANSWER),
    _case("R2: a first message that is no answer", MESSAGE, RESTART, "epoch_mismatch", SESSION,
          epoch=Match.DIFFERENT, before=Before.NOTHING),
    _case("R9: streamed through", MESSAGE, RELAY, "unbroken", size=Size.TOO_LARGE),
    _case("R30: a stamp of another request", MESSAGE, RELAY, "unbroken", claim=Claim.ELSEWHERE_PROGRESS),
    _case("R30: a response on another stream", MESSAGE, DROP, "foreign", claim=Claim.ELSEWHERE_ANSWER),
    _case("R30: a response nobody asked for", MESSAGE, DROP, "foreign", claim=Claim.UNKNOWN_ANSWER),
    _case("R30: progress of nothing", MESSAGE, DROP, "foreign", claim=Claim.UNKNOWN_PROGRESS),
    _case("R30: an error without id", MESSAGE, RELAY, "unbroken", claim=Claim.IDLESS_ERROR),
    _case("what is no JSON-RPC passes", MESSAGE, RELAY, "unbroken", claim=Claim.UNREADABLE),
    _case("answered already", MESSAGE, DROP, "late", claim=Claim.LATE),
    _case("R19: a question", MESSAGE, RELAY, "unbroken", **_QUESTION),
    _case("R19: asked again while open", MESSAGE, RESTART, "request_id_reset", SESSION,
          claim=Claim.QUESTION, asked=Asked.OPEN),
    # a resumed leg
    _case("the resume is proven", RESUMED, RELAY, "epoch_match"),
    _case("the id follows the last", RESUMED, RELAY, "epoch_match", step=IdStep.NEXT),
    _case("a poll of a server with epochs", POLLED, RELAY, "epoch_match", epoch=Match.EQUAL),
    _case("R7: the header's epoch does for a stamped message", RESUMED, RELAY, "epoch_match",
          epoch=Match.HEADER_EQUAL),
    _case("R9: too large to be judged first", RESUMED, RESTART, "event_too_large", STREAM,
          size=Size.TOO_LARGE),
    _case("another epoch", RESUMED, RESTART, "epoch_mismatch", SESSION, epoch=Match.DIFFERENT),
    _case("another epoch on a later answer", RESUMED, RESTART, "epoch_mismatch", SESSION,
          epoch=Match.DIFFERENT, claim=Claim.ANSWER, before=Before.NOTHING),
    _case("none was captured", RESUMED, RESTART, "no_epoch_captured", STREAM, epoch=Match.NOT_CAPTURED),
    _case("none is stated", RESUMED, RESTART, "no_epoch_on_event", STREAM, epoch=Match.ABSENT),
    _case("none on the answer", RESUMED, RESTART, "no_epoch_on_event", STREAM,
          epoch=Match.ABSENT, claim=Claim.ANSWER),
    _case("another epoch weighs more than the id", RESUMED, RESTART, "epoch_mismatch", SESSION,
          epoch=Match.DIFFERENT, step=IdStep.GAP),
    _case("a stranger's message weighs more than the epoch", RESUMED, RESTART, "foreign_message", STREAM,
          epoch=Match.DIFFERENT, claim=Claim.UNKNOWN_ANSWER),
    _case("no stamp of this generation", RESUMED, RESTART, "foreign_message", STREAM,
          claim=Claim.UNKNOWN_PROGRESS),
    _case("the stamp of another stream", RESUMED, RESTART, "foreign_message", STREAM,
          claim=Claim.ELSEWHERE_PROGRESS),
    _case("an error without id", RESUMED, DROP, "unproven", claim=Claim.IDLESS_ERROR),
    _case("nothing readable", RESUMED, DROP, "unproven", claim=Claim.UNREADABLE),
    _case("R6: a log that states the epoch", RESUMED, RELAY, "epoch_match", claim=Claim.PLAIN),
    _case("R6: a log that states none", RESUMED, DROP, "unproven", claim=Claim.PLAIN, epoch=Match.ABSENT),
    _case("R7: a log under the header's epoch", RESUMED, DROP, "unproven",
          claim=Claim.PLAIN, epoch=Match.HEADER_EQUAL),
    _case("R6: a question that states the epoch", RESUMED, RELAY, "epoch_match", **_QUESTION),
    _case("R6: a question that states none", RESUMED, RESTART, "unproven_request", STREAM,
          epoch=Match.ABSENT, **_QUESTION),
    _case("R6: a question in a poll", POLLED, RESTART, "unproven_request", STREAM, **_QUESTION),
    _case("R6: a ping proves nothing and asks nothing", RESUMED, RELAY, "epoch_match",
          claim=Claim.PING, asked=Asked.NEW, epoch=Match.ABSENT),
    _case("R6: a question seen before", RESUMED, DROP, "duplicate", claim=Claim.QUESTION, asked=Asked.SEEN),
    _case("R6: a replayed open question", RESUMED, DROP, "duplicate", claim=Claim.QUESTION, asked=Asked.OPEN),
    _case("R19: another question under an open id", RESUMED, RESTART, "request_id_reset", SESSION,
          claim=Claim.QUESTION, asked=Asked.OTHER),
    _case("R31: the last event again", RESUMED, DROP, "duplicate", step=IdStep.SAME),
    _case("R31: a hole", RESUMED, RESTART, "event_id_gap", STREAM, step=IdStep.GAP),
    _case("R31: a step back", RESUMED, RESTART, "event_id_reset", SESSION, step=IdStep.RESET),
    _case("R4: an accepted poll", POLLED, RELAY, "server_poll"),
    _case("R4: a log in a poll", POLLED, DROP, "unproven", claim=Claim.PLAIN),
)  # fmt: skip

ANSWER_CASES = (
    _case("headers right, no message yet", ANSWER, WAIT, "no_message_yet"),
    _case("no epoch in the header", ANSWER, WAIT, "no_message_yet", epoch=Match.ABSENT),
    _case("credentials come first", ANSWER, PASS, "unauthorized", shape=Shape.AUTH, named=Named.OTHER),
    _case("404", ANSWER, RESTART, "session_gone", SESSION, shape=Shape.GONE),
    _case("R23: 503 with time left", ANSWER, RETRY, "busy", shape=Shape.BUSY),
    _case("R23: 503 at the deadline", ANSWER, RESTART, "not_resumable", STREAM,
          shape=Shape.BUSY, time=Time.UP),
    _case("R23: refused with time left", ANSWER, RETRY, "unreachable", shape=Shape.UNREACHABLE),
    _case("R23: refused at the deadline", ANSWER, RESTART, "upstream_lost", STREAM,
          shape=Shape.UNREACHABLE, time=Time.UP),
    _case("400", ANSWER, RESTART, "cursor_unknown", STREAM, shape=Shape.REFUSED),
    _case("405", ANSWER, RESTART, "not_resumable", STREAM, shape=Shape.NOT_ALLOWED),
    _case("2xx that is no SSE, 3xx", ANSWER, RESTART, "not_resumable", STREAM, shape=Shape.UNSUITABLE),
    _case("another session id", ANSWER, RESTART, "session_replaced", SESSION, named=Named.OTHER),
    _case("another session id on a non-2xx is ignored", ANSWER, RETRY, "busy",
          shape=Shape.BUSY, named=Named.OTHER),
    _case("another epoch in the header", ANSWER, RESTART, "epoch_mismatch", SESSION, epoch=Match.DIFFERENT),
)  # fmt: skip

BREAK_CASES = (
    _case("epoch and id", BREAK, RETRY, "resume"),
    _case("R25: after DELETE", BREAK, END, "session_ended", owed=Owed.SESSION_ENDED),
    _case("after the last answer", BREAK, END, "nothing_owed", owed=Owed.NOTHING),
    _case("R29: after a cancel", BREAK, END, "nothing_owed", owed=Owed.CANCELLED),
    _case("R9: inside an event", BREAK, FAIL, "event_too_large", STREAM, how=Break.INSIDE_EVENT),
    _case("R23: the third without a message", BREAK, RESTART, "not_resumable", STREAM,
          strikes=Strikes.SPENT),
    _case("R23: and none carried any event", BREAK, RESTART, "empty_resume", STREAM,
          strikes=Strikes.SPENT_EMPTY),
    _case("the stream never gave an id", BREAK, RESTART, "no_upstream_id", STREAM,
          provable=Provable.EPOCH_ONLY),
    _case("no epoch was captured", BREAK, RESTART, "no_epoch_captured", STREAM, provable=Provable.ID_ONLY),
    _case("neither epoch nor id", BREAK, RESTART, "no_epoch_captured", STREAM, provable=Provable.NOTHING),
    _case("R4: a poll, epochs known", BREAK, WAIT, "server_poll", how=Break.ANNOUNCED),
    _case("R4: a poll, epochs known, setting restart", BREAK, WAIT, "server_poll",
          how=Break.ANNOUNCED, poll=Poll.RESTART),
    _case("R4: a poll without epochs", BREAK, WAIT, "server_poll",
          how=Break.ANNOUNCED, provable=Provable.ID_ONLY),
    _case("R4: a poll without epochs, setting restart", BREAK, RESTART, "poll_unproven", STREAM,
          how=Break.ANNOUNCED, provable=Provable.ID_ONLY, poll=Poll.RESTART),
    _case("R4: a poll that cannot be rejoined", BREAK, RESTART, "poll_unproven", STREAM,
          how=Break.ANNOUNCED, provable=Provable.NOTHING),
)  # fmt: skip

CURSOR_CASES = (
    _case("a running stream", CURSOR, RELAY, "journal"),
    _case("a finished one, not at its end", CURSOR, RELAY, "journal", half=Half.FINISHED),
    _case("the end of a running one", CURSOR, RELAY, "journal", position=Position.LAST),
    _case("R15: no block of this session", CURSOR, REFUSE, "cursor_unknown", names=Names.NOTHING),
    _case("R13: a tombstone", CURSOR, FAIL, "expired", names=Names.TOMBSTONE, half=Half.FINISHED),
    _case("R13: what follows was evicted", CURSOR, FAIL, "expired", position=Position.EVICTED),
    _case("R14: the last event of a finished stream", CURSOR, END, "finished",
          position=Position.LAST, half=Half.FINISHED),
    _case("R11: a restarted stream", CURSOR, RELAY, "superseded", half=Half.SUPERSEDED),
    _case("R11: its last event", CURSOR, RELAY, "superseded",
          position=Position.LAST, half=Half.SUPERSEDED),
    _case("R16: beyond the durable tail", CURSOR, RELAY, "superseded", STREAM, position=Position.BEYOND),
    _case("R13: the standalone stream always", CURSOR, RELAY, "journal",
          names=Names.STANDALONE, position=Position.EVICTED, half=Half.FINISHED),
)  # fmt: skip

CASES = (*MESSAGE_CASES, *ANSWER_CASES, *BREAK_CASES, *CURSOR_CASES)
