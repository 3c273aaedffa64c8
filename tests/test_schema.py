"""The JSON schema of the file of settings takes what the process takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from epochgate.limits import Limits
from epochgate.schema import DIALECT, file_schema, properties
from epochgate.settings import Settings
from epochgate.units import read_duration, read_size

WRITTEN = "0 300 300s 5m 5min 1h 1d 0.5h 500ms 5M 65536 64KiB 64kib 16MiB 1GiB 10MB 1b".split()
NOT_WRITTEN = ["", "s", "-5s", "5 weeks", "5sec", "16 Mi", "1e3", "1,5s", "five", "5m 3s", "0x10"]


def pattern_of(name: str) -> re.Pattern[str]:
    (text,) = [form["pattern"] for form in properties()[name]["anyOf"] if form["type"] == "string"]
    return re.compile(text)


def takes(read: Callable[[object], float], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def test_a_mistyped_setting_is_refused() -> None:
    schema = file_schema()
    assert schema["$schema"] == DIALECT
    assert schema["additionalProperties"] is False
    assert "required" not in schema


def test_every_setting_that_the_file_may_hold_is_there_and_described() -> None:
    secrets = {"admin_token", "tls_key_passphrase", "upstream_key_passphrase"}
    assert set(properties()) == set(Settings.model_fields) - secrets - {"config"}
    assert all(value["description"] for value in properties().values())


@pytest.mark.parametrize("text", WRITTEN + NOT_WRITTEN)
def test_durations_and_sizes_are_matched_as_they_are_read(text: str) -> None:
    assert bool(pattern_of("hold").search(text)) == takes(read_duration, text)
    assert bool(pattern_of("max_body").search(text)) == takes(read_size, text)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("max_header", {"type": "integer", "minimum": 1024}),
        ("connect", {"type": "number", "minimum": 0.001}),
        ("never_reissue", {"type": "array", "items": {"type": "string"}}),
        ("never_reissue", {"type": "string"}),
        ("admin", {"enum": [False, None]}),
    ],
)
def test_a_value_may_be_written_in_several_forms(name: str, form: dict[str, Any]) -> None:
    assert form in properties()[name]["anyOf"]


def test_what_is_off_may_be_written_without_quotes() -> None:
    off = {name: value for name, value in properties().items() if value.get("default") in ("off", False)}
    assert "health" in off
    for name, value in off.items():
        forms = value.get("anyOf", [value])
        assert any(False in form.get("enum", []) or form.get("type") == "boolean" for form in forms), name


def test_a_bare_on_or_off_is_taken_as_yaml_reads_it() -> None:
    assert properties()["stamp"]["enum"] == ["on", "ints_31", "off", True, False]
    assert properties()["access_log"]["enum"] == ["all", "notable", "off", False]
    assert properties()["log_level"]["enum"] == ["debug", "info", "warning", "error"]


def test_counts_are_whole_numbers_and_defaults_are_shown() -> None:
    count = properties()["max_sessions"]
    assert (count["type"], count["minimum"], count["default"]) == ("integer", 1, 10_000)
    assert properties()["state"]["default"] == "memory"
    assert "default" not in properties()["upstream"]


def test_places_and_choices_stand_before_the_limits() -> None:
    is_limit = [name in Limits.model_fields for name in properties()]
    assert is_limit == sorted(is_limit)
