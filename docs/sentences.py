"""What the generated pages say in words: one entry for each value, reason and state of the tables.

`generate.py` puts them beside the tables; a test says which are missing or left over.
"""

from __future__ import annotations

from enum import Enum

from epochgate.core.axes import (
    AnswerEvidence,
    Asked,
    Before,
    Break,
    BreakEvidence,
    Claim,
    CursorEvidence,
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
from epochgate.core.states import ClientHalf, SessionState, Up

# What each axis of the evidence is about.
AXES: dict[type, dict[str, str]] = {
    MessageEvidence: {
        "leg": "connection",
        "size": "size",
        "claim": "message",
        "epoch": "epoch",
        "asked": "id of a server's request",
        "step": "event id",
        "before": "relayed before it",
    },
    AnswerEvidence: {
        "shape": "answer",
        "named": "session id",
        "epoch": "epoch in its header",
        "time": "time until the deadline",
    },
    BreakEvidence: {
        "owed": "owed",
        "how": "end",
        "provable": "at hand for a proof",
        "strikes": "resumes without a message",
        "poll": "`poll_without_epoch`",
    },
    CursorEvidence: {"names": "names", "position": "position", "half": "that stream"},
}

# fmt: off
VALUES: dict[Enum, str] = {
    Leg.UNBROKEN: "never broke",
    Leg.RESUMED: "resumed",
    Leg.POLLED: "rejoined after an announced close",
    Size.FITS: "within `max_event_bytes`",
    Size.TOO_LARGE: "above `max_event_bytes`",
    Claim.ANSWER: "an answer to this stream's request",
    Claim.PROGRESS: "progress of this stream's request",
    Claim.ELSEWHERE_ANSWER: "an answer to another stream's request",
    Claim.ELSEWHERE_PROGRESS: "progress of another stream's request",
    Claim.UNKNOWN_ANSWER: "an answer under an unknown stamp",
    Claim.UNKNOWN_PROGRESS: "progress under an unknown stamp",
    Claim.LATE: "about a request that is answered already",
    Claim.PLAIN: "a notification without a stamp",
    Claim.PING: "a ping of the server",
    Claim.QUESTION: "a request of the server",
    Claim.IDLESS_ERROR: "an error without an id",
    Claim.UNREADABLE: "not readable",
    Match.NOT_CAPTURED: "none was stated at `initialize`",
    Match.EQUAL: "the same",
    Match.HEADER_EQUAL: "the same, in a header only",
    Match.ABSENT: "not stated",
    Match.DIFFERENT: "another",
    Asked.NO: "it is no request of the server",
    Asked.NEW: "new",
    Asked.SEEN: "seen before",
    Asked.OPEN: "that of an open request",
    Asked.OTHER: "that of another, open request",
    IdStep.UNJUDGED: "not comparable",
    IdStep.NEXT: "the next one",
    IdStep.SAME: "seen before with the same data",
    IdStep.GAP: "not the next one",
    IdStep.RESET: "lower, or seen before with other data",
    Before.NOTHING: "nothing",
    Before.SOMETHING: "something",
    Shape.SSE: "an event stream",
    Shape.GONE: "the session is gone",
    Shape.AUTH: "401 or 403",
    Shape.REFUSED: "400",
    Shape.NOT_ALLOWED: "405",
    Shape.BUSY: "409, 429, 502, 503 or 504",
    Shape.UNREACHABLE: "none: refused, cut, or silent",
    Shape.UNSUITABLE: "anything else",
    Named.OURS: "ours, or none",
    Named.OTHER: "another",
    Time.LEFT: "left",
    Time.UP: "up",
    Owed.ANSWER: "an answer",
    Owed.NOTHING: "nothing",
    Owed.CANCELLED: "nothing but what was cancelled",
    Owed.SESSION_ENDED: "nothing, the session was ended",
    Break.ANNOUNCED: "clean, announced by `retry:`",
    Break.CUT: "any other",
    Break.INSIDE_EVENT: "within an event that was passed on",
    Provable.EPOCH_AND_ID: "an epoch and an event id",
    Provable.EPOCH_ONLY: "an epoch, no event id",
    Provable.ID_ONLY: "an event id, no epoch",
    Provable.NOTHING: "neither epoch nor event id",
    Strikes.LEFT: "fewer than `max_resumes_without_message`",
    Strikes.SPENT: "used up",
    Strikes.SPENT_EMPTY: "used up, and none carried any event",
    Poll.ACCEPT: "`accept`",
    Poll.RESTART: "`restart`, or stamps are off",
    Names.NOTHING: "nothing of this session",
    Names.TOMBSTONE: "a stream of which only its debts are kept",
    Names.REQUEST: "a request's stream",
    Names.STANDALONE: "the standalone stream",
    Position.EARLIER: "before the last event",
    Position.LAST: "the last event",
    Position.BEYOND: "behind the last event",
    Position.EVICTED: "what follows is no longer kept",
    Half.RUNNING: "goes on",
    Half.FINISHED: "is finished",
    Half.SUPERSEDED: "was restarted",
}

# By verdict and reason; `resume` is what a relay is counted as.
REASONS: dict[tuple[str, str], str] = {
    ("relay", "unbroken"): "the connection never broke, and the message states no other epoch",
    ("relay", "drift"): "on a connection that never broke, the first message of a stream is its answer and "
        "states another epoch: the session was made anew between two calls; a new generation begins",
    ("relay", "epoch_match"): "after a break: the epoch is the one stated at `initialize`, and the event ids "
        "go on or cannot be compared",
    ("relay", "server_poll"): "the server announced the close, states no epochs, and the stamps fit; the "
        "answer is marked as unproven (`poll_without_epoch: accept`)",
    ("restart", "epoch_mismatch"): "a message, a header or the answer to a ping states another epoch",
    ("restart", "no_epoch_captured"): "the connection broke, and the server stated no epoch at `initialize`",
    ("restart", "no_epoch_on_event"): "after a break: an answer or progress states no epoch, though one was "
        "stated at `initialize`",
    ("restart", "no_upstream_id"): "the connection broke before the stream had an event id of the server, "
        "or its request carries no stamp",
    ("restart", "event_id_gap"): "after a break: ids that stepped by one leave one out",
    ("restart", "event_id_reset"): "after a break: an event id is lower than the last, or was seen with "
        "other data",
    ("restart", "foreign_message"): "after a break: an answer or progress without a stamp of this stream",
    ("restart", "unproven_request"): "after a break: a request of the server does not itself state the epoch",
    ("restart", "request_id_reset"): "the server asks under the id of a question that is still open: it lost "
        "count, so the session was made anew; both streams that asked are restarted",
    ("restart", "question_void"): "the client's answer to a question of the server can reach nobody any more "
        "(scope session where the server says that the session is gone)",
    ("restart", "event_too_large"): "after a break: an event above `max_event_bytes`",
    ("restart", "session_gone"): "404 (other than \"method not found\"), or 400 or 410 with an error that "
        "matches `gone_pattern`, to a request that named the session; to a plain GET only 404, or if a ping "
        "finds the session gone",
    ("restart", "session_replaced"): "an answer names another `Mcp-Session-Id`",
    ("restart", "cursor_unknown"): "a resume was answered 400",
    ("restart", "not_resumable"): "a resume was answered by 405 or by no event stream, or by 409, 429, "
        "502, 503 or 504 until `resume_deadline`; or too many resumes brought no message; or an answer came "
        "in one batch with a message that must not be relayed",
    ("restart", "empty_resume"): "`max_resumes_without_message` resumes in a row brought no event at all",
    ("restart", "upstream_lost"): "the server could not be reached until `resume_deadline`",
    ("restart", "poll_unproven"): "the server announced the close and states no epochs, and "
        "`poll_without_epoch: restart` (or it gave no event id, or stamps are off)",
    ("fail", "event_too_large"): "an event above `max_event_bytes` cannot be passed on, or it, or a JSON "
        "answer above `max_json_buffer`, broke while it was passed on",
    ("fail", "content_coding"): "an answer came in a content coding that the proxy cannot read",
    ("fail", "upstream_silent"): "an answer is owed and the server was silent for `max_silence`",
    ("fail", "expired"): "what the client's cursor names is no longer kept: 200, and error -32050 for each "
        "request it is owed",
    ("pass", "unauthorized"): "a resume was answered 401 or 403: never a heal; the request gets -32050",
    ("relay", "journal"): "the client's cursor: what follows it is redelivered, then the stream goes on",
    ("relay", "superseded"): "the client's cursor is of a stream that was restarted: its successor is played "
        "from the start",
    ("end", "finished"): "the client's cursor is that of a finished stream's last event: 405",
    ("refuse", "cursor_unknown"): "the client's cursor names nothing of this session: 400",
    ("drop", "late"): "it is about a request that is answered already",
    ("drop", "foreign"): "on a connection that never broke: an unknown stamp, or another stream's answer",
    ("drop", "unproven"): "after a break: a notification does not itself state the epoch, an error has no "
        "id, or the message cannot be read",
    ("drop", "duplicate"): "after a break: the same event, or the same request of the server, again",
    ("retry", "busy"): "a resume was answered 409, 429, 502, 503 or 504: again, until `resume_deadline`",
    ("retry", "unreachable"): "a resume was not answered: again, until `resume_deadline`",
    ("retry", "resume"): "the connection broke and a resume can be proven: it is tried",
    ("wait", "server_poll"): "the server announced the close: resume when it said",
    ("wait", "no_message_yet"): "the resume was answered by an event stream; nothing is proven before its "
        "first message",
    ("end", "session_ended"): "the session was ended by its client",
    ("end", "nothing_owed"): "no answer is owed any more",
}

STATES: dict[Enum, str] = {
    SessionState.OPENING: "the client's `initialize` is under way",
    SessionState.LIVE: "requests go to the current generation",
    SessionState.HEALING: "the session is being re-established; requests wait for that",
    SessionState.PARKED: "lost or out of reach, and nobody waits; the next request begins a heal",
    SessionState.LOST: "not re-established any more: requests get 404, cursors are still served",
    SessionState.ENDED: "over",
    Up.WAITING: "not sent yet: its record is to be durable first, or a heal is under way",
    Up.SENT: "its request was written",
    Up.OPEN: "events come, on a connection that never broke",
    Up.OPAQUE: "a large answer or event is passed on as it comes",
    Up.RETRY: "broken; a resume is under way or due",
    Up.PROVING: "resumed; each message is judged",
    Up.POLL: "closed by the server, which announced when to come back",
    Up.VOID: "to be restarted: waits for a heal, for its client, or to be reopened",
    Up.ANSWERED: "every answer was given",
    Up.FAILED: "ended with an error",
    Up.CANCELLED: "the client gave it up",
    Up.SUPERSEDED: "another stream took its place",
    Up.GONE: "forgotten; a tombstone may be left",
    ClientHalf.UNBORN: "no byte of an answer was written",
    ClientHalf.ATTACHED: "a client reads",
    ClientHalf.AWAY: "its client left and can come back",
    ClientHalf.DONE: "the answer was written to its end, or nobody can come back for it",
}
# fmt: on
