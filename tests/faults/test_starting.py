"""Bad settings and ports in use: one line that says what would be right, and the right exit code."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.shell.running import FREE, refused

BAD = [
    (("--upstream", "ftp://x"), "--upstream"),
    (("--upstream", "http://"), "--upstream"),
    (("--listen", "nowhere"), "--listen"),
    (("--listen", "127.0.0.1:99999"), "--listen"),
    (("--hold", "soon"), "--hold"),
    (("--hold=-1s",), "--hold"),
    (("--reissue", "sometimes"), "--reissue"),
    (("--max-body", "lots"), "--max-body"),
    (("--max-streams", "0"), "--max-streams"),
    (("--state", "disk"), "--state"),
    (("--stamp", "maybe"), "--stamp"),
    (("--gone-pattern", "("), "--gone-pattern"),
    (("--config", "/nonexistent.yaml"), "config"),
    (("--journal-stream", "1MiB"), "max_event_bytes"),
    (("--admin", "0.0.0.0:0"), "admin"),
    (("--hodl", "3s"), "--hodl"),
]


@pytest.mark.parametrize(
    ("flags", "named"), BAD, ids=lambda value: " ".join(value) if isinstance(value, tuple) else None
)
async def test_a_bad_setting_is_one_line_and_exit_code_2(flags: tuple[str, ...], named: str) -> None:
    code, said = await refused("--listen", FREE, "--admin", "off", *flags)
    assert code == 2
    assert "Traceback" not in said
    assert named in said
    assert said.startswith("epochgate")
    assert said.count("\n") == 1


@pytest.mark.parametrize("text", ["hold: soon\n", "nonsense: 1\n", ": :\n", "- a\n", "hold: [1\n"])
async def test_a_bad_file_is_one_line_and_exit_code_2(text: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    code, said = await refused("--listen", FREE, "--admin", "off", "--config", str(file))
    assert (code, said.count("\n")) == (2, 1)
    assert str(file) in said


async def test_a_port_in_use_is_one_line_and_exit_code_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = await refused("--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--admin", "off")
    assert (code, said.count("\n")) == (1, 1)
    assert "in use" in said
