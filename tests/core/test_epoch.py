"""What messages state about their session, and how that compares (R7, R8, W15)."""

from __future__ import annotations

import pytest

from epochgate.core import epoch
from epochgate.core.axes import Match
from epochgate.core.epoch import CONFLICT, Epoch

KEYS = ("session_epoch",)


@pytest.mark.parametrize(
    ("raw", "stated"),
    [
        (b'{"id":1,"result":{"_meta":{"session_epoch":7}}}', b"7"),
        (b'{"method":"n","params":{"_meta":{"session_epoch":"7"}}}', b'"7"'),
        (b'{"id":1,"error":{"code":1,"data":{"_meta":{"session_epoch":7}}}}', b"7"),
        (b'{"id":1,"result":{"_meta":{"session\\u005fepoch":7}}}', b"7"),
        (b'{"id":1,"result":{"_meta":{"session_epoch":null}}}', None),
        (b'{"id":1,"result":{"_meta":{}}}', None),
        (b'{"id":1,"result":{"_meta":"session_epoch"}}', None),
        (b'{"id":1,"result":[{"_meta":{"session_epoch":7}}]}', None),
        (b'{"id":1,"result":{"session_epoch":7}}', None),
        (b'{"id":1,"_meta":{"session_epoch":7},"result":{}}', None),
        (b'{"id":1,"result":{"content":[{"_meta":{"session_epoch":7}}]}}', None),
        (b'{"id":1,"result":{"structuredContent":{"_meta":{"session_epoch":7}}}}', None),
        (b'{"id":1,"result":{"content":[{"text":"{\\"_meta\\":{\\"session_epoch\\":7}}"}]}}', None),
        (b'{"id":1,"error":{"code":1,"_meta":{"session_epoch":7}}}', None),
        (b'{"id":1,"result":{"_meta":{"session_epoch":7}', None),
        (b"session_epoch", None),
        (b"", None),
    ],
)
def test_only_the_named_places_state_an_epoch(raw: bytes, stated: bytes | None) -> None:
    """Others may hold anything (R8)."""
    assert epoch.stated_in(raw, KEYS) == stated


def test_a_forged_copy_inside_a_result_does_not_hide_the_true_one() -> None:
    """Nor does it stand for it (W15)."""
    raw = b'{"result":{"structuredContent":{"session_epoch":1},"_meta":{"session_epoch":2}},"id":1}'

    assert epoch.stated_in(raw, KEYS) == b"2"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"result":{"_meta":{"session_epoch":1}},"params":{"_meta":{"session_epoch":2}}}',
        b'{"result":{"_meta":{"session_epoch":1,"session_epoch":1}}}',
        b'{"result":{"_meta":{"session_epoch":1},"_meta":{"session_epoch":1}}}',
        b'{"result":{"_meta":{"session_epoch":2}},"result":{"_meta":{"session_epoch":1}}}',
    ],
)
def test_a_message_that_contradicts_itself_states_a_conflict(raw: bytes) -> None:
    assert epoch.stated_in(raw, KEYS) == CONFLICT


def test_the_first_of_several_keys_that_is_stated_counts() -> None:
    raw = b'{"result":{"_meta":{"b":2,"x\\/epoch":3}}}'

    assert epoch.stated_in(raw, ("a", "b", "x/epoch")) == b"2"
    assert epoch.stated_in(raw, ("a", "x/epoch", "b")) == b"3"
    assert epoch.stated_in(raw, ("a",)) is None


def test_a_batch_states_what_all_of_its_members_state() -> None:
    """Or nothing that equals anything (R8)."""
    member = b'{"method":"n","params":{"_meta":{"session_epoch":%b}}}'
    one, two, none = member % b"1", member % b"2", b'{"method":"n"}'

    assert epoch.stated_in(b"[%b,%b]" % (one, one), KEYS) == b"1"
    assert epoch.stated_in(b" [%b,%b]" % (one, two), KEYS) == CONFLICT
    assert epoch.stated_in(b"[%b,%b]" % (one, none), KEYS) == CONFLICT
    assert epoch.stated_in(b"[%b]" % none, KEYS) is None


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (b"7", b"7"),
        (b"7.0", b"7"),
        (b"-7.50", b"-7.5"),
        (b"70", b"70"),
        (b"1.123456789012345678901", b"1.123456789012345678901"),
        (b"123456789012345678901234567890", b"123456789012345678901234567890"),
        (b"1e3", b"1e3"),
        (b'"\\u0061\\/b"', b'"a/b"'),
        (b'"7"', b'"7"'),
        (b'{ "b" : [1, 2] }', b'{"b":[1,2]}'),
        (b"true", b"true"),
    ],
)
def test_texts_of_one_value_have_one_canonical_form(text: bytes, canonical: bytes) -> None:
    """`7.0` is `7`; `"7"` is not (R8)."""
    assert epoch.canonical(text) == canonical


def test_a_header_states_its_value() -> None:
    headers = ((b"Mcp-Session-Epoch", b" 7 "), (b"x", b"8"))

    assert epoch.stated_in_headers(headers, b"mcp-session-epoch") == b"7"
    assert epoch.stated_in_headers(headers, b"y") is None
    assert epoch.stated_in_headers(((b"a", b""),), b"a") is None
    assert epoch.stated_in_headers(((b"a", b"1"), (b"A", b"1")), b"a") == b"1"
    assert epoch.stated_in_headers(((b"a", b"1"), (b"A", b"2")), b"a") == CONFLICT


