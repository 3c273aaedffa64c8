"""JSON-RPC messages as bytes: what they are, and edits that keep every other byte."""

from __future__ import annotations

import pytest

from epochgate.core import jsonedit, jsonrpc
from epochgate.core.jsonrpc import IdType, Kind

CALL = (
    b'{"jsonrpc": "2.0", "id": 17, "method": "tools/call", "params": {"name": "bump", '
    b'"arguments": {"n": 17}, "_meta": {"progressToken": "p1"}}}'
)


def test_a_call_shows_its_id_token_and_tool() -> None:
    message = jsonrpc.read_message(CALL)

    assert (message.kind, message.method) == (Kind.REQUEST, "tools/call")
    assert (message.id, message.token, message.cancels) == (b"17", b'"p1"', None)
    assert message.is_rewritable
    assert message.tool == "bump"
    assert not message.is_task


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', Kind.REQUEST),
        (b'{"id":"a","method":"ping","params":[1]}', Kind.REQUEST),
        (b'{"id":null,"method":"ping"}', Kind.REQUEST),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', Kind.NOTIFICATION),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', Kind.RESULT),
        (b'{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1}}', Kind.ERROR),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}', Kind.RESULT),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":1}}', Kind.ERROR),
        (b'{"jsonrpc":"2.0","error":{"code":1}}', Kind.ERROR),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', Kind.INVALID),
        (b'{"jsonrpc":"2.0","result":{}}', Kind.INVALID),
        (b'{"jsonrpc":"2.0","id":1}', Kind.INVALID),
        (b'{"id":[1],"method":"ping"}', Kind.INVALID),
        (b'{"id":true,"method":"ping"}', Kind.INVALID),
        (b'{"id":1,"method":7}', Kind.INVALID),
        (b"[]", Kind.INVALID),
        (b"", Kind.INVALID),
        (b'{"id":1,"method":"ping"', Kind.INVALID),
        (b'{"id":1,"method":"ping"} x', Kind.INVALID),
    ],
)
def test_the_kind_of_a_message(raw: bytes, kind: Kind) -> None:
    assert jsonrpc.read_message(raw).kind is kind


@pytest.mark.parametrize(
    "text", [b"1", b"-5", b'"1"', b'"a\\"b"', b"null", b"1.50", b"1e400", b"9007199254740993"]
)
def test_an_id_keeps_its_text(text: bytes) -> None:
    assert jsonrpc.read_message(b'{"id": %b ,"method":"ping"}' % text).id == text


def test_tokens_and_cancels_of_notifications() -> None:
    progress = jsonrpc.read_message(
        b'{"method":"notifications/progress","params":{"progressToken":4,"progress":1}}'
    )
    cancel = jsonrpc.read_message(b'{"method":"notifications/cancelled","params":{"requestId":"r"}}')
    other = jsonrpc.read_message(b'{"method":"notifications/message","params":{"progressToken":4}}')

    assert (progress.token, progress.cancels) == (b"4", None)
    assert (cancel.token, cancel.cancels) == (None, b'"r"')
    assert (other.token, other.cancels) == (None, None)


def test_parts_are_empty_where_they_are_absent_or_no_objects() -> None:
    message = jsonrpc.read_message(b'{"id":1,"method":"tools/call","params":[1]}')

    assert message.params() == {}
    assert message.result() == {}
    assert message.error() == {}
    assert message.tool is None


def test_parts_are_left_raw() -> None:
    result = jsonrpc.read_message(b'{"id":1,"result":{"a": [1, 2.50]}}').result()
    error = jsonrpc.read_message(b'{"id":1,"error":{"code": -1}}').error()

    assert bytes(result["a"]) == b"[1, 2.50]"
    assert bytes(error["code"]) == b"-1"


def test_a_task_augmented_call_is_seen() -> None:
    assert jsonrpc.read_message(b'{"id":1,"method":"tools/call","params":{"task":{}}}').is_task


def test_a_batch_keeps_its_members_and_invalid_ones_too() -> None:
    body = jsonrpc.read_body(b' [{"id":1,"method":"ping"}, 5 ,{"method":"notifications/initialized"}]')

    assert body is not None
    assert body.is_batch
    assert [message.kind for message in body.messages] == [Kind.REQUEST, Kind.INVALID, Kind.NOTIFICATION]
    assert [message.id for message in body.requests] == [b"1"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"[1]",
        b"{}",
        b"x",
        b"[",
        b"\xff",
        b'{"\xff":1}',
        b'{"a":' + b"[" * 100_000,
        b"[" * 100_000,
    ],
)
def test_what_is_no_json_rpc_is_no_body(raw: bytes) -> None:
    assert jsonrpc.read_body(raw) is None


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


def test_our_own_messages_are_one_line_each() -> None:
    assert jsonrpc.error_response(b'"a"', -32050, "outcome\nunknown", {"generation": 2}) == (
        b'{"jsonrpc":"2.0","id":"a","error":{"code":-32050,"message":"outcome\\nunknown","data":{"generation":2}}}'
    )
    assert jsonrpc.notification("notifications/x", {"a": 1}) == (
        b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}'
    )
    assert jsonrpc.request(b"7", "ping", None) == b'{"jsonrpc":"2.0","id":7,"method":"ping"}'
    assert jsonrpc.request(b"7", "x", {}) == b'{"jsonrpc":"2.0","id":7,"method":"x","params":{}}'


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"0", IdType.INT),
        (b"-9007199254740991", IdType.INT),
        (b"9007199254740991", IdType.INT),
        (b"9007199254740992", IdType.OTHER),
        (b"-0", IdType.OTHER),
        (b"1.0", IdType.OTHER),
        (b"1e3", IdType.OTHER),
        (b"1e400", IdType.OTHER),
        (b"null", IdType.OTHER),
        (b"9" * 5000, IdType.OTHER),
        (b'""', IdType.STR),
        (b'"7"', IdType.STR),
    ],
)
def test_which_ids_can_be_stamped(text: bytes, kind: IdType) -> None:
    assert jsonrpc.id_type(text) is kind


def test_ids_are_the_same_only_with_their_type() -> None:
    assert jsonrpc.same_id(b"1", b"1")
    assert jsonrpc.same_id(b'"a"', b'"\\u0061"')
    assert not jsonrpc.same_id(b"1", b'"1"')
    assert not jsonrpc.same_id(b"1", b"2")
    assert not jsonrpc.same_id(b"null", b"1")


def test_a_stamp_that_comes_back_as_text_is_found() -> None:
    assert jsonrpc.stamp_key(b"123") == b"123"
    assert jsonrpc.stamp_key(b'"123"') == b"123"
    assert jsonrpc.stamp_key(b'"\\u0061b"') == b"ab"
