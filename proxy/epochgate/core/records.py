"""What has to be durable before something may be sent (R16). Credentials are in none of them."""

from __future__ import annotations

from epochgate.core.values import Value


class SessionRecord(Value, frozen=True):
    """Before `initialize` is answered, and whenever a heal commits or drift is adopted."""

    visible_id: bytes
    initialize: bytes
    initialize_result: bytes
    generation: int
    upstream_id: bytes
    epoch_meta: bytes | None
    epoch_header: bytes | None


class OwedRecord(Value, frozen=True):
    """Before a POST is written: what its stream owes, and where its cursors begin."""

    visible_id: bytes
    stream: int
    generation: int
    ids: tuple[bytes, ...]
    body: bytes


class ReissueRecord(Value, frozen=True):
    """Before a request is sent again: how often it was, and which stream takes its place."""

    visible_id: bytes
    stream: int
    successor: int
    reissues: int


class CancelRecord(Value, frozen=True):
    """Before a cancel is acknowledged."""

    visible_id: bytes
    stream: int
    id: bytes


class EndRecord(Value, frozen=True):
    """Before a DELETE is acknowledged."""

    visible_id: bytes


Record = SessionRecord | OwedRecord | ReissueRecord | CancelRecord | EndRecord
