"""Settings: what is wrong is told in one line, and what is right is read the same when written out."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from epochgate.loading import BadSettings, load
from epochgate.settings import SECRETS, Settings
from epochgate.shell.headers import Forwarding
from epochgate.units import read_address, read_duration, read_size, write_duration, write_size
from tests.fuzz.spelling import Choices, spelled

NAMES = tuple(sorted(Settings.model_fields))
WORDS = (
    b"http://127.0.0.1:8000",
    b"http://[::1]:8000/mcp",
    b"https://",
    b"http://",
    b"127.0.0.1:8809",
    b"[::1]:0",
    b":8808",
    b"off",
    b"memory",
    b"10.0.0.0/8",
    b"::1",
    b"300s",
    b"5m",
    b"16MiB",
    b"1.5",
    b"9" * 40,
    b"1e400",
    b".inf",
    b".nan",
    b"null",
    b"true",
    b"[",
    b"]",
    b"{",
    b"}",
    b"- a\n",
    b": ",
    b"\n",
    b"&a ",
    b"*a",
    b"!!python/none ",
    b"!!binary ",
    b"2001-01-01",
    b"<<: ",
    b"? ",
    b'"',
    b"\\d",
    b"(",
    b"upstream: http://127.0.0.1:8000\n",
    b"hold: ",
    b"listen: ",
    b"stamp: ",
    b"gone_pattern: ",
    b"\xff",
    b"\xc3\xa4",
    b"\xd9\xa1",
    b"\xc2\xb2",
    b"0x10",
    b"0o7",
    b"1_000",
)
_UPSTREAM = "http://127.0.0.1:8000"
_LINE = re.compile(r"[^\n]{1,600}")
_FILE = Path(tempfile.gettempdir()) / f"epochgate-fuzz-{os.getpid()}.yaml"


def one(data: bytes) -> None:
    choices = Choices(data)
    is_written_out = choices.number(4) == 1
    flags = {"upstream": _UPSTREAM} if choices.number(4) else {}
    environ = {}
    for _ in range(choices.number(3)):
        flags[choices.one_of(NAMES)] = _text(choices.some(12))
    for _ in range(choices.number(3)):
        environ["EPOCHGATE_" + choices.one_of(NAMES).upper()] = _text(choices.some(12)).replace("\0", "")
    flags.pop("config", None)
    environ.pop("EPOCHGATE_CONFIG", None)
    rest = spelled(choices.rest(), WORDS)
    _units(rest)
    try:
        if rest:
            _FILE.write_bytes(rest)
            flags["config"] = str(_FILE)
        settings = _load(flags, environ)
        # Secrets are masked where settings are shown, so that those cannot be read back.
        if settings is not None and is_written_out and _has_no_secret(settings):
            _reads_back(settings)
    finally:
        _FILE.unlink(missing_ok=True)


def _text(data: bytes) -> str:
    """As the system hands over what is no UTF-8."""
    return spelled(data, WORDS).decode("utf-8", "surrogateescape")


def _load(flags: dict[str, str], environ: dict[str, str]) -> Settings | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `re` has opinions about patterns
            settings = load(flags, environ)
    except BadSettings as error:
        _is_one_line(error)
        return None
    re.compile(settings.policy().gone_pattern, re.IGNORECASE)
    Forwarding.from_texts(settings.trusted_proxies)
    return settings


def _has_no_secret(settings: Settings) -> bool:
    return all(getattr(settings, name) is None for name in SECRETS)


def _reads_back(settings: Settings) -> None:
    _FILE.write_text(yaml.safe_dump(settings.effective(), allow_unicode=True), encoding="utf-8")
    again = load({"config": str(_FILE)}, {})
    assert again.effective() == settings.effective()
    assert again.policy() == settings.policy()


def _units(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    for reader in (read_duration, read_size, read_address):
        try:
            value = reader(text)
        except ValueError as error:
            _is_one_line(error)
            continue
        if reader is read_address:
            assert read_address(str(value)) == value
        elif reader is read_size:
            assert isinstance(value, int)
            assert read_size(write_size(value)) == value
        else:
            assert isinstance(value, float)
            shown = write_duration(value)
            assert (
                "e" in shown or abs(read_duration(shown) - value) <= 1e-4 * value
            )  # or too long for a table


def _is_one_line(error: Exception) -> None:
    assert _LINE.fullmatch(str(error))
