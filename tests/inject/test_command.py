"""`epochgate inject` as people use it: files, pipes, exit codes, and what is said on stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from epochgate.arguments import UsageError
from epochgate.inject.main import main
from tests.inject.samples import BOTH, DEPLOYMENT, POD, SERVICE, result_of, with_lines

DONE = (
    "epochgate: {0}:1: done: Deployment/weather: added the sidecar in front of port 8000 of server, "
    "terminationGracePeriodSeconds: 45, a preStop that sleeps 25 s to server\n"
    "epochgate: {1}: done: Service/weather: targetPort 8000 -> 8808; apply it behind the rollout: old pods "
    "do not listen there\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "epochgate", "inject", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_stdin_comes_out_on_stdout(folder: Path) -> None:
    ran = run("-f", "-", stdin=BOTH)

    assert (ran.returncode, ran.stdout) == (0, result_of(BOTH))
    assert ran.stderr == DONE.format("stdin", "stdin:26")


def test_what_is_refused_writes_nothing(folder: Path) -> None:
    text = with_lines(BOTH, POD, "      hostNetwork: true")
    (folder / "a.yaml").write_text(text)

    ran = run("-f", "a.yaml", "-o", "b.yaml")

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("epochgate: a.yaml:12: refused: Deployment/weather: hostNetwork: ")
    assert ran.stderr.count("\n") == 1
    assert sorted(os.listdir(folder)) == ["a.yaml"]


def test_files_are_taken_together_and_written_in_place(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "deployment.yaml").write_text(DEPLOYMENT)
    (folder / "service.yaml").write_text(SERVICE)
    (folder / "service.yaml").chmod(0o640)
    (folder / "link.yaml").symlink_to("service.yaml")

    code = main(["-f", "deployment.yaml", "link.yaml", "--in-place"])

    written = (folder / "deployment.yaml").read_text() + (folder / "service.yaml").read_text()
    assert (code, written) == (0, result_of(BOTH))
    assert capsys.readouterr() == ("", DONE.format("deployment.yaml", "link.yaml:10"))
    assert (folder / "link.yaml").is_symlink()
    assert (folder / "service.yaml").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(folder)) == ["deployment.yaml", "link.yaml", "service.yaml"]


def test_the_second_time_nothing_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "a.yaml"
    path.write_text(result_of(BOTH))
    path.chmod(0o444)
    before = path.stat()

    assert main(["-f", "a.yaml", "-i"]) == 0
    assert capsys.readouterr().err == "epochgate: nothing to change\n"
    assert path.stat() == before


def test_several_files_become_one_stream(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (folder / "a.yaml").write_text(DEPLOYMENT.rstrip("\n"))
    (folder / "b.yaml").write_text("\ufeff" + SERVICE.removeprefix("---\n"))

    assert main(["-f", "a.yaml", "-f", "b.yaml"]) == 0
    assert capfdbinary.readouterr().out.decode() == result_of(BOTH)


def test_output_goes_into_a_file(folder: Path) -> None:
    (folder / "a.yaml").write_bytes(BOTH.replace("\n", "\r\n").encode())

    assert main(["-f", "a.yaml", "-o", "b.yaml"]) == 0
    assert (folder / "b.yaml").read_bytes() == result_of(BOTH).replace("\n", "\r\n").encode()
    assert (folder / "a.yaml").read_bytes() == BOTH.replace("\n", "\r\n").encode()


def test_a_device_is_written_to_as_it_is(folder: Path) -> None:
    (folder / "a.yaml").write_text(BOTH)

    assert main(["-f", "a.yaml", "-o", os.devnull]) == 0
    assert Path(os.devnull).is_char_device()


def test_a_warning_is_exit_code_0_and_with_strict_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.yaml").write_text(DEPLOYMENT)

    assert main(["-f", "a.yaml", "-o", "b.yaml"]) == 0
    assert capsys.readouterr().err.startswith(
        "epochgate: a.yaml:1: warning: Deployment/weather: no Service here"
    )
    (folder / "b.yaml").unlink()
    assert main(["-f", "a.yaml", "-o", "b.yaml", "--strict"]) == 1
    assert capsys.readouterr().err.endswith("\nepochgate: refused: --strict takes no warnings\n")
    assert not (folder / "b.yaml").exists()


def test_image_and_settings_go_into_the_sidecar(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.yaml").write_text(BOTH)
    flags = ["--image", "registry.example:5000/epochgate:1.2", "--env", "EPOCHGATE_REISSUE=hinted"]
    flags += ["--port", "8000", "--env", "EPOCHGATE_STAMP=off", "--env", "EPOCHGATE_JOURNAL_TOTAL=64MiB"]

    assert main(["-f", "a.yaml", "-i", *flags]) == 0
    edited = (folder / "a.yaml").read_text()
    assert "          image: registry.example:5000/epochgate:1.2\n" in edited
    assert "            - name: EPOCHGATE_REISSUE\n              value: hinted\n" in edited
    assert '            - name: EPOCHGATE_STAMP\n              value: "off"\n' in edited
    assert "              memory: 869Mi\n" in edited
    assert main(["-f", "a.yaml", "-i", *flags]) == 0
    capsys.readouterr()
    assert main(["-f", "a.yaml", "-i"]) == 1
    assert "(it differs in image, env, resources)" in capsys.readouterr().err


def test_what_is_no_yaml_is_refused_with_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {
        "a: [": "1: refused: not YAML: expected the node content, but found '<stream end>'",
        "a: 1\n{{- if .Values.b }}\n": "3: refused: not YAML: could not find expected ':'; a template has to "
        "be rendered first: helm template . | epochgate inject -f -",
        "a:\n\tb: 1\n": "2: refused: not YAML: found character '\\t' that cannot start any token; put "
        "spaces in the place of the tab",
        "a: 1\nb: \x00\n": "2: refused: not YAML: a character that may not stand there",
        "a: *b\n": "1: refused: not YAML: nothing has the anchor &b",
        "a: &b\n  c: *b\n": "2: refused: *b stands within what it names: write it out",
        "[" * 5000: "1: refused: nested too deeply",
    }
    for text, line in wrong.items():
        (folder / "a.yaml").write_text(text)
        assert main(["-f", "a.yaml"]) == 1
        assert capsys.readouterr() == ("", f"epochgate: a.yaml:{line}\n")
    (folder / "a.yaml").write_bytes(b"a: 1\nb: \xff\n")
    assert main(["-f", "a.yaml"]) == 1
    assert capsys.readouterr() == ("", "epochgate: a.yaml:2: refused: not UTF-8\n")


WRONG_USAGE = {
    "": "the following arguments are required: -f/--filename; see `epochgate inject --help`",
    "-f no.yaml": "no.yaml: No such file or directory; give a file that can be read, or - for stdin",
    "-f .": ".: Is a directory; give a file that can be read, or - for stdin",
    "-f - -i": "--in-place: stdin cannot be written to; give files, or leave it out",
    "-f a -i -o b": "argument -o/--output: not allowed with argument -i/--in-place; see `epochgate inject "
    "--help`",
    "-f a --prot 1": "--prot: no such flag; did you mean --port?",
    "-f a --port http": "--port http: not a port; give the number that the server listens on",
    "-f a --port 65536": "--port 65536: not a port; give the number that the server listens on",
    "-f a --image :1": "--image :1: not an image; give for example registry.example/epochgate:0.1.0",
    "-f a --env REISSUE=never": "--env REISSUE: not NAME=VALUE; give for example EPOCHGATE_REISSUE=hinted",
    "-f a --env EPOCHGATE_HODL=5m": "--env EPOCHGATE_HODL: no such setting; did you mean EPOCHGATE_HOLD?",
    "-f a --env EPOCHGATE_HOLD=x": "EPOCHGATE_HOLD 'x': not a duration; give seconds (300), or 500ms, 300s, "
    "5m, 1h",
    "-f a --env EPOCHGATE_ADMIN_TOKEN=x": "--env EPOCHGATE_ADMIN_TOKEN: a secret does not belong into a "
    "manifest; mount it as a file",
    "-f a --env EPOCHGATE_LISTEN=:1": "--env EPOCHGATE_LISTEN: is what inject decides; leave it out",
    "-f a --env EPOCHGATE_TLS_KEY=/k": "--env EPOCHGATE_TLS_KEY: names a file, and inject mounts none; leave "
    "it out",
    "-f a --env EPOCHGATE_HOST=a\x07b": "--env EPOCHGATE_HOST: holds what cannot be printed; give one line "
    "of text",
}


@pytest.mark.parametrize("words", WRONG_USAGE)
def test_wrong_usage_is_one_line(folder: Path, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        main(words.split())

    assert str(raised.value) == WRONG_USAGE[words]


def test_wrong_usage_is_exit_code_2(folder: Path) -> None:
    ran = run("-f", "no.yaml")

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("epochgate: no.yaml: No such file or directory; ")


def test_a_place_that_cannot_be_written_to_is_exit_code_2(folder: Path) -> None:
    ran = run("-f", "-", "-o", "no/such/b.yaml", stdin=BOTH)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.endswith(
        "epochgate: no/such/b.yaml: No such file or directory; give a file that can be written\n"
    )
