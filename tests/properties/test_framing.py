"""Bytes cut anywhere and messages of any shape: what the fast ways do equals what the plain way does."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from epochgate.core import epoch, eventforms, jsonedit, jsonrpc, sse
from epochgate.core.scan import TopLevelReplacer

LINES = [b"data: x", b"data", b"id: 1", b": note", b"event: message", b"retry: 5", b"\xef\xbb\xbf"]
ENDS = [b"\n", b"\r", b"\r\n"]
STREAMS = st.lists(st.sampled_from(LINES + ENDS * 3), max_size=40).map(b"".join)
CUTS = st.lists(st.integers(0, 12), min_size=1, max_size=30)
LAST = b"data: last\n\n"


def _cut(data: bytes, sizes: list[int]) -> list[bytes]:
    chunks = []
    for size in sizes:
        chunks.append(data[:size])
        data = data[size:]
    return [*chunks, data]


def _lines(data: bytes) -> list[bytes]:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def _events(stream: bytes) -> list[list[bytes]]:
    """The lines of each event, by the WHATWG's rules for lines."""
    events: list[list[bytes]] = [[]]
    for line in _lines(stream.removeprefix(b"\xef\xbb\xbf")):
        if line:
            events[-1].append(line)
        else:
            events.append([])
    return events


def _read(raw: bytes) -> list[bytes]:
    return [line for line in _lines(raw) if line]


@given(STREAMS, CUTS)
def test_a_stream_has_the_same_events_however_it_is_cut(stream: bytes, sizes: list[int]) -> None:
    framer = sse.Framer()
    stream += LAST

    events = [event for chunk in _cut(stream, sizes) for event in sse.split(framer.feed(chunk))]

    assert [*map(_read, events), []] == _events(stream)[:-1]
    assert framer.pending == 0


@given(STREAMS, CUTS)
def test_an_event_streamed_through_in_parts_is_whole_on_the_other_side(
    stream: bytes, sizes: list[int]
) -> None:
    framer = sse.Framer()
    stream += LAST
    whole: list[bytes] = []
    part = b""

    for chunk in _cut(stream, sizes):
        block = sse.split(framer.feed(chunk))
        if block:
            whole += [part + block[0], *block[1:]]
            part = b""
        part += framer.take_tail()

    assert [*map(_read, whole), []] == _events(stream)[:-1]


@given(STREAMS)
def test_splitting_loses_nothing(stream: bytes) -> None:
    assert b"".join(sse.split(stream)) == stream


SHAPES = [
    b'event: message\ndata: {"a":1}\n\n',
    b'data: {"a":1}\n\n',
    b'id: u\nevent: message\ndata: {"a":1}\n\n',
    b'event: message\nid: u\ndata: {"a":1}\n\n',
    b'id: u\ndata: {"a":1}\n\n',
]
PIECES = [
    b"event: message\n",
    b'data: {"a":1}\n',
    b'data: {"',
    b"id: u\n",
    b"\n",
    b": c\n",
    b"retry: 1\n",
    b"data: \n",
]
BLOCKS = st.one_of(
    st.builds(lambda shape, count: shape * count, st.sampled_from(SHAPES), st.integers(1, 4)),
    st.lists(st.sampled_from(SHAPES + PIECES), min_size=1, max_size=8).map(
        lambda parts: b"".join(parts) + b"\n\n"
    ),
    st.lists(st.sampled_from(SHAPES + PIECES), min_size=1, max_size=8).map(b"".join),
)


@given(BLOCKS, st.sampled_from(ENDS), st.sampled_from(ENDS))
def test_a_whole_block_is_stamped_as_event_by_event(block: bytes, end: bytes, last: bytes) -> None:
    block = block.replace(b"\n", end)
    block = block.removesuffix(end) + last if block.endswith(end) else block
    events = [sse.parse(raw) for raw in sse.split(block)]
    one_by_one = b"".join(sse.with_cursor(event.raw, 9 + n) for n, event in enumerate(events))

    stamped = eventforms.stamp_cursors(block, 9)
    restamped = eventforms.restamp_cursors(block, 9)

    if stamped is not None:
        assert stamped == (one_by_one, len(events))
        assert all(event.is_message and event.id is None and event.retry is None for event in events)
    if restamped is not None:
        assert restamped[1] == [event.id for event in events]
        assert [sse.parse(raw).data for raw in sse.split(restamped[0])] == [event.data for event in events]
        assert [sse.parse(raw).id for raw in sse.split(restamped[0])] == [
            b"%d" % (9 + n) for n in range(len(events))
        ]
        assert all(event.is_message and event.retry is None for event in events)


