"""Edits of JSON-RPC messages: ids and tokens, marks, epochs taken out; every other byte is kept."""

from __future__ import annotations

import pytest

from epochgate.core import jsonedit, jsonrpc
from epochgate.core.jsonrpc import Kind

CALL = (
    b'{"jsonrpc": "2.0", "id": 17, "method": "tools/call", "params": {"name": "bump", '
    b'"arguments": {"n": 17}, "_meta": {"progressToken": "p1"}}}'
)


def test_rewriting_keeps_every_other_byte() -> None:
    message = jsonrpc.read_message(CALL)

    assert jsonedit.rewrite(message, id=b"99999999999999", token=b"5") == (
        b'{"jsonrpc": "2.0", "id": 99999999999999, "method": "tools/call", "params": {"name": "bump", '
        b'"arguments": {"n": 17}, "_meta": {"progressToken": 5}}}'
    )
    assert jsonedit.rewrite(message) == CALL


def test_values_are_replaced_in_whatever_order_they_stand() -> None:
    message = jsonrpc.read_message(b'{"params":{"_meta":{"progressToken":1}},"method":"m","id":2}')

    assert jsonedit.rewrite(message, id=b"77", token=b"888") == (
        b'{"params":{"_meta":{"progressToken":888}},"method":"m","id":77}'
    )


@pytest.mark.parametrize(
    ("raw", "changed"),
    [
        (b'{"id":1,"result":{"id":1}}', b'{"id":77,"result":{"id":1}}'),
        (b'{"result":{"id":1,"x":"\\"id\\":1"},"id":1}', b'{"result":{"id":1,"x":"\\"id\\":1"},"id":77}'),
        (b'\n{ "id" :\t1 , "result" : {} }\n', b'\n{ "id" :\t77 , "result" : {} }\n'),
        (b'{"\\u0069d":1,"result":{"id":1}}', b'{"\\u0069d":77,"result":{"id":1}}'),
        (
            b'{"a\\/b":"\\u00e9","id":1,"result":[{"id":1}]}',
            b'{"a\\/b":"\\u00e9","id":77,"result":[{"id":1}]}',
        ),
        (b'{"x\\"id":1,"id":1,"error":{}}', b'{"x\\"id":1,"id":77,"error":{}}'),
    ],
)
def test_only_the_id_at_the_top_is_replaced(raw: bytes, changed: bytes) -> None:
    assert jsonedit.rewrite(jsonrpc.read_message(raw), id=b"77") == changed


def test_only_the_token_in_meta_is_replaced() -> None:
    raw = (
        b'{"id":1,"method":"tools/call","params":{"progressToken":1,"arguments":{"_meta":{"progressToken":1}},'
        b'"_meta":{"x":{"progressToken":1},"progressToken":1}}}'
    )

    assert jsonedit.rewrite(jsonrpc.read_message(raw), token=b"77") == (
        b'{"id":1,"method":"tools/call","params":{"progressToken":1,"arguments":{"_meta":{"progressToken":1}},'
        b'"_meta":{"x":{"progressToken":1},"progressToken":77}}}'
    )


def test_the_named_values_of_notifications_are_replaced() -> None:
    cancel = jsonrpc.read_message(
        b'{"method":"notifications/cancelled","params":{"requestId":1,"reason":"x"}}'
    )
    progress = jsonrpc.read_message(
        b'{"method":"notifications/progress","params":{"progress":1,"progressToken":"a"}}'
    )

    assert jsonedit.rewrite(cancel, cancels=b'"s"') == (
        b'{"method":"notifications/cancelled","params":{"requestId":"s","reason":"x"}}'
    )
    assert jsonedit.rewrite(progress, token=b"2") == (
        b'{"method":"notifications/progress","params":{"progress":1,"progressToken":2}}'
    )


@pytest.mark.parametrize(
    "raw",
    [
        b'{"id":1,"id":2,"result":{}}',
        b'{"id":1,"result":{},"\\u0069d":1}',
        b'{"id":1,"method":"tools/call","params":{"name":"a","name":"b"}}',
        b'{"id":1,"method":"tools/call","params":{},"params":{"name":"b"}}',
        b'{"id":1,"method":"ping","params":{"_meta":{"progressToken":1,"progressToken":2}}}',
        b'{"id":1,"method":"ping","params":{"_meta":{"progressToken":1},"_meta":{}}}',
        b'{"id":1,"method":"ping","params":{"x":"\xff"}}',
    ],
)
def test_a_message_that_can_be_read_in_two_ways_is_not_rewritable(raw: bytes) -> None:
    message = jsonrpc.read_message(raw)

    assert message.kind is not Kind.INVALID
    assert not message.is_rewritable
    with pytest.raises(ValueError, match="no id"):
        jsonedit.rewrite(message, id=b"3")


