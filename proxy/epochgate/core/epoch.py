"""What a message says about the epoch of its session, and how that compares (R7, R8, W15).

Epochs are opaque: canonical JSON text within `_meta`, bytes within a header, never one against the
other. Only the named places of a message count; the same words in a tool's result mean nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from epochgate.core.axes import Match
from epochgate.core.http import Headers, fields
from epochgate.core.jsontext import UNREADABLE, Members, has_unique_keys, read_array, read_object, read_string

CONFLICT = b"!conflict"  # no JSON text: a message that contradicts itself, equal to nothing

_PLACES = (("result",), ("params",), ("error", "data"))
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")  # a key may be written so and escape a byte search
_ESCAPE = re.compile(rb"\\u([0-9a-f]{4})")
_DECIMAL = re.compile(rb"(-?[0-9]+\.[0-9]*?)0*")


@dataclass(frozen=True, slots=True)
class Epoch:
    """What was captured at `initialize`, for each carrier."""

    meta: bytes | None
    header: bytes | None
    is_captured: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_captured", self.is_in_messages or _is_usable(self.header))

    @property
    def is_in_messages(self) -> bool:
        """Whether messages state it, so that one without a stamp can be proven (R6)."""
        return _is_usable(self.meta)


def compare(captured: Epoch, meta: bytes | None, header: bytes | None) -> Match:
    """Each captured carrier must agree where it is stated; carriers are never mixed (R8)."""
    if not captured.is_captured:
        return Match.NOT_CAPTURED
    pairs = ((captured.meta, meta), (captured.header, header))
    if any(_is_usable(known) and stated not in (None, known) for known, stated in pairs):
        return Match.DIFFERENT
    if _is_usable(captured.meta):
        return Match.ABSENT if meta is None else Match.EQUAL
    return Match.ABSENT if header is None else Match.HEADER_EQUAL


def _is_usable(stated: bytes | None) -> bool:
    return stated is not None and stated != CONFLICT


def stated_in_headers(headers: Headers, name: bytes) -> bytes | None:
    """The value of the header called `name` (lower case); CONFLICT if it stands twice, unequal."""
    if name not in fields(headers):
        return None
    values = {value.strip() for key, value in headers if key.lower() == name} - {b""}
    return _agreed(values)


def stated_in(raw: bytes, keys: Sequence[str]) -> bytes | None:
    """The canonical text of the first of `keys` that the message states at its named places.

    CONFLICT if places differ, a key on the way stands twice, or the members of a batch do not all
    state the same. None if it states nothing or cannot be read; never raises.
    """
    if not _may_state(raw, keys):
        return None
    members = read_array(raw)
    if members is None:
        return _stated_by_message(raw, keys)
    stated = {_stated_by_message(bytes(member), keys) for member in members}
    return CONFLICT if len(stated) > 1 else next(iter(stated), None)


def _may_state(raw: bytes, keys: Sequence[str]) -> bool:
    if any(form in raw for key in keys for form in written(key)):
        return True
    return _may_hide(raw, keys)


def _may_hide(raw: bytes, keys: Sequence[str]) -> bool:
    """Whether one of `keys` may stand in `raw` with escapes, where no search for it as it is finds it."""
    if b"\\u" not in raw:
        return False
    return _ESCAPED_ASCII.search(raw) is not None or not all(key.isascii() for key in keys)


def written(key: str) -> tuple[bytes, ...]:
    """How servers write a key in JSON: some escape the slash, many all that is not ASCII."""
    plain = msgspec.json.encode(key)[1:-1]
    forms = [plain]
    if not key.isascii():
        escaped = json.dumps(key)[1:-1].encode()
        forms += [escaped, _ESCAPE.sub(lambda found: b"\\u" + found[1].upper(), escaped)]
    if b"/" in plain:
        forms += [form.replace(b"/", b"\\/") for form in forms]
    return tuple(dict.fromkeys(forms))


def _stated_by_message(raw: bytes, keys: Sequence[str]) -> bytes | None:
    top = read_object(raw)
    if top is None:
        return None
    stated = {_stated_at(top, place, keys) for place in _PLACES} - {None}
    if stated and not has_unique_keys(raw, top):
        return CONFLICT
    return _agreed(text for text in stated if text is not None)


def _stated_at(top: Members, place: Sequence[str], keys: Sequence[str]) -> bytes | None:
    members = top
    is_sound = True
    for name in (*place, "_meta"):
        raw = bytes(members[name]) if name in members else b""
        inner = read_object(raw)
        if inner is None:
            return None
        is_sound = is_sound and has_unique_keys(raw, inner)
        members = inner
    for key in keys:
        if key in members and (text := canonical(bytes(members[key]))) != b"null":
            return text if is_sound else CONFLICT
    return None


def _agreed(stated: Iterable[bytes]) -> bytes | None:
    values = set(stated)
    return CONFLICT if len(values) > 1 else next(iter(values), None)


def canonical(value: bytes) -> bytes:
    """One text for JSON texts of the same value: escapes, white space and zeros after the point.

    Digits are never rounded. Texts that only a number library would call equal (`1e3` and `1000`)
    or with members in another order stay different: a needless restart, never a splice.
    """
    if value[:1] == b'"':
        text = read_string(value)
        return value if text is None else msgspec.json.encode(text)
    if value[:1] in (b"{", b"["):
        try:
            return msgspec.json.format(value, indent=-1)
        except UNREADABLE:
            return value  # half of a surrogate pair is in it, or it is too deep
    decimal = _DECIMAL.fullmatch(value)
    return decimal[1].removesuffix(b".") if decimal else value


def fast_equal_count(block: bytes, keys: Sequence[str], captured: bytes | None) -> bool:
    """Whether nothing in a block of events can state another epoch than `captured`.

    Proven by counting: each key occurs only as `"key":captured`. False means: take it apart.
    """
    if _may_hide(block, keys):
        return False
    for key in keys:
        found = sum(block.count(form) for form in written(key))
        if found and (captured is None or found != _count_stated(block, key, captured)):
            return False
    return True


def _count_stated(block: bytes, key: str, captured: bytes) -> int:
    ends = (b"",) if captured[-1:] == b'"' else (b",", b"}")
    return sum(
        block.count(b'"%b":%b%b%b' % (form, space, captured, end))
        for form in written(key)
        for space in (b"", b" ")
        for end in ends
    )
