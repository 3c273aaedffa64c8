"""A request of the proxy's own: its answer is collected until the response to its own id is whole."""

from __future__ import annotations

import pytest

from epochgate.core.events import LegEnd
from epochgate.core.inquiry import MAX_ANSWER_BYTES, Inquiry, Outcome
from tests.core.messages import Json, ask, error, event, log, request, result
from tests.core.playbook import JSON, SSE

OURS = b'{"jsonrpc":"2.0","id":12,"result":{}}'


def never(_: Outcome) -> None:
    raise AssertionError("who is told is decided by the leg")


def inquiry(*, is_sse: bool, id: bytes | None = b"12") -> Inquiry:
    one = Inquiry(id, never)
    one.answered(200, SSE if is_sse else JSON, b"OK")
    return one


def test_a_json_answer_is_whole_at_its_end() -> None:
    one = inquiry(is_sse=False)
    assert one.read(OURS[:10]) is None
    assert one.read(OURS[10:]) is None

    outcome = one.ended(LegEnd.CLEAN)

    assert outcome.message is not None
    assert outcome.message.raw == outcome.body == OURS
    assert (outcome.status, outcome.reason, outcome.headers) == (200, b"OK", JSON)
    assert (outcome.is_accepted, outcome.is_unauthorized) == (True, False)


def test_an_sse_answer_is_there_with_the_response_and_its_leg_need_not_end() -> None:
    one = inquiry(is_sse=True)
    assert one.read(b": comment\n\nid: 1\ndata: \n\n" + event(log("x"))) is None
    assert one.read(event(result(12))[:-1]) is None

    outcome = one.read(b"\n")

    assert outcome is not None
    assert outcome.message is not None
    assert (outcome.message.id, outcome.end, outcome.was_asked) == (b"12", LegEnd.CLEAN, False)


@pytest.mark.parametrize("said", [result("12"), error(12)])
def test_an_error_and_an_id_that_came_back_as_text_answer_it_too(said: Json) -> None:
    """For servers that turn ids into text (R36)."""
    outcome = inquiry(is_sse=True).read(event(said))

    assert outcome is not None
    assert outcome.message is not None


@pytest.mark.parametrize("said", [result(13), request("ping", id=12), error(None), log("x"), b"{"])
@pytest.mark.parametrize("is_sse", [True, False])
def test_what_is_no_response_to_its_id_is_no_answer(said: Json, is_sse: bool) -> None:
    one = inquiry(is_sse=is_sse)
    data = event(said) if is_sse else event(said)[len(b"event: message\ndata: ") :]

    assert one.read(data) is None
    assert one.ended(LegEnd.CLEAN).message is None


def test_a_notification_of_ours_has_a_status_and_no_response() -> None:
    outcome = inquiry(is_sse=False, id=None).ended(LegEnd.CLEAN)
    assert (outcome.status, outcome.message) == (200, None)

    one = inquiry(is_sse=False, id=None)
    one.read(OURS)
    assert one.ended(LegEnd.CLEAN).message is None


@pytest.mark.parametrize(
    ("question", "was_asked"), [(ask(0), True), (request("ping", id=0), False), (log("x"), False)]
)
def test_whether_the_server_asked_something_before_it_answered_is_known(
    question: Json, was_asked: bool
) -> None:
    """A ping asks the client nothing (R28)."""
    one = inquiry(is_sse=True)

    outcome = one.read(event(question) + event(result(12)))

    assert outcome is not None
    assert outcome.was_asked is was_asked


@pytest.mark.parametrize("how", [LegEnd.BROKEN, LegEnd.SILENT, LegEnd.NOT_SENT])
def test_json_that_was_cut_is_no_answer_even_if_it_looks_whole(how: LegEnd) -> None:
    one = inquiry(is_sse=False)
    one.read(OURS)

    outcome = one.ended(how)

    assert (outcome.message, outcome.end, outcome.body) == (None, how, OURS)


def test_json_that_the_end_of_the_connection_delimits_is_read() -> None:
    one = inquiry(is_sse=False)
    one.read(OURS)

    assert one.ended(LegEnd.CLOSED).message is not None


def test_a_stream_that_ends_without_the_response_gave_none() -> None:
    one = inquiry(is_sse=True)
    one.read(event(result(12))[:-1])

    assert one.ended(LegEnd.CLEAN).message is None


@pytest.mark.parametrize("is_sse", [True, False])
def test_an_answer_that_is_too_large_is_given_up(is_sse: bool) -> None:
    one = inquiry(is_sse=is_sse)
    assert one.read(b": " + b"x" * (MAX_ANSWER_BYTES - 2)) is None

    outcome = one.read(b"y")

    assert outcome is not None
    assert (outcome.message, outcome.end) == (None, LegEnd.BROKEN)


@pytest.mark.parametrize(
    ("status", "is_accepted", "is_unauthorized"),
    [(200, True, False), (202, True, False), (300, False, False), (401, False, True), (403, False, True)],
)
def test_the_status_says_whether_the_caller_is_accepted(
    status: int, is_accepted: bool, is_unauthorized: bool
) -> None:
    one = Inquiry(b"12", never)
    one.answered(status, JSON)

    outcome = one.ended(LegEnd.CLEAN)

    assert (outcome.is_accepted, outcome.is_unauthorized) == (is_accepted, is_unauthorized)


def test_without_headers_nothing_is_accepted() -> None:
    outcome = Inquiry(b"12", never).ended(LegEnd.NOT_SENT)

    assert (outcome.status, outcome.is_accepted, outcome.is_unauthorized) == (None, False, False)
