"""Values as text: what needs quotes gets them, whichever YAML a reader speaks."""

from __future__ import annotations

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from hypothesis import given
from hypothesis import strategies as st

from epochgate.inject.writing import Indents, in_lines, scalar

VALUE = {"a": {"b": [{"c": 1, "d": ["e"]}, {"f": True}]}, "g": "yes"}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("hinted", "hinted"),
        ("epochgate:0.1.0", "epochgate:0.1.0"),
        ("registry.example:5000/epochgate@sha256:ab", "registry.example:5000/epochgate@sha256:ab"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("/readyz", "/readyz"),
        ("100m", "100m"),
        ("64Mi", "64Mi"),
        ("0.0.0.0:8808", '"0.0.0.0:8808"'),
        ("", '""'),
        ("a b", '"a b"'),
        ("a: b", '"a: b"'),
        ("a#b", '"a#b"'),
        ("[a]", '"[a]"'),
        ("ä", '"ä"'),
        ('"', '"\\""'),
        # What some reader takes for a truth or a number.
        ("yes", '"yes"'),
        ("off", '"off"'),
        ("y", '"y"'),
        ("N", '"N"'),
        ("null", '"null"'),
        ("1", '"1"'),
        ("1e3", '"1e3"'),
        ("0o7", '"0o7"'),
        ("1:30", '"1:30"'),
        ("2026-01-01", '"2026-01-01"'),
        (True, "true"),
        (8000, "8000"),
    ],
)
def test_words_are_quoted_where_they_may_be_misread(value: str | int | bool, written: str) -> None:
    assert scalar(value) == written


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cn", "Zl", "Zp"]), max_size=20))
def test_what_is_written_is_read(value: str) -> None:
    assert yaml.safe_load(f"a: {scalar(value)}  # b\n") == {"a": value}


def test_lists_are_indented_as_asked_for() -> None:
    assert "\n".join(in_lines(VALUE, 1, Indents())) == (
        ' a:\n   b:\n     - c: 1\n       d:\n         - e\n     - f: true\n g: "yes"'
    )
    assert "\n".join(in_lines(VALUE, 0, Indents(nested=4, dash=0, item=3))) == (
        'a:\n    b:\n    -  c: 1\n       d:\n       -  e\n    -  f: true\ng: "yes"'
    )
