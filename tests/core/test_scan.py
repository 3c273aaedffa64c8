"""Replacing a value at the top level of an object that is passed on in pieces (R9, R34)."""

from __future__ import annotations

import pytest

from epochgate.core import scan
from epochgate.core.scan import TopLevelReplacer

STAMP = b"12345678901234"


def _replaced(document: bytes, size: int, old: bytes = STAMP, new: bytes = b"7") -> bytes:
    replacer = TopLevelReplacer(b"id", old, new)
    parts = [replacer.feed(document[at : at + size]) for at in range(0, len(document), size)]
    return b"".join(parts) + replacer.finish()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 1000])
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (b'{"id":%b,"result":{}}', b'{"id":7,"result":{}}'),
        (b'{"result":{"a":1},"id":%b}', b'{"result":{"a":1},"id":7}'),
        (b'data: {"result":[{}] , "id" :\t%b }\n\n', b'data: {"result":[{}] , "id" :\t7 }\n\n'),
        (b'{"result":{"id":%b}}', b'{"result":{"id":12345678901234}}'),
        (b'{"result":[{"id":%b}],"id":%b}', b'{"result":[{"id":12345678901234}],"id":7}'),
        (b'{"x":"}{\\"[","id":%b}', b'{"x":"}{\\"[","id":7}'),
        (b'{"x":"{\\\\","id":%b}', b'{"x":"{\\\\","id":7}'),
        (b'{"x":"\\"id\\":%b,"}', b'{"x":"\\"id\\":12345678901234,"}'),
        (b'{"x":"{","y":{"id":%b}}', b'{"x":"{","y":{"id":12345678901234}}'),
        (b'{"id":%b5,"x":1}', b'{"id":123456789012345,"x":1}'),
        (b'{"id":-%b,"x":1}', b'{"id":-12345678901234,"x":1}'),
        (b'{"xid":%b,"x":1}', b'{"xid":12345678901234,"x":1}'),
        (b'{"\\"id":%b,"x":1}', b'{"\\"id":12345678901234,"x":1}'),
        (b'[{"id":%b}]', b'[{"id":12345678901234}]'),
    ],
)
def test_only_the_member_at_the_top_is_replaced_however_the_text_is_cut(
    document: bytes, expected: bytes, size: int
) -> None:
    assert _replaced(document.replace(b"%b", STAMP), size) == expected


@pytest.mark.parametrize("size", [1, 5, 100])
def test_a_text_stamp_is_replaced(size: int) -> None:
    document = b'{"result":{"id":"abc"},"x":"abc","id":"abc"}'

    assert (
        _replaced(document, size, b'"abc"', b'"client"') == b'{"result":{"id":"abc"},"x":"abc","id":"client"}'
    )


def test_what_was_fed_is_passed_on_but_for_the_length_of_the_stamp() -> None:
    replacer = TopLevelReplacer(b"id", STAMP, b"7")

    passed = replacer.feed(b'{"x":"' + b"y" * 1000)

    assert len(passed) == 1006 - len(STAMP) - 1
    assert replacer.finish() == b"y" * (len(STAMP) + 1)


def test_the_number_of_replacements_is_known() -> None:
    replacer = TopLevelReplacer(b"id", STAMP, b"7")
    replacer.feed(b'{"id":%b}' % STAMP)

    assert replacer.count == 1
    assert repr(replacer) == "<TopLevelReplacer depth 1, 1 replaced>"


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_stamp_that_came_back_as_text_is_replaced_with_its_quotes(size: int) -> None:
    """For servers that turn ids into text (R36)."""
    document = b'{"x":"%b","id":"%b","y":"%b"}' % (STAMP, STAMP, STAMP)

    assert _replaced(document, size) == b'{"x":"12345678901234","id":7,"y":"12345678901234"}'


@pytest.mark.parametrize("size", [1, 50, 1000])
def test_the_key_is_known_however_much_stands_before_it(size: int) -> None:
    document = b'{"result":"%b","id":%b}' % (b"y" * 300, STAMP)

    assert _replaced(document, size) == b'{"result":"%b","id":7}' % (b"y" * 300)


@pytest.mark.parametrize(
    ("text", "members"),
    [
        (b'{"jsonrpc":"2.0", "id" : 7 ,"result":{"x":', {b"jsonrpc": b'"2.0"', b"id": b"7", b"result": b""}),
        (b'data: {"id":7,"id":8,"x":[1', {b"id": b"7", b"x": b""}),
        (b'{"a":true,"b":12', {b"a": b"true", b"b": b""}),
        (b'{"a\\"":"\\"}","b', {b'a\\"': b'"\\"}"'}),
        (b'{"id":7}', {b"id": b"7"}),
        (b"{", {}),
        (b"data: 7", {}),
        (b"", {}),
    ],
)
def test_the_first_members_of_what_is_not_whole_are_read(text: bytes, members: dict[bytes, bytes]) -> None:
    """Up to the first value that is an object, an array or cut, which is empty; of two the first counts."""
    assert scan.leading_members(text) == members
