"""A stream's own state: what it owes, where its chain ends, how it shows itself."""

from __future__ import annotations

import pytest

from epochgate.core import jsonrpc
from epochgate.core.epoch import Epoch
from epochgate.core.errors import ImpossibleTransition
from epochgate.core.events import RequestHead
from epochgate.core.generation import Generation
from epochgate.core.journal import Budget
from epochgate.core.states import ClientHalf, ClientInput, Up, UpInput
from epochgate.core.stream import Answer, Kind, Owed, OwedState, Restart, Stream, Tombstone

HEAD = RequestHead(b"/mcp", (), b"alice")


def stream(handle: int = 1, kind: Kind = Kind.REQUEST) -> Stream:
    return Stream(handle, kind, Generation(1, b"up-1", Epoch(None, None)), HEAD, Budget(1 << 30))


def owed(id: bytes = b"5", *, stamp: bytes = b"123", is_stamped: bool = True) -> Owed:
    message = jsonrpc.read_message(b'{"jsonrpc":"2.0","id":%b,"method":"tools/call"}' % id)
    return Owed(message, stamp, None, is_stamped)


def test_what_is_owed_is_kept_with_the_type_of_its_id() -> None:
    number, text = owed(b"5"), owed(b'"5"', stamp=b'"eg1"')

    assert (number.id, text.id) == (b"5", b'"5"')
    assert (number.key, text.key) == (b"123", b"eg1")
    assert owed(b"5", stamp=b"5", is_stamped=False).key == b"5"


def test_a_cancelled_request_is_unanswered_but_not_open() -> None:
    one = stream()
    one.owed = [owed(b"1"), owed(b"2"), owed(b"3")]
    one.owed[1].state = OwedState.CANCELLED
    one.owed[2].state = OwedState.ANSWERED

    assert [each.id for each in one.open_owed] == [b"1"]
    assert [each.id for each in one.unanswered] == [b"1", b"2"]


def test_the_chain_of_successors_is_followed_to_its_end() -> None:
    """Through each stream that took the place of another (R11)."""
    first, second, third = stream(1), stream(2), stream(3)
    first.successor, second.successor = second, third

    assert first.newest() is second.newest() is third.newest() is third


def test_a_stream_whose_requests_carry_no_stamps_cannot_be_resumed() -> None:
    """What comes back could not be told apart (R36)."""
    one = stream()
    one.owed = [owed(), owed(is_stamped=False)]

    assert not one.can_be_resumed_safely


def test_halves_move_by_the_tables_only() -> None:
    one = stream()

    one.move(UpInput.SENT)
    assert one.up is Up.SENT
    with pytest.raises(ImpossibleTransition):
        one.move(UpInput.POLL_DUE)
    with pytest.raises(ImpossibleTransition):
        one.move_client(ClientInput.RETURNED)


def test_it_shows_its_state() -> None:
    one = stream(4, Kind.STANDALONE)

    assert repr(one) == "<Stream 4 standalone waiting unborn g1 owes 0, relayed 0>"


def test_the_mark_names_reason_generation_price_and_whether_it_ran_again() -> None:
    assert Restart("event_id_gap", 2, 17, reissued=True).as_data() == {
        "reason": "event_id_gap",
        "generation": 2,
        "discarded_events": 17,
        "reissued": True,
    }


def call(token: bytes, *, is_stamped: bool = True) -> Owed:
    """A call that asks for progress under `token`, which goes up as 456 where it is stamped."""
    message = jsonrpc.read_message(
        b'{"id":5,"method":"tools/call","params":{"_meta":{"progressToken":%b}}}' % token
    )
    return Owed(message, b"123", b"456", is_stamped) if is_stamped else Owed(message, b"5", token, is_stamped)


def test_a_stamp_for_a_token_is_found_as_text_too_and_a_clients_own_token_only_as_it_stands() -> None:
    """Some servers turn them into text (R36)."""
    assert call(b'"t"').token_key == b"456"
    assert call(b'"t"', is_stamped=False).token_key == b'"t"'
    assert owed().token_key is None
    assert call(b"1").method == "tools/call"