KEYS = st.sampled_from(
    ["id", "params", "_meta", "progressToken", "result", "name", "method", "x", 'a"b', "ä", "\\"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([12345678901234, '"id":1', "id", "}{", "\\", "ä\n"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
IDS = st.one_of(st.integers(-5, 5), st.sampled_from(["a", "ä", '"id":1', 12345678901234]))


@st.composite
def written(draw: st.DrawFn, value: dict[str, Any]) -> bytes:
    """The text of an object in one of the ways that servers write JSON, members in any order."""
    keys = draw(st.permutations(list(value)))
    return json.dumps(
        {key: value[key] for key in keys},
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, None, 1])),
        separators=draw(st.sampled_from([None, (",", ":"), (" , ", " : ")])),
    ).encode()


@given(st.data(), IDS, IDS, OBJECTS)
def test_rewriting_changes_the_id_and_nothing_else(
    data: st.DataObject, old: int | str, new: int | str, result: dict[str, Any]
) -> None:
    document = {"jsonrpc": "2.0", "id": old, "result": result}
    raw = data.draw(written(document))

    message = jsonrpc.read_message(raw)
    changed = jsonedit.rewrite(message, id=json.dumps(new).encode())

    assert json.loads(changed) == document | {"id": new}
    assert jsonedit.rewrite(jsonrpc.read_message(changed), id=message.id) == raw


@given(st.data(), IDS, IDS, OBJECTS, OBJECTS)
def test_rewriting_changes_the_token_and_nothing_else(
    data: st.DataObject, old: int | str, new: int | str, params: dict[str, Any], meta: dict[str, Any]
) -> None:
    document: dict[str, Any] = {
        "id": 1,
        "method": "tools/call",
        "params": params | {"_meta": meta | {"progressToken": old}},
    }
    raw = data.draw(written(document))

    changed = jsonedit.rewrite(jsonrpc.read_message(raw), token=json.dumps(new).encode())

    document["params"]["_meta"]["progressToken"] = new
    assert json.loads(changed) == document


@given(
    st.binary(max_size=60)
    | st.lists(
        st.sampled_from(
            [b'"', b"{", b"}", b"[", b"]", b":", b",", b'"id"', b"1", b'"method"', b"\\", b"\xff", b" "]
        ),
        max_size=20,
    ).map(b"".join)
)
def test_nothing_that_a_peer_sends_makes_reading_fail(raw: bytes) -> None:
    body = jsonrpc.read_body(raw)
    epoch.stated_in(raw + b"session_epoch", ("session_epoch",))
    epoch.stated_in(raw, ("",))
    jsonedit.with_meta(raw, "k", b"1")
    jsonedit.without_meta(raw, ("k",))

    if body is not None:
        assert jsonedit.rewrite_batch(body, [message.raw for message in body.messages]) == raw


@given(st.data(), OBJECTS)
def test_a_mark_is_added_and_taken_out_again(data: st.DataObject, result: dict[str, Any]) -> None:
    document = {"id": 1, "result": result}
    raw = data.draw(written(document))

    marked = jsonedit.with_meta(raw, "k", b'{"a":1}')

    meta = result.get("_meta")
    expected = (meta if isinstance(meta, dict) else {}) | {"k": {"a": 1}}
    assert json.loads(marked) == document | {"result": result | {"_meta": expected}}
    stripped = json.loads(jsonedit.without_meta(marked, ("k",)))
    assert stripped["result"]["_meta"] == {key: value for key, value in expected.items() if key != "k"}


STAMPED = st.recursive(
    st.sampled_from([1, 12345678901234, 123456789012345, '"id": 12345678901234', "\\", "}{][", "x" * 30]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["id", "x", '"id', "id\\"]), inner, max_size=3),
    ),
    max_leaves=12,
)


@given(st.data(), st.dictionaries(st.sampled_from(["result", "x", '"id', "id\\"]), STAMPED, max_size=4), CUTS)
def test_the_scanner_replaces_what_a_parser_would(
    data: st.DataObject, members: dict[str, Any], sizes: list[int]
) -> None:
    document = members | {"id": 12345678901234}
    raw = data.draw(written(document))
    replacer = TopLevelReplacer(b"id", b"12345678901234", b'"new"')

    out = b"".join([*map(replacer.feed, _cut(raw, sizes)), replacer.finish()])

    assert json.loads(out) == document | {"id": "new"}
    assert replacer.count == 1


METAS = st.dictionaries(
    st.sampled_from(["session_epoch", "x"]), st.sampled_from([7, "7", 71, 7.0, None, "ä"]), max_size=2
)


@given(st.data(), st.lists(st.tuples(METAS, METAS), min_size=1, max_size=4))
def test_a_block_said_to_be_usual_states_no_other_epoch(
    data: st.DataObject, events: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    keys = ("session_epoch",)
    raws = [data.draw(written({"method": "n", "params": {"_meta": meta, "x": x}})) for meta, x in events]

    if epoch.fast_equal_count(b"".join(raws), keys, b"7"):
        assert {epoch.stated_in(raw, keys) for raw in raws} <= {None, b"7"}
