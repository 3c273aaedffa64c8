"""`epochgate inject`: arguments, files in and out, findings on stderr, the exit code."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from epochgate.arguments import Parser, UsageError, printable
from epochgate.inject.findings import Weight
from epochgate.inject.manifests import Source
from epochgate.inject.nodes import Refused
from epochgate.inject.plan import inject
from epochgate.inject.sidecar import ANNOTATION, IMAGE, sidecar
from epochgate.inject.targets import Request
from epochgate.loading import nearest
from epochgate.settings import SECRETS, Settings

EXIT_OK = 0
EXIT_REFUSED = 1

_STDIO = "-"
_MOST_PORT = 65535
_PREFIX = "EPOCHGATE_"
_DECIDED = ("upstream", "listen", "health", "admin")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*", re.ASCII)
_MARKER = re.compile(r"\ufeff?---\s")


def main(argv: Sequence[str] | None = None) -> int:
    """0 done, 1 refused and nothing written. Raises `UsageError`."""
    options = _parser().parse(argv)
    request = _request(options)
    paths = list(dict.fromkeys(options.filename))
    if options.in_place and _STDIO in paths:
        raise UsageError("--in-place: stdin cannot be written to; give files, or leave it out")
    given = [_read(path) for path in paths]
    try:
        sources = [_source(path, content) for path, content in zip(paths, given, strict=True)]
    except _Unreadable as error:
        return _refuse(str(error))
    plan = inject(sources, request)
    is_refused = plan.is_refused or (options.strict and plan.has_warnings)
    for finding in plan.findings:
        if finding.weight is not Weight.DONE or not is_refused:
            _say(str(finding))
    if is_refused:
        return EXIT_REFUSED if plan.is_refused else _refuse("refused: --strict takes no warnings")
    if plan.texts == [source.text for source in sources]:
        _say("nothing to change")
    if options.in_place:
        for path, source, text in zip(paths, sources, plan.texts, strict=True):
            if text != source.text:
                _write(path, text)
    elif options.output in (None, _STDIO):
        sys.stdout.flush()
        sys.stdout.buffer.write(_joined(plan.texts).encode())
        sys.stdout.buffer.flush()
    else:
        _write(options.output, _joined(plan.texts))
    return EXIT_OK


def _parser() -> Parser:
    parser = Parser(
        prog="epochgate inject",
        allow_abbrev=False,
        description="Adds the sidecar to a workload in Kubernetes manifests and leads its Services to it. "
        "Lines are only added, but for the targetPort of the Services. What would be wrong is refused, with "
        "the line to change. Exit codes: 0 done (stderr says what, and warns), 1 refused and nothing "
        "written, 2 bad usage.",
    )
    parser.add_argument(
        "-f", "--filename", metavar="FILE", nargs="+", action="extend", required=True,
        help="manifests, or - for stdin; several are taken together",
    )  # fmt: skip
    places = parser.add_mutually_exclusive_group()
    places.add_argument("-o", "--output", metavar="FILE", help="where to write [stdout]")
    places.add_argument("-i", "--in-place", action="store_true", help="write to the files that were given")
    parser.add_argument(
        "--port", metavar="PORT", help="the server's port [the only one that its pod declares]"
    )
    parser.add_argument(
        "--container", metavar="NAME", help="the server's container [the only one with a port]"
    )
    parser.add_argument(
        "--workload", metavar="[KIND/]NAME", action="append", default=[],
        help=f'which workload; may be repeated [those annotated with {ANNOTATION}: "true", or the only one]',
    )  # fmt: skip
    parser.add_argument("--image", metavar="IMAGE", default=IMAGE, help=f"the sidecar's image [{IMAGE}]")
    parser.add_argument(
        "--env", metavar="NAME=VALUE", action="append", default=[],
        help="a setting of the sidecar, for example EPOCHGATE_REISSUE=hinted; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--affinity-elsewhere", action="store_true",
        help="several replicas are right: an ingress keeps sessions on their pod, or the server keeps none",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="refuse what would only be warned of")
    return parser


def _request(options: argparse.Namespace) -> Request:
    if not _IMAGE.fullmatch(options.image):
        raise UsageError(f"--image {options.image}: not an image; give for example registry.example/{IMAGE}")
    return Request(
        sidecar(options.image, dict(_variable(word) for word in options.env)),
        None if options.port is None else _port(options.port),
        options.container,
        tuple(options.workload),
        options.affinity_elsewhere,
    )


def _port(word: str) -> int:
    if not (word.isdecimal() and 1 <= int(word) <= _MOST_PORT):
        raise UsageError(f"--port {word}: not a port; give the number that the server listens on")
    return int(word)


def _variable(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    setting = name.removeprefix(_PREFIX).lower()
    if not equals or not name.startswith(_PREFIX):
        raise UsageError(f"--env {name}: not NAME=VALUE; give for example EPOCHGATE_REISSUE=hinted")
    if setting not in Settings.model_fields:
        meant = nearest(setting, Settings.model_fields)
        hint = f"did you mean {_PREFIX}{meant.upper()}?" if meant else "`epochgate run --help` lists them"
        raise UsageError(f"--env {name}: no such setting; {hint}")
    if setting in _DECIDED:
        raise UsageError(f"--env {name}: is what inject decides; leave it out")
    if setting in SECRETS:
        raise UsageError(f"--env {name}: a secret does not belong into a manifest; mount it as a file")
    if Settings.model_fields[setting].annotation == (str | None):
        # Every setting that is a plain text is the path of a file.
        raise UsageError(f"--env {name}: names a file, and inject mounts none; leave it out")
    if not value.isprintable():
        raise UsageError(f"--env {name}: holds what cannot be printed; give one line of text")
    return name, value


class _Unreadable(Exception):
    """Where and why a file is no manifest."""


def _source(path: str, content: bytes) -> Source:
    name = "stdin" if path == _STDIO else path
    try:
        return Source.of(name, content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _Unreadable(f"{name}:{line}: refused: not UTF-8") from None
    except Refused as error:
        raise _Unreadable(f"{name}:{error.line}: refused: {error.text}") from None


def _read(path: str) -> bytes:
    if path == _STDIO:
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; give a file that can be read, or - for stdin") from None


def _joined(texts: Sequence[str]) -> str:
    """One stream of documents: a marker between files where the second does not begin with one."""
    joined = texts[0]
    for text in texts[1:]:
        ended = joined if joined.endswith("\n") or not joined else f"{joined}\n"
        joined = ended + ("" if _MARKER.match(text) else "---\n") + text.removeprefix("\ufeff")
    return joined


def _write(path: str, text: str) -> None:
    """Whole or not at all; a link stays one and a file keeps its mode."""
    place = Path(os.path.realpath(path))
    try:
        if place.exists() and not place.is_file():
            place.write_bytes(text.encode())  # a pipe or a device
            return
        mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o666 & ~_umask()
        handle, beside = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
            os.chmod(beside, mode)
            os.replace(beside, place)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; give a file that can be written") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refuse(line: str) -> int:
    _say(line)
    return EXIT_REFUSED


def _say(line: str) -> None:
    print(f"epochgate: {printable(line)}", file=sys.stderr)
