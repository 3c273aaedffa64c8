"""The examples of the file of settings are read as they are, and with everything in them that is off."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from epochgate.loading import load
from epochgate.settings import RELOADED, SECRETS, Settings
from tests.deploy.packaging import ROOT
from tests.peers.install import Peers

FOLDER = ROOT / "config"
SCHEMA = FOLDER / "settings.schema.json"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))
each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)

# Settings that no example shows, and why.
LEFT_OUT = {
    "the file itself": {"config"},
    "given by variables only": SECRETS,
    "how epochgate speaks to servers that nothing but it has met": {
        "stamp", "advertise_epoch", "gone_pattern", "stateless_revisions",
    },
    "the default is right unless docs/limits.md says that a case is another": {
        "retain", "resume_deadline", "resume_headers", "ping", "max_silence", "poll_grace", "cancel_grace",
        "takeover_interval", "body_timeout", "max_header", "max_headers", "write_buffer", "journal_stream",
        "max_tombstones", "max_reissues", "max_not_run_reissues", "max_resumes_without_message",
        "max_heals_per_minute",
    },
}  # fmt: skip


def with_everything(text: str) -> str:
    """The example with each setting that is off switched on; of two values of a setting, the later one."""
    lines = re.sub(r"(?m)^#(?=\w+:)", "", text).splitlines(keepends=True)
    last = {line.partition(":")[0]: line for line in lines if re.match(r"\w+:", line)}
    return "".join(line for line in lines if last.get(line.partition(":")[0], line) is line)


def settings_of(text: str) -> dict[str, object]:
    values = yaml.safe_load(text)
    assert isinstance(values, dict)
    return values


def test_there_is_an_example_of_each_mode() -> None:
    assert [path.name for path in EXAMPLES] == ["gateway.yaml", "sidecar.yaml"]


@each_example
def test_an_example_is_read_as_it_is(example: Path) -> None:
    settings = load({"config": str(example)}, {})

    assert settings.upstream
    assert [str(place) for place in (*settings.listen, *settings.health, *settings.admin)] == [
        "0.0.0.0:8808",
        "0.0.0.0:8810",
        "127.0.0.1:8809",
    ]


@each_example
def test_an_example_is_read_with_everything_that_is_off_in_it(example: Path, tmp_path: Path) -> None:
    text = with_everything(example.read_text()).replace("/etc/epochgate", str(tmp_path))
    for name in re.findall(rf"{tmp_path}/(secrets/\S+)", text):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("s3cret")
    (tmp_path / "everything.yaml").write_text(text)

    settings = load({"config": str(tmp_path / "everything.yaml")}, {})

    assert set(settings_of(text)) <= settings.model_fields_set


def test_every_setting_is_in_an_example_or_left_out_for_a_reason() -> None:
    shown = {name for path in EXAMPLES for name in settings_of(with_everything(path.read_text()))}
    left_out = [name for names in LEFT_OUT.values() for name in names]

    assert len(left_out) == len(set(left_out))
    assert shown.isdisjoint(left_out)
    assert shown | set(left_out) == set(Settings.model_fields)


@each_example
def test_what_an_example_says_is_taken_at_once_is(example: Path) -> None:
    """By section: a headline that says so has those settings alone."""
    sections = re.split(r"(?m)^# --- (.+?) -+$", with_everything(example.read_text()))
    at_once = [body for title, body in zip(sections[1::2], sections[2::2], strict=True) if "at once" in title]

    assert at_once
    assert {name for body in at_once for name in settings_of(body)} <= RELOADED


def test_what_a_section_says_needs_a_restart_does() -> None:
    (body,) = re.findall(r"(?s)until a restart -+\n(.+?)\n# ---", (FOLDER / "sidecar.yaml").read_text())

    assert set(settings_of(body)).isdisjoint(RELOADED)


@each_example
def test_an_example_keeps_to_the_schema(example: Path, peers: Peers, tmp_path: Path) -> None:
    """To the one that `epochgate config --schema` prints, and to the file beside the examples for editors."""
    printed = tmp_path / "printed.json"
    command = [sys.executable, "-m", "epochgate", "config", "--schema"]
    printed.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    everything = tmp_path / example.name
    everything.write_text(with_everything(example.read_text()))

    for schema in filter(Path.exists, (printed, SCHEMA)):
        checker = [str(peers.kubernetes), "-m", "check_jsonschema", "--schemafile", str(schema)]
        judged = subprocess.run([*checker, example, everything], capture_output=True, text=True, check=False)
        assert judged.returncode == 0, judged.stdout + judged.stderr