def test_a_value_that_is_not_there_cannot_be_replaced() -> None:
    with pytest.raises(ValueError, match="no token"):
        jsonedit.rewrite(jsonrpc.read_message(b'{"id":1,"method":"ping"}'), token=b"3")


def test_a_batch_is_rewritten_in_place() -> None:
    body = jsonrpc.read_body(b' [ {"id":1,"method":"ping"} ,\n{"id":1,"method":"ping"}\t] ')

    assert body is not None
    assert jsonedit.rewrite_batch(body, [b"{1}", b"{2}"]) == b" [ {1} ,\n{2}\t] "


def test_a_large_body_is_rewritten() -> None:
    raw = b'{"result":{"x":"' + b"y" * 2_000_000 + b'","id":5},"id":5}'

    assert jsonedit.rewrite(jsonrpc.read_message(raw), id=b"6") == raw[:-2] + b"6}"


MARK = b'{"reason":"x"}'


@pytest.mark.parametrize(
    ("raw", "marked"),
    [
        (b'{"id":1,"result":{}}', b'{"id":1,"result":{"_meta":{"k":{"reason":"x"}}}}'),
        (b'{"id":1,"result": {"a": 1}}', b'{"id":1,"result": {"_meta":{"k":{"reason":"x"}},"a": 1}}'),
        (b'{"result":{"_meta": {"b":2} }}', b'{"result":{"_meta": {"k":{"reason":"x"},"b":2} }}'),
        (b'{"result":{"_meta":{"k": 1, "b":2}}}', b'{"result":{"_meta":{"k": {"reason":"x"}, "b":2}}}'),
        (b'{"result":{"_meta":null}}', b'{"result":{"_meta":{"k":{"reason":"x"}}}}'),
        (b'{"result":[1]}', b'{"result":[1]}'),
        (b'{"method":"n"}', b'{"params":{"_meta":{"k":{"reason":"x"}}},"method":"n"}'),
        (b'{"method":"n","params":{}}', b'{"method":"n","params":{"_meta":{"k":{"reason":"x"}}}}'),
        (b'{"error":{"code":1}}', b'{"error":{"data":{"k":{"reason":"x"}},"code":1}}'),
        (b'{"error":{"data":{"a":1}}}', b'{"error":{"data":{"k":{"reason":"x"},"a":1}}}'),
        (b'{"error":{"data":"text"}}', b'{"error":{"data":{"k":{"reason":"x"},"value":"text"}}}'),
        (b'{"error":"bad"}', b'{"params":{"_meta":{"k":{"reason":"x"}}},"error":"bad"}'),
        (b'{"result":{"a":1,"a":2,"_meta":{}}}', b'{"result":{"a":2,"_meta":{"k":{"reason":"x"}}}}'),
        (b"[1]", b"[1]"),
    ],
)
def test_a_mark_is_put_where_the_message_has_room_for_it(raw: bytes, marked: bytes) -> None:
    assert jsonedit.with_meta(raw, "k", MARK) == marked


@pytest.mark.parametrize(
    ("raw", "stripped"),
    [
        (b'{"result": {"_meta":{"k":1,"b": 2}, "k":1}}', b'{"result": {"_meta":{"b":2}, "k":1}}'),
        (b'{"params":{"_meta":{"k":1}}, "k":1}', b'{"params":{"_meta":{}}, "k":1}'),
        (b'{"error":{"data":{"_meta":{"k":1}, "k":1}}}', b'{"error":{"data":{"_meta":{}, "k":1}}}'),
        (b'{"result": {"_meta":{"b": 2}}}', b'{"result": {"_meta":{"b": 2}}}'),
        (b'{"result": {"_meta":[1]}}', b'{"result": {"_meta":[1]}}'),
        (b"[]", b"[]"),
    ],
)
def test_named_keys_are_taken_out_of_meta_only(raw: bytes, stripped: bytes) -> None:
    assert jsonedit.without_meta(raw, ["k", "z"]) == stripped


def test_a_single_message_is_replaced_whole() -> None:
    body = jsonrpc.read_body(CALL)

    assert body is not None
    assert jsonedit.rewrite_batch(body, [b"{1}"]) == b"{1}"
