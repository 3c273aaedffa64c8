"""The resume rule for authors of MCP clients, on the judge that the proxy uses.

No I/O and nothing but the standard library. Epochs are integers and event ids are strict here; the
proxy takes opaque epochs and learns how a server numbers its events (R31).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from epochgate.core.axes import Asked, Before, Claim, IdStep, Leg, Match, MessageEvidence, Size
from epochgate.core.verdict import Verdict, judge

_INTEGER = re.compile(r"-?[0-9]{1,4300}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SessionEpoch:
    """What was captured at `initialize`: the session's id and the epoch its result stated."""

    session_id: str
    epoch: int


class StreamResumeDivergence(RuntimeError):
    """The resume cannot be shown to belong to the epoch captured at `initialize`."""


def validate_resumed_event(
    observed_epoch: SessionEpoch | None,
    first_resumed_event: Mapping[str, Any],
    last_seen_event_id: int,
) -> None:
    """Return if the first event after a resume may be trusted.

    `first_resumed_event` has the SSE event's `id` (integer, or its decimal text) and the message's
    `_meta` (a mapping with an integer `session_epoch`) at its top level.

    Raises `StreamResumeDivergence`, and nothing else, when in this order: no epoch was captured; the
    event states none; it states another; its id is not `last_seen_event_id` + 1. Malformed input
    is a divergence.
    """
    captured = observed_epoch.epoch if isinstance(observed_epoch, SessionEpoch) else None
    given: object = first_resumed_event
    event: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    meta = event.get("_meta")
    stated = meta.get("session_epoch") if isinstance(meta, Mapping) else None
    event_id = _integer(event.get("id"))
    last_id = _integer(last_seen_event_id)
    is_next = event_id is not None and last_id is not None and event_id == last_id + 1
    evidence = MessageEvidence(
        leg=Leg.RESUMED,
        size=Size.FITS,
        claim=Claim.PROGRESS,
        epoch=_match(captured, stated),
        asked=Asked.NO,
        step=IdStep.NEXT if is_next else IdStep.GAP,
        before=Before.SOMETHING,
    )
    ruling = judge(evidence)
    if ruling.verdict is Verdict.RELAY:
        return
    raise StreamResumeDivergence(
        f"{ruling.reason}: captured epoch {captured!r}, event states {stated!r}; "
        f"last event id {last_seen_event_id!r}, event has {event.get('id')!r}"
    )


def resume_or_restart(
    observed_epoch: SessionEpoch | None,
    first_resumed_event: Mapping[str, Any],
    last_seen_event_id: int,
) -> Literal["resume", "restart"]:
    """`validate_resumed_event` as a choice: "resume" where it returns, "restart" where it raises."""
    try:
        validate_resumed_event(observed_epoch, first_resumed_event, last_seen_event_id)
    except StreamResumeDivergence:
        return "restart"
    return "resume"


def _match(captured: int | None, stated: object) -> Match:
    if type(captured) is not int:
        return Match.NOT_CAPTURED
    if stated is None:
        return Match.ABSENT
    return Match.EQUAL if type(stated) is int and stated == captured else Match.DIFFERENT


def _integer(value: object) -> int | None:
    if type(value) is int:
        return value
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    return None
