"""How servers are given, one URL or several, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochgate.loading import BadSettings, load

A, B = "http://a:8000", "https://b/base"
TWICE = "number 2 stands there twice; give each server once"
RIGHT = "give the server's URL, for example http://127.0.0.1:8000"


@pytest.mark.parametrize("text", [f"{A}, {B}", f"{A},{B}", f" {A} , {B}, "])
def test_several_servers_stand_in_one_line_with_commas(text: str) -> None:
    assert load({"upstream": text}, {}).upstream == (A, B)
    assert load({}, {"EPOCHGATE_UPSTREAM": text}).upstream == (A, B)


@pytest.mark.parametrize("text", [f"upstream: {A}, {B}", f"upstream: [{A}, {B}]", f"upstream:\n- {A}\n- {B}"])
def test_a_file_has_them_in_a_line_or_in_a_list(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    settings = load({"config": str(path)}, {})

    assert settings.upstream == (A, B)
    assert settings.effective()["upstream"] == f"{A}, {B}"


@pytest.mark.parametrize(
    ("upstream", "says"),
    [
        ("", "'': no URL; give the server's, for example http://127.0.0.1:8000"),
        (f"{A}, ftp://b", f"'{A}, ftp://b': number 2 is not an http or https URL; {RIGHT}"),
        (f"{A}, {A}/", f"'{A}, {A}/': {TWICE}"),
        (
            "http://a, http://A:80",
            "'http://a, http://A:80': number 2 stands there twice; give each server once",
        ),
        (
            f"{A}, http://me:se/cret@b",
            f"'{A}, http://***@b': number 2 is not a URL; {RIGHT}",
        ),
        (
            "http://me:secret@a",
            f"'http://***@a': a URL with credentials, a query or a fragment; {RIGHT}",
        ),
    ],
)
def test_the_wrong_one_is_named_and_no_password_is_shown(upstream: str, says: str) -> None:
    with pytest.raises(BadSettings) as told:
        load({"upstream": upstream}, {})
    assert str(told.value) == f"--upstream {says}"


def test_a_password_of_a_proxy_is_not_shown() -> None:
    with pytest.raises(BadSettings) as told:
        load({"upstream": A}, {"EPOCHGATE_UPSTREAM_PROXY": "http://me:secret@p:3128"})
    assert str(told.value) == (
        "EPOCHGATE_UPSTREAM_PROXY 'http://***@p:3128': has credentials; give environment, and the URL in the "
        "variable HTTPS_PROXY"
    )
