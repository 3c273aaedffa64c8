"""A stream's own state: what it owes, where its chain ends, how it shows itself."""

from __future__ import annotations

import pytest

from epochgate.core import jsonrpc
from epochgate.core.epoch import Epoch
from epochgate.core.errors import ImpossibleTransition
from epochgate.core.events import RequestHead
from epochgate.core.generation import Generation
from epochgate.core.journal import Budget
from epochgate.core.states import ClientInput, Up, UpInput
from epochgate.core.stream import Kind, Owed, OwedState, Restart, Stream

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