@pytest.mark.parametrize(
    ("captured", "meta", "header", "match"),
    [
        (Epoch(None, None), b"7", b"7", Match.NOT_CAPTURED),
        (Epoch(CONFLICT, None), CONFLICT, None, Match.NOT_CAPTURED),
        (Epoch(b"7", None), b"7", None, Match.EQUAL),
        (Epoch(b"7", None), b"8", None, Match.DIFFERENT),
        (Epoch(b"7", None), None, None, Match.ABSENT),
        (Epoch(b"7", None), CONFLICT, None, Match.DIFFERENT),
        (Epoch(b"7", None), None, b"7", Match.ABSENT),
        (Epoch(b'"7"', None), b"7", None, Match.DIFFERENT),
        (Epoch(None, b"7"), None, b"7", Match.HEADER_EQUAL),
        (Epoch(None, b"7"), None, b"8", Match.DIFFERENT),
        (Epoch(None, b"7"), None, None, Match.ABSENT),
        (Epoch(None, b"7"), b"7", None, Match.ABSENT),
        (Epoch(b"7", b"h"), b"7", b"h", Match.EQUAL),
        (Epoch(b"7", b"h"), b"7", None, Match.EQUAL),
        (Epoch(b"7", b"h"), b"7", b"x", Match.DIFFERENT),
        (Epoch(b"7", b"h"), b"8", b"h", Match.DIFFERENT),
        (Epoch(b"7", b"h"), None, b"h", Match.ABSENT),
        (Epoch(b"7", CONFLICT), b"7", b"x", Match.EQUAL),
    ],
)
def test_each_captured_carrier_must_agree_where_it_is_stated(
    captured: Epoch, meta: bytes | None, header: bytes | None, match: Match
) -> None:
    """Never one against the other (R8)."""
    assert epoch.compare(captured, meta, header) is match


EVENT = b'data: {"method":"n","params":{"_meta":{"session_epoch":%b}}}\n\n'


@pytest.mark.parametrize(
    ("block", "captured", "is_proven"),
    [
        (b'data: {"method":"n"}\n\n', b"7", True),
        (EVENT % b"7", b"7", True),
        (EVENT % b" 7", b"7", True),
        (EVENT % b'"a"' + EVENT % b'"a"', b'"a"', True),
        (EVENT % b"8", b"7", False),
        (EVENT % b"71", b"7", False),
        (EVENT % b"7" + EVENT % b"8", b"7", False),
        (EVENT % b"  7", b"7", False),
        (b'data: {"text":"\\"session_epoch\\":7"}\n\n', b"7", False),
        (b'data: {"_meta":{"session\\u005fepoch":8}}\n\n', b"7", False),
        (b'data: {"text":"\\u00e9"}\n\n', b"7", True),
        (EVENT % b"7", None, False),
        (b'data: {"method":"n"}\n\n', None, True),
    ],
)
def test_a_block_is_usual_if_nothing_in_it_can_state_another_epoch(
    block: bytes, captured: bytes | None, is_proven: bool
) -> None:
    """The byte search is a filter before parsing (R8)."""
    assert epoch.fast_equal_count(block, KEYS, captured) is is_proven


@pytest.mark.parametrize("text", [b'{ "a" : "\\ud83d" }', b'[1, "\\ud83d"]', b"[" * 100_000])
def test_an_epoch_that_cannot_be_read_is_compared_as_it_stands(text: bytes) -> None:
    """Another text is another epoch: a needless restart, never a splice (R8)."""
    assert epoch.canonical(text) == text


def test_an_epoch_with_cut_text_is_the_same_only_byte_for_byte() -> None:
    raw = b'{"id":5,"result":{"_meta":{"session_epoch":%b}}}'
    stated = epoch.stated_in(raw % b'{"a":"\\ud83d"}', KEYS)

    assert stated == b'{"a":"\\ud83d"}'
    assert epoch.compare(Epoch(stated, None), b'{"a": "\\ud83d"}', None) is Match.DIFFERENT


@pytest.mark.parametrize("key", ["époque".encode(), b"\\u00e9poque", b"\\u00E9poque", b"\\u00e9poq\\u0075e"])
def test_a_key_that_is_not_ascii_is_found_however_it_is_escaped(key: bytes) -> None:
    """Python's own writer of JSON escapes it."""
    message = b'{"result":{"_meta":{"%b":8}}}' % key
    assert epoch.stated_in(message, ("époque",)) == b"8"
    assert not epoch.fast_equal_count(b"data: %b\n\n" % message, ("époque",), b"7")


def test_a_key_of_which_a_part_is_escaped_is_found() -> None:
    message = b'{"result":{"_meta":{"%b\\u00e9":8}}}' % "é".encode()
    assert epoch.stated_in(message, ("éé",)) == b"8"
    assert not epoch.fast_equal_count(b"data: %b\n\n" % message, ("éé",), b"7")


def test_the_forms_in_which_a_key_is_written() -> None:
    assert epoch.written("epoch") == (b"epoch",)
    assert epoch.written("x.dev/é") == (
        "x.dev/é".encode(),
        b"x.dev/\\u00e9",
        b"x.dev/\\u00E9",
        "x.dev\\/é".encode(),
        b"x.dev\\/\\u00e9",
        b"x.dev\\/\\u00E9",
    )
