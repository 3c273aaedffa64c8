"""The command line: `epochgate run | demo | check | drain | inject | config | version`.

Exit codes: 0 done, 1 could not start or the demo failed, 2 bad settings or usage; of `check`: 0 sound,
1 unsound, 2 could not tell; of `inject`: 1 refused. What is wrong is one line on stderr. Each command imports
what it needs, so that `version` and `--help` stay quick.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from enum import Enum, EnumType

from epochgate import __version__
from epochgate.arguments import Parser, UsageError, printable

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2

_HELP = """usage: epochgate COMMAND [OPTIONS]

Sits between MCP clients and an MCP server; never splices two executions into one answer.

  run       serve: epochgate run --upstream http://127.0.0.1:8000
  demo      play the fault and its cure on an embedded server
  check     say whether a server's resumes can be trusted: epochgate check URL
  inject    add the sidecar to Kubernetes manifests: epochgate inject -f deployment.yaml
  drain     tell a running proxy to drain and wait until it has (for preStop)
  config    print the effective settings as YAML (--schema: the JSON schema of the file)
  version   print the version

`epochgate run --help` lists every setting. Each is also a variable (EPOCHGATE_HOLD=5m) and a line
of the file given by --config (hold: 5m); flags win over variables, variables over the file.
Exit codes: 0 done, 1 could not start, failed or refused, 2 bad settings or usage.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except UsageError as error:
        return _complain(str(error), EXIT_USAGE)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Nobody reads our output any more; the interpreter must not try to flush it again.
        sys.stdout = None
        return EXIT_FAILED


def _dispatch(words: list[str]) -> int:
    command, rest = (words[0], words[1:]) if words else ("", [])
    match command:
        case "run":
            return _run(rest)
        case "demo":
            from epochgate.demo.main import main as demo

            return demo(rest)
        case "check":
            from epochgate.check.main import main as check

            return check(rest)
        case "drain":
            return _drain(rest)
        case "inject":
            from epochgate.inject.main import main as inject

            return inject(rest)
        case "config":
            return _config(rest)
        case "version" | "--version" | "-V":
            print(f"epochgate {__version__}")
            return EXIT_OK
        case "--help" | "-h" | "help":
            print(_HELP, end="")
            return EXIT_OK
        case "":
            print(_HELP, end="", file=sys.stderr)
            return EXIT_USAGE
        case _:
            raise UsageError(
                f"{command}: no such command; give run, demo, check, drain, inject, config or version"
            )


def _run(words: list[str]) -> int:
    from epochgate.loading import load

    flags = read_flags("run", words)
    settings = load(flags)
    from epochgate.shell.parts import CannotStart
    from epochgate.shell.process import run

    try:
        return run(settings, lambda: load(flags))
    except CannotStart as error:
        return _complain(str(error), EXIT_FAILED)


def _drain(words: list[str]) -> int:
    from epochgate.drain import CannotDrain, drain
    from epochgate.loading import load

    # It need not name the server; https, as what is given beside that may be for an https server.
    settings = load(read_flags("drain", words), otherwise={"upstream": "https://localhost"})
    try:
        drain(settings)
    except CannotDrain as error:
        return _complain(str(error), EXIT_FAILED)
    return EXIT_OK


def _config(words: list[str]) -> int:
    import yaml  # type: ignore[import-untyped]  # it ships no types

    from epochgate.loading import load_with_origins
    from epochgate.schema import file_schema

    if words == ["--schema"]:
        print(json.dumps(file_schema(), indent=2))
        return EXIT_OK
    settings, origins = load_with_origins(read_flags("config", words))
    for name, value in settings.effective().items():
        first, *others = yaml.safe_dump({name: value}).splitlines()
        print("\n".join([f"{first}  # {origins.get(name, 'default')}", *others]))
    return EXIT_OK


def read_flags(command: str, words: list[str]) -> dict[str, str]:
    """The given flags by setting name, values as typed. Raises `UsageError`."""
    known = _parser(command).parse(words)
    return {name: value for name, value in vars(known).items() if value is not None}


# What a drain goes by; it takes the other settings as well, so that it can be given those of `run`.
_OF_DRAIN = ("admin", "admin_token_file", "config", "drain")


_DESCRIPTIONS = {
    "run": "Serves until a signal: the first lets owed answers end (`drain`), a second stops at once.",
    "config": "Prints what `run` with these flags would go by, as YAML, and where each setting comes from. "
    "`epochgate config --schema` prints the JSON schema of the file.",
    "drain": "Tells the process behind the admin address to drain and returns when it has.",
}


def _parser(command: str) -> Parser:
    """A parser with a flag for every setting; the help has the default in brackets."""
    from epochgate import limits
    from epochgate.settings import SECRETS, Settings, shown_default

    usage = f"epochgate {command} {'' if command == 'drain' else '--upstream URL '}[OPTIONS]"
    parser = Parser(prog=f"epochgate {command}", usage=usage, allow_abbrev=False)
    settings = parser.add_argument_group("settings")
    for name, field in Settings.model_fields.items():
        if name not in limits.Limits.model_fields and name not in SECRETS:
            _add_flag(settings, name, shown_default(name), str(field.description), field.annotation)
    bounds = parser.add_argument_group("limits", "times such as 300, 300s or 5m; sizes such as 16MiB")
    for limit in limits.table():
        _add_flag(bounds, limit.name, limit.default, f"{limit.what}; at the limit: {limit.at_limit}", None)
    parser.description = _DESCRIPTIONS[command]
    if command == "drain":
        parser.epilog = "Every setting of `epochgate run` is taken as well."
        for action in parser._actions:
            if action.dest not in ("help", *_OF_DRAIN):
                action.help = argparse.SUPPRESS
    return parser


def _add_flag(group: argparse._ArgumentGroup, name: str, default: str, text: str, annotation: object) -> None:
    flag = f"--{name.replace('_', '-')}"
    shown = (f"{text} [{default}]" if default else text).replace("%", "%%")
    if annotation is bool:
        group.add_argument(flag, dest=name, nargs="?", const="true", metavar="true|false", help=shown)
    elif isinstance(annotation, EnumType):
        members: list[Enum] = list(annotation)
        choices = "|".join(str(member.value) for member in members)
        group.add_argument(flag, dest=name, metavar=choices, help=shown)
    else:
        group.add_argument(flag, dest=name, metavar="VALUE", help=shown)


def _complain(line: str, code: int) -> int:
    print(f"epochgate: {printable(line)}", file=sys.stderr)
    return code