def test_progress_of_the_only_request_is_put_back_by_its_anchored_token() -> None:
    one = stream()
    one.owed = [call(b'"t"')]

    one.begin_sse()

    assert one.token_back == (b'"progressToken":456', b'"progressToken":"t"')


@pytest.mark.parametrize("owes", [[], [owed()], [call(b"1"), call(b"2")]])
def test_no_token_is_put_back_where_none_was_given_or_several_could_be(owes: list[Owed]) -> None:
    one = stream()
    one.owed = owes

    one.begin_sse()

    assert one.token_back is None


def test_event_ids_stay_known_on_the_next_leg_and_are_no_other_streams() -> None:
    one, other = stream(1), stream(2)
    one.begin_sse()
    one.framer.feed(b"data: cut")
    one.ids.saw([b"7"], b"id: 7\ndata: 1\n\n")

    one.begin_sse()
    other.begin_sse()

    assert one.ids.last == b"7"
    assert one.framer.pending == 0
    assert other.ids.last is None


def test_a_client_can_come_back_if_this_stream_or_one_before_it_gave_an_id() -> None:
    first, second = stream(1), stream(2)
    second.predecessor = first
    assert not second.has_id

    first.numbering.add_block(7)

    assert first.has_id
    assert second.has_id


def test_a_stream_whose_requests_all_carry_stamps_can_be_resumed() -> None:
    one = stream()
    one.owed = [owed(b"1"), owed(b"2")]

    assert one.can_be_resumed_safely


def test_a_stream_is_over_with_its_last_answer() -> None:
    one = stream()
    one.move(UpInput.SENT)
    assert not one.is_over

    one.move(UpInput.ANSWERED)

    assert one.is_over


def test_what_a_forgotten_stream_answered_before_its_clients_cursor_is_not_missing() -> None:
    one = stream()
    one.owed = [owed(b"1"), owed(b"2"), owed(b"3")]
    one.owed[0].answered_at = 4
    one.owed[1].answered_at = 7
    assert one.answers == ((b"1", 4), (b"2", 7), (b"3", None))

    stone = Tombstone(one.answers, last_cursor=9, is_standalone=False)

    assert stone.missing_behind(3) == (b"1", b"2", b"3")
    assert stone.missing_behind(4) == (b"2", b"3")
    assert stone.missing_behind(8) == (b"3",)


def test_a_body_that_is_passed_on_as_it_comes_is_an_answer_and_no_stream_of_events() -> None:
    one = stream()
    one.answer = Answer(200, (), [b'{"a', b'":1}'])
    assert not one.is_body_passed_on

    one.move(UpInput.SENT)
    one.move(UpInput.PASSED_ON)

    assert one.is_body_passed_on
    assert one.answer.body == b'{"a":1}'
    one.answer.is_sse = True
    assert not one.is_body_passed_on


def answered(*, is_sse: bool) -> Stream:
    one = stream()
    one.owed = [owed(b"1")]
    one.body = jsonrpc.read_body(b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}')
    one.answer = Answer(200, (), [b"large"])
    if is_sse:
        one.begin_sse()
        one.framer.feed(b"data: large")
    return one


@pytest.mark.parametrize("is_sse", [False, True])
def test_one_that_is_forgotten_keeps_what_it_owed_and_none_of_the_bytes(is_sse: bool) -> None:
    one = answered(is_sse=is_sse)

    one.let_go()

    assert (one.body, one.answer, one.framer.pending) == (None, None, 0)
    assert (one.owed[0].id, one.owed[0].method, one.owed[0].message.raw) == (b"1", "tools/call", b"")


def test_the_client_half_moves_as_the_client_comes_and_goes() -> None:
    one = stream()

    seen = []
    for event in (ClientInput.OPENED, ClientInput.LEFT, ClientInput.RETURNED, ClientInput.FINISHED):
        one.move_client(event)
        seen.append(one.client)

    assert seen == [ClientHalf.ATTACHED, ClientHalf.AWAY, ClientHalf.ATTACHED, ClientHalf.DONE]
