"""Progress of a run that was sent again, against what the client saw of the first (R38)."""

from __future__ import annotations

import json

import pytest

from epochgate.core import jsonrpc, progress
from epochgate.core.axes import Claim
from epochgate.core.evidence import Reading
from epochgate.core.stream import Owed
from epochgate.core.verdict import judge
from tests.core.messages import Json, notification
from tests.core.verdict_cases import MESSAGE


def owed(seen: float | None, total: float | None) -> Owed:
    message = jsonrpc.read_message(b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}')
    return Owed(message, b"12", b"34", is_stamped=True, progress=seen, total=total)


def reading(params: dict[str, Json], of: Owed | None) -> Reading:
    raw = json.dumps(notification("notifications/progress", {"progressToken": 34, **params})).encode()
    return Reading(jsonrpc.read_message(raw), Claim.PROGRESS, of, None, judge(MESSAGE))


@pytest.mark.parametrize(
    ("seen", "total", "params", "is_seen"),
    [
        (None, None, {"progress": 0}, False),
        (5, None, {"progress": 4}, True),
        (5, None, {"progress": 5}, True),
        (5, None, {"progress": 5.5}, False),
        (5, 10, {"progress": 6, "total": 10}, False),
        (5, 10, {"progress": 6, "total": 10.0}, False),
        (5, 10, {"progress": 6, "total": 100}, True),
        (5, 10, {"progress": 6}, True),
        (5, None, {"progress": 6, "total": 10}, True),
        (5, None, {"progress": "6"}, True),
        (5, None, {}, True),
        (progress.UNCOMPARABLE, None, {"progress": 10**9}, True),
    ],
)
def test_whether_the_client_saw_as_much_before(
    seen: float | None, total: float | None, params: dict[str, Json], is_seen: bool
) -> None:
    """Equal totals, both numbers (R38)."""
    assert progress.is_seen(reading(params, owed(seen, total))) is is_seen


def test_progress_that_belongs_to_no_request_is_not_held_back() -> None:
    assert not progress.is_seen(reading({"progress": 1}, None))
