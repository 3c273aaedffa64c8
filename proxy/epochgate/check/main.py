"""`epochgate check URL`: arguments, progress on stderr, the report on stdout, the exit code."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import ssl
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from epochgate.arguments import Parser, printable
from epochgate.check.findings import UNSURE, Findings, find
from epochgate.check.probe import LISTEN_S, MAX_PAGES, TOTAL_S, Plan, Probe
from epochgate.check.tls import make_context
from epochgate.check.wire import MAX_REQUESTS, CannotTell, Wire

_TIMEOUT_S = 10.0
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([\x21-\x7e][\x20-\x7e]*)", re.ASCII)
_STEPS = (
    f"POST initialize, notifications/initialized, tools/list ({MAX_PAGES} pages at most)",
    "POST tools/call {tool}; the connection is closed after the first event with an id",
    "GET with Last-Event-ID: that id; then an id that names nothing",
    "GET, and a second GET beside it",
    "POST initialize, notifications/initialized; GET with the first session's Last-Event-ID",
    "POST ping three times; POST ping with a session id that the server never gave out",
    "DELETE the first session; GET with its Last-Event-ID; DELETE every session of the check",
)


def main(argv: Sequence[str] | None = None) -> int:
    """0 sound, 1 unsound, 2 could not tell."""
    options = _parser().parse(argv)
    try:
        return _check(options)
    except CannotTell as error:
        print(f"epochgate: {printable(str(error))}", file=sys.stderr)
        return UNSURE


def _parser() -> Parser:
    parser = Parser(
        prog="epochgate check",
        allow_abbrev=False,
        description="Says which of the four conditions of a valid resume an MCP server keeps. "
        f"At most {MAX_REQUESTS} requests, one of them a call of a tool, and {TOTAL_S:.0f} s, then its "
        f"sessions are ended; it listens to a stream for {LISTEN_S:.0f} s. "
        "Exit codes: 0 sound, 1 unsound, 2 could not tell.",
    )
    parser.add_argument("url", metavar="URL", help="the MCP endpoint, for example http://127.0.0.1:8000/mcp")
    parser.add_argument("--tool", metavar="NAME", help="the tool to call [the first read-only one]")
    parser.add_argument("--arguments", metavar="JSON", default="{}", help="its arguments [{}]")
    parser.add_argument(
        "--allow-tool", action="store_true", help="call it even if it does not declare readOnlyHint: true"
    )
    parser.add_argument(
        "--header",
        metavar="NAME:VALUE",
        action="append",
        default=[],
        help="a header to send with each request, for example a credential; never shown",
    )
    parser.add_argument("--header-file", metavar="FILE", help="a file of such lines, never shown")
    parser.add_argument("--ca", metavar="FILE", help="PEM file of the authorities to believe [the system's]")
    parser.add_argument("--certificate", metavar="FILE", help="PEM file of a certificate to show the server")
    parser.add_argument("--key", metavar="FILE", help="PEM file of its key, if it is not in the same file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--dry-run", action="store_true", help="print the requests and send none")
    return parser


def _check(options: argparse.Namespace) -> int:
    url = _url(options.url)
    plan = Plan(options.tool, _arguments(options.arguments), options.allow_tool)
    headers = _headers(options)
    tls = _tls(options)
    if options.dry_run:
        tool = options.tool or "of the first tool with readOnlyHint: true that needs no arguments"
        print("\n".join(step.format(tool=tool) for step in _STEPS))
        return 0
    findings = asyncio.run(_run(url, headers, plan, tls))
    if options.json:
        print(json.dumps(_as_json(findings)))
    else:
        _show(findings)
    return findings.exit_code


async def _run(url: str, headers: dict[str, str], plan: Plan, tls: ssl.SSLContext | None) -> Findings:
    wire = Wire(url, headers, _TIMEOUT_S, tls)
    try:
        return find(await Probe(wire, plan, _say).run())
    finally:
        await wire.close()


def _say(line: str) -> None:
    print(f"  {printable(line)}", file=sys.stderr, flush=True)


def _url(text: str) -> str:
    try:
        url = urlsplit(text)
        is_good = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise CannotTell("not a URL; give for example http://127.0.0.1:8000/mcp")
    return text


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    """What is given for TLS; None: nothing is."""
    given = {"--ca": options.ca, "--certificate": options.certificate, "--key": options.key}
    names = [name for name, value in given.items() if value is not None]
    if not names:
        return None
    if not options.url.lower().startswith("https:"):
        raise CannotTell(f"{names[0]}: without effect; the URL is not an https one")
    if options.certificate is None and options.key is not None:
        raise CannotTell("--key: without effect; give --certificate as well")
    return make_context(options.ca, options.certificate, options.key)


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise CannotTell('--arguments: not a JSON object; give for example \'{"path": "/"}\'')
    return value


def _headers(options: argparse.Namespace) -> dict[str, str]:
    lines = list(options.header)
    if options.header_file:
        try:
            lines += [line for line in Path(options.header_file).read_text().splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError):
            raise CannotTell("--header-file: cannot be read; give a text file of NAME:VALUE lines") from None
    found = [_HEADER.fullmatch(line.strip()) for line in lines]
    if None in found:
        raise CannotTell("a header is not NAME:VALUE (it is not shown here)")
    return {match[1]: match[2] for match in found if match}


def _as_json(findings: Findings) -> dict[str, Any]:
    told = asdict(findings)
    for condition, shown in zip(findings.conditions, told["conditions"], strict=True):
        shown["state"] = condition.state.value
    return told


def _show(findings: Findings) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    table = Table("", "condition", "", "what was seen")
    for condition in findings.conditions:
        table.add_row(str(condition.number), condition.name, condition.state.value, condition.seen)
    console.print(table)
    treated = Table("epochgate: situation", "verdict", "reason")
    for treatment in findings.treatment:
        treated.add_row(treatment.situation, treatment.verdict, treatment.reason)
    if findings.treatment:
        console.print(treated)
    for setting, why in findings.settings:
        console.print(printable(f"setting  {setting}  ({why})"), markup=False)
    for note in findings.notes:
        console.print(printable(f"note     {note}"), markup=False)
    word = ("sound", "unsound", "could not tell")[findings.exit_code]
    console.print(f"{word}; after a break a client should {findings.client}")
