"""A learned form: what is stamped by it is what stamping event by event gives, or it is declined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochgate.core import sse, usual
from epochgate.core.usual import Usual

STAMP = b"90071992547409"
TOKEN = (b'"progressToken":' + STAMP, b'"progressToken":"50%"')
OTHER = b'"progressToken":11111111111111'
FORMS = (
    b"event: message\ndata: %b\n\n",
    b"data: %b\n\n",
    b"event: message\r\ndata: %b\r\n\r\n",
    b"id: %d\nevent: message\ndata: %b\n\n",
    b"id: %d\r\nevent: message\r\ndata: %b\r\n\r\n",
    b"event: message\nid: %d\ndata: %b\n\n",
    b"id: %d\ndata: %b\n\n",
)


def progress(number: int, text: str = "") -> bytes:
    return (
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{%b,"progress":%d,"message":"%b"}}'
        % (TOKEN[0], number, text.encode())
    )


def event(form: bytes, number: int, data: bytes) -> bytes:
    return form % (number, data) if form.count(b"%") == 2 else form % data


def block_of(form: bytes, count: int, text: str = "") -> bytes:
    return b"".join(event(form, number, progress(number, text)) for number in range(1, count + 1))


def learned(form: bytes) -> Usual:
    found = usual.learn(block_of(form, 1), TOKEN, STAMP)
    assert found is not None
    return found


def one_by_one(block: bytes, first: int) -> tuple[list[tuple[bytes | None, bytes | None]], list[bytes]]:
    """Ids and data towards the client, and the upstream ids."""
    events = [sse.parse(raw) for raw in sse.split(block.replace(*TOKEN))]
    out: list[tuple[bytes | None, bytes | None]] = [
        (b"%d" % (first + at), event.data) for at, event in enumerate(events)
    ]
    return out, [event.id for event in events if event.id is not None]


@pytest.mark.parametrize("form", FORMS)
@given(count=st.integers(1, 30), first=st.integers(0, 10**15), text=st.text("aé %{}:d\\u", max_size=12))
def test_it_stamps_as_one_by_one(form: bytes, count: int, first: int, text: str) -> None:
    block = block_of(form, count, text.replace("\\", ""))
    stamped = learned(form).stamp(block, first)
    assert stamped is not None
    data, number, ids = stamped
    expected, upstream_ids = one_by_one(block, first)
    assert number == count
    assert ids == upstream_ids
    assert [(one.id, one.data) for one in map(sse.parse, sse.split(data))] == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "data",
    [
        progress(7).replace(TOKEN[0], OTHER),
        progress(7).replace(STAMP, STAMP + b"0"),
        progress(7).replace(b"progress", b"message", 1),
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}',
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_block_with_another_event_is_declined(form: bytes, data: bytes, place: int) -> None:
    events = [event(form, number, progress(number)) for number in range(2)]
    events.insert(place, event(form, 9, data))
    assert learned(form).stamp(b"".join(events), 1) is None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "line", [b": comment", b"retry: 5", b"id: 3", b"data: more", b"event: close", b"", b"\rid: 4"]
)
def test_a_block_with_another_line_is_declined(form: bytes, line: bytes) -> None:
    end = b"\r\n" if b"\r" in form else b"\n"
    first, second = event(form, 1, progress(1)), event(form, 2, progress(2))
    for block in (line + end + first + second, first + line + end + second, first + second + line + end):
        assert learned(form).stamp(block, 1) is None


@pytest.mark.parametrize("end", [b"\0", b"\r"])
def test_an_id_that_no_client_would_take_is_declined(end: bytes) -> None:
    form = b"id: %d\nevent: message\ndata: %b\n\n"
    assert learned(form).stamp(block_of(form, 2).replace(b"id: 2", b"id: 2" + end), 1) is None


@pytest.mark.parametrize(
    "data",
    [
        progress(1).replace(TOKEN[0], OTHER),
        progress(1).replace(TOKEN[0], b'"progressToken" : ' + STAMP),
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{%b}}}' % TOKEN[0],
        b"{",
    ],
)
def test_nothing_is_learned_from_what_is_no_usual_progress(data: bytes) -> None:
    assert usual.learn(event(FORMS[0], 1, data), TOKEN, STAMP) is None


@pytest.mark.parametrize(("behind", "token"), [(b" ,", STAMP), (b"e0,", STAMP + b"e0")])
def test_nothing_is_learned_where_the_end_of_the_token_is_unusual(behind: bytes, token: bytes) -> None:
    """What begins with the same digits could not be told from it."""
    data = progress(1).replace(STAMP + b",", STAMP + behind)

    assert usual.learn(event(FORMS[0], 1, data), TOKEN, token) is None


@pytest.mark.parametrize(
    "form",
    [
        b": comment\nevent: message\ndata: %b\n\n",
        b"event: message\ndata: %b\nretry: 5\n\n",
        b"data: %b\nevent: message\n\n",
        b"id: %d\nevent: other\ndata: %b\n\n",
    ],
)
def test_nothing_is_learned_from_an_event_in_an_unusual_form(form: bytes) -> None:
    assert usual.learn(event(form, 1, progress(1)), TOKEN, STAMP) is None


@pytest.mark.parametrize("form", FORMS[3:])
def test_a_single_event_with_an_id_that_no_client_would_take_is_declined(form: bytes) -> None:
    assert learned(form).stamp(block_of(form, 1).replace(b"id: 1", b"id: 1\0"), 7) is None


def test_a_single_event_of_another_form_with_as_many_lines_is_declined() -> None:
    """It begins as the learned one does, with an id."""
    block = b"id: 1\nevent: other\ndata: %b\n\n" % progress(1)

    assert learned(FORMS[3]).stamp(block, 7) is None
