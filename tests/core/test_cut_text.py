"""Half of a surrogate pair, which JavaScript writes where a string was cut: read, and kept as it is."""

from __future__ import annotations

import pytest

from epochgate.core import epoch, jsonedit, jsonrpc
from epochgate.core.jsonrpc import Kind
from tests.core.messages import result
from tests.core.playbook import opened, quiet

HALF = b"\\ud83d"
CALL = (
    b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":'
    b'{"name":"work","arguments":{"q":"cut ' + HALF + b'"},"_meta":{"progressToken":7}}}'
)


@pytest.mark.parametrize(
    "half", [b"\\ud83d", b"\\uDE00", b"\\\\\\ud83d", b"\\ud83d\\ud83d\\ude00", b"\\ude00\\n"]
)
def test_a_message_with_cut_text_is_read_and_rewritten_in_place(half: bytes) -> None:
    raw = CALL.replace(HALF, half)

    message = jsonrpc.read_message(raw)

    assert (message.kind, message.id, message.token, message.tool) == (Kind.REQUEST, b"5", b"7", "work")
    changed = jsonedit.rewrite(message, id=b"15", token=b'"t"')
    assert changed == raw.replace(b'"id":5', b'"id":15').replace(b":7}", b':"t"}')


def test_its_members_keep_their_text() -> None:
    members = jsonrpc.read_object(b'{"a": "' + HALF + b'", "b": 1}') or {}

    assert {key: bytes(value) for key, value in members.items()} == {"a": b'"\\ud83d"', "b": b"1"}


@pytest.mark.parametrize("text", [b"\\ud8zz", b"\\ud83", b"\\ud83d\\q", b"\\ud83d\x01"])
def test_what_is_no_json_stays_so(text: bytes) -> None:
    assert jsonrpc.read_body(CALL.replace(HALF, text)) is None


def test_a_batch_with_cut_text_is_read_and_rewritten_in_place() -> None:
    raw = b"[" + CALL + b" , " + CALL.replace(b"5", b"6") + b"]"

    body = jsonrpc.read_body(raw)

    assert body is not None
    assert [message.id for message in body.messages] == [b"5", b"6"]
    assert jsonedit.rewrite_batch(body, [message.raw for message in body.messages]) == raw


def test_a_mark_is_put_beside_cut_text() -> None:
    raw = b'{"id":5,"result":{"text":"' + HALF + b'","_meta":{}}}'

    assert jsonedit.with_meta(raw, "k", b"1") == raw.replace(b'"_meta":{}', b'"_meta":{"k":1}')


def test_cut_text_is_kept_where_a_key_stands_twice() -> None:
    raw = b'{"id":5,"result":{"text":"' + HALF + b'"},"x":1,"x":2}'

    marked = jsonedit.with_meta(raw, "k", b"1")

    assert marked == b'{"id":5,"result":{"_meta":{"k":1},"text":"' + HALF + b'"},"x":2}'


def test_an_epoch_beside_cut_text_is_found_and_one_with_cut_text_compared_as_it_stands() -> None:
    raw = b'{"id":5,"result":{"text":"' + HALF + b'","_meta":{"session_epoch":%b}}}'

    assert epoch.stated_in(raw % b"7", ("session_epoch",)) == b"7"
    assert epoch.stated_in(raw % b'{"a":"\\ud83d"}', ("session_epoch",)) == b'{"a":"\\ud83d"}'


def test_a_call_with_cut_text_is_guarded_and_its_answer_with_cut_text_finds_it() -> None:
    play = opened()
    exchange = play.post(CALL)
    leg = play.leg("tools/call")

    answer = b'{"jsonrpc":"2.0","id":%d,"result":{"text":"' % leg.id + HALF + b'"}}'
    play.open(leg)
    play.send(leg, b"data: " + answer + b"\n\n")

    assert b'"id":5,"result":{"text":"\\ud83d"}' in exchange.body
    assert not exchange.is_open


def test_a_call_with_cut_text_restores_a_session() -> None:
    """R40."""
    play = opened(replay_tools=("work",))
    play.post(CALL)
    login = play.leg("tools/call")
    play.answer(login, result(login.id))
    quiet(play)
    play.call("other", id=6)
    play.refuse(play.leg("tools/call"), 404)
    leg = play.leg("initialize")
    play.heal()

    assert not leg.is_open
    assert play.leg("tools/call").body is not None
    assert HALF in (play.leg("tools/call").body or b"")
