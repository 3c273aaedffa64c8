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


def test_a_call_with_half_of_a_surrogate_pair_is_read_as_any_other() -> None:
    """JavaScript writes one where a string was cut."""
    message = jsonrpc.read_message(CALL.replace(b'{"n": 17}', b'{"q":"\\ud83d"}'))

    assert (message.id, message.token, message.tool) == (b"17", b'"p1"', "bump")


def test_an_answer_that_was_read_without_its_places_is_located_later() -> None:
    answer = jsonrpc.read_message(b'{"id":1,"result":{}}', is_located=False)
    assert (answer.kind, answer.id, answer.is_rewritable) == (Kind.RESULT, b"1", False)

    assert jsonedit.rewrite(jsonrpc.located(answer), id=b"77") == b'{"id":77,"result":{}}'


def test_a_member_keeps_its_text() -> None:
    assert jsonrpc.member(b'{"id":1,"result":{ "a":1.50}}', "result") == b'{ "a":1.50}'
    assert jsonrpc.member(b'{"id":1}', "result") is None
    assert jsonrpc.member(b"[1]", "result") is None


@pytest.mark.parametrize(
    ("raw", "places"),
    [
        (b'{"id":1,"result":{"id":1}}', {"id": (6, 7)}),
        (b'{"result":{"id":1},"id" : 1}', {"id": (26, 27)}),
        (b'{"id":1,"result":{"text":"\\u0041"}}', {"id": (6, 7)}),
        (b'{"\\u0069d":1,"result":{"id":1}}', {"id": (11, 12)}),
        (
            b'{"id":1,"method":"m","params":{"_meta":{"progressToken":"t"}}}',
            {"id": (6, 7), "token": (56, 59)},
        ),
        (b'{"method":"notifications/cancelled","params":{"requestId":7}}', {"cancels": (58, 59)}),
        (b'{"error":{"code":1}}', {}),
    ],
)
def test_it_is_known_where_what_may_have_to_be_replaced_stands(
    raw: bytes, places: dict[str, tuple[int, int]]
) -> None:
    message = jsonrpc.read_message(raw)

    assert message.is_rewritable
    assert message.spans == places


@pytest.mark.parametrize(
    "raw",
    [
        b'{"id":1,"result":{},"id":2}',
        b'{"id":1,"result":{},"\\u0069d":1}',
        b'{"id":1,"method":"tools/call","params":{"name":"a","name":"b"}}',
        b'{"id":1,"method":"ping","params":{"x":"\xff"}}',
    ],
)
def test_where_a_key_stands_twice_or_text_is_no_utf8_nothing_is_replaced(raw: bytes) -> None:
    message = jsonrpc.read_message(raw)

    assert message.id in (b"1", b"2")
    assert not message.is_rewritable
    assert message.spans == {}


@pytest.mark.parametrize(
    ("raw", "is_response"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', True),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1}}', True),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', False),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', False),
    ],
)
def test_results_and_errors_are_responses(raw: bytes, is_response: bool) -> None:
    assert jsonrpc.read_message(raw).is_response is is_response


def test_less_its_text_a_message_is_still_known_by_what_it_is() -> None:
    raw = b'{"id":17,"method":"tools/call","params":{"name":"bump","task":{},"_meta":{"progressToken":"p"}}}'

    rest = jsonrpc.without_text(jsonrpc.read_message(raw))

    assert (rest.raw, rest.kind, rest.id, rest.method) == (b"", Kind.REQUEST, b"17", "tools/call")
    assert (rest.token, rest.tool, rest.is_task) == (b'"p"', "bump", True)
    assert not rest.is_rewritable
