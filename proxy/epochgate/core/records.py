"""What has to be durable before something may be sent (R16). Credentials are in none of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """Before `initialize` is answered, and whenever a heal commits or drift is adopted."""

    visible_id: bytes
    initialize: bytes
    initialize_result: bytes
    generation: int
    upstream_id: bytes
    epoch_meta: bytes | None
    epoch_header: bytes | None


@dataclass(frozen=True, slots=True)
class OwedRecord:
    """Before a POST is written: what its stream owes, and where its cursors begin."""

    visible_id: bytes
    stream: int
    generation: int
    ids: tuple[bytes, ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class ReissueRecord:
    """Before a request is sent again: how often it was, and which stream takes its place."""

    visible_id: bytes
    stream: int
    successor: int
    reissues: int


@dataclass(frozen=True, slots=True)
class CancelRecord:
    """Before a cancel is acknowledged."""

    visible_id: bytes
    stream: int
    id: bytes


@dataclass(frozen=True, slots=True)
class EndRecord:
    """Before a DELETE is acknowledged."""

    visible_id: bytes


Record = SessionRecord | OwedRecord | ReissueRecord | CancelRecord | EndRecord
