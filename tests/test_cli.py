"""The command line as people use it: in a process of its own, judged by exit code, stdout and stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from pydantic.fields import FieldInfo

from epochgate import __version__
from epochgate.arguments import UsageError
from epochgate.cli import EXIT_OK, EXIT_USAGE, main, read_flags
from epochgate.settings import SECRETS, Settings

DEADLINE_S = 30


def _run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("EPOCHGATE_")}
    return subprocess.run(
        [sys.executable, "-m", "epochgate", *words],
        env={**environ, **variables},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("run",), "upstream: not given; give --upstream http://127.0.0.1:8000"),
        (("run", "--upstream", "nope"), "--upstream 'nope': not an http or https URL"),
        (("run", "--hodl", "3"), "--hodl: no such flag; did you mean --hold?"),
        (("run", "--hol=3"), "--hol: no such flag; did you mean --hold?"),
        (("run", "--port", "80"), "--port: no such flag; did you mean --listen?"),
        (("run", "--url=http://h"), "--url: no such flag; did you mean --upstream?"),
        (("run", "loose"), "loose: no such flag; see `epochgate run --help`"),
        (("run", "--hold"), "argument --hold: expected one argument; see `epochgate run --help`"),
        (("config", "--upstream", "http://h:1", "--ping", "x"), "--ping 'x': not a duration"),
        (("check",), "the following arguments are required: URL; see `epochgate check --help`"),
        (("check", "http://h:1", "--jsno"), "--jsno: no such flag; did you mean --json?"),
        (("demo", "--jsno"), "--jsno: no such flag; did you mean --json?"),
        (("rnu",), "rnu: no such command; give run, demo, check, drain, inject, config or version"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(words: tuple[str, ...], line: str) -> None:
    ran = _run(*words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"epochgate: {line}")
    assert ran.stderr.count("\n") == 1


def test_a_mistyped_variable_is_exit_code_2() -> None:
    ran = _run("run", "--upstream", "http://h:1", EPOCHGATE_LISTNE="127.0.0.1:1")
    said = "epochgate: EPOCHGATE_LISTNE: no such setting; did you mean EPOCHGATE_LISTEN?\n"
    assert (ran.returncode, ran.stderr) == (2, said)


def test_version_and_help_are_exit_code_0() -> None:
    assert _run("version").stdout == f"epochgate {__version__}\n"
    shown = _run("--help")
    assert shown.returncode == 0
    assert "--upstream http://127.0.0.1:8000" in shown.stdout


def test_no_command_shows_the_help_on_stderr() -> None:
    ran = _run()
    assert (ran.returncode, ran.stdout) == (EXIT_USAGE, "")
    assert ran.stderr.startswith("usage: epochgate COMMAND")


def test_config_shows_what_is_in_force() -> None:
    ran = _run("config", "--upstream", "http://h:1", "--hold", "5m", EPOCHGATE_STAMP="off")
    assert ran.returncode == 0
    assert {
        "upstream: http://h:1  # --upstream",
        "hold: 300.0  # --hold",
        "stamp: 'off'  # EPOCHGATE_STAMP",
        "retain: 60.0  # default",
    } <= set(ran.stdout.splitlines())


def test_config_writes_its_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--schema"]) == EXIT_OK
    schema = json.loads(capsys.readouterr().out)
    assert set(schema["properties"]) == set(Settings.model_fields) - SECRETS - {"config"}
    assert schema["properties"]["reissue"]["enum"][0] == "always"


def _flagged() -> dict[str, FieldInfo]:
    """All but secrets, which other users of the machine would see."""
    return {name: field for name, field in Settings.model_fields.items() if name not in SECRETS}


def test_every_setting_is_a_flag() -> None:
    for name, field in _flagged().items():
        flag = f"--{name.replace('_', '-')}"
        assert read_flags("run", [flag, "true"]) == {name: "true"}, field
    assert read_flags("run", ["--reissue-when-away"]) == {"reissue_when_away": "true"}


def test_a_flag_is_never_taken_by_its_beginning() -> None:
    with pytest.raises(UsageError):
        read_flags("run", ["--journal", "3"])


def test_help_lists_every_setting_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert all(f"--{name.replace('_', '-')}" in shown for name in _flagged())
    assert "[127.0.0.1:8808]" in shown
    assert "[5 min]" in shown


def test_the_help_of_drain_lists_only_what_a_drain_goes_by(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["drain", "--help"])
    shown = capsys.readouterr().out
    flags = [word for line in shown.splitlines() for word in line.split() if line.startswith("  --")]
    named = [word for word in flags if word.startswith("--")]
    assert named == ["--admin", "--admin-token-file", "--config", "--drain"]
    assert read_flags("drain", ["--listen", "h:1"]) == {"listen": "h:1"}


def test_a_reader_that_stops_reading_makes_no_traceback() -> None:
    program = f"{sys.executable} -m epochgate config --schema | head -c 1"
    ran = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert ran.stderr == ""
