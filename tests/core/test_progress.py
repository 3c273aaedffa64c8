"""Progress of a run that was sent again, against what the client saw of the first (R38)."""

from __future__ import annotations

import json

import pytest

from epochgate.core import jsonrpc, progress
from epochgate.core.axes import Claim
from epochgate.core.epoch import Epoch
from epochgate.core.events import RequestHead
from epochgate.core.evidence import Reading
from epochgate.core.generation import Generation
from epochgate.core.journal import Budget, Entry
from epochgate.core.stream import Kind, Owed, Stream
from epochgate.core.verdict import judge
from tests.core.messages import Json, event, notification, request
from tests.core.messages import progress as told
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


def call(token: bytes | None = b'"t"') -> Owed:
    meta = b"" if token is None else b'"_meta":{"progressToken":%b}' % token
    message = jsonrpc.read_message(b'{"id":1,"method":"tools/call","params":{%b}}' % meta)
    return Owed(message, b"12", None if token is None else b"34", is_stamped=True)


def gave(*blocks: list[Json]) -> Stream:
    """A stream whose client was given these messages, as one entry of the journal for each block."""
    stream = Stream(
        1,
        Kind.REQUEST,
        Generation(1, b"up-1", Epoch(None, None)),
        RequestHead(b"/mcp", (), b"alice"),
        Budget(1 << 30),
    )
    first = 0
    for block in blocks:
        data = b"".join(event(one, 100 + first + at) for at, one in enumerate(block))
        stream.journal.append(Entry(first, len(block), 100 + first, data))
        first += len(block)
    return stream


def remembered(stream: Stream, up_to: int, one: Owed | None = None) -> tuple[float | None, float | None]:
    owed = one or call()
    progress.remember(stream, owed, up_to)
    return owed.progress, owed.total


@pytest.mark.parametrize(
    ("up_to", "last"), [(0, None), (1, (1, 10)), (2, (2, 10)), (3, (2, 10)), (4, (3, None))]
)
def test_the_last_progress_that_the_client_was_written_counts(up_to: int, last: Json) -> None:
    """What it was not written it did not see (R38)."""
    stream = gave(
        [told("t", 1, total=10), told("t", 2, total=10)],
        [notification("notifications/message", {"data": "x"}), told("t", 3), told("t", 4)],
    )

    assert remembered(stream, up_to) == (last or (None, None))


def test_progress_of_other_requests_is_passed_over() -> None:
    stream = gave([told("t", 4), told("u", 9), told(7, 8)])

    assert remembered(stream, 3) == (4, None)


def test_a_question_under_an_equal_token_is_no_progress() -> None:
    """The server counts its tokens itself; the text of its question may say anything."""
    question = request(
        "sampling/createMessage", {"_meta": {"progressToken": "t"}, "text": "notifications/progress"}
    )

    assert remembered(gave([told("t", 4), question]), 2) == (4, None)


def test_priming_is_passed_over() -> None:
    stream = gave([told("t", 4)])
    stream.journal.append(Entry(1, 1, 101, b"id: 101\n\n"))

    assert remembered(stream, 2) == (4, None)


@pytest.mark.parametrize("params", [{}, {"progress": "half"}, {"progress": None, "total": 3}])
def test_progress_without_a_number_makes_all_of_the_next_run_uncomparable(params: dict[str, Json]) -> None:
    stream = gave([notification("notifications/progress", {"progressToken": "t", **params})])

    assert remembered(stream, 1)[0] == progress.UNCOMPARABLE


def test_of_a_request_that_asked_for_none_nothing_is_remembered() -> None:
    assert remembered(gave([told("t", 4)]), 1, call(None)) == (None, None)


def test_what_a_client_saw_on_another_stream_counts_as_seen() -> None:
    """Never less than before; what names no request of its session is nobody's."""
    one = owed(5, None)

    progress.note(reading({"progress": 7}, one))
    progress.note(reading({"progress": 6}, one))
    progress.note(reading({"progress": 9}, None))

    assert one.progress == 7
