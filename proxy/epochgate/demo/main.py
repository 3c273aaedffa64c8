"""`epochgate demo`: plays, tells and judges. No network but 127.0.0.1, nothing to install, some seconds."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import ClientError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from epochgate.arguments import Parser
from epochgate.demo import play, story
from epochgate.demo.client import CallLost, Seen
from epochgate.demo.ledger import LEDGER
from epochgate.demo.process import DemoFailed

DEADLINE_S = 40.0  # for both plays; they take some seconds, and `make demo` promises a minute
PIPED_WIDTH = 132  # columns where there is no terminal to ask
PIPED_STEP = 250  # entries between two progress lines there


@dataclass(slots=True)
class Ending:
    """What has been played so far, and what speaks against it."""

    direct: play.Outcome | None = None
    guarded: play.Guarded | None = None
    faults: list[str] = field(default_factory=list)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 only if the direct play was really wrong and the guarded one really right, else 1.

    `argv` are the arguments behind `demo`; wrong ones raise `UsageError`.
    """
    options = _parser().parse(argv)
    console = _console(options.no_color)
    began, ending = time.monotonic(), Ending()
    story.tell_opening(console)
    try:
        asyncio.run(_play(console, ending))
    except KeyboardInterrupt:
        ending.faults.append("interrupted")
    story.tell_end(console, ending.faults)
    if options.json:
        told = story.as_json(ending.direct, ending.guarded, ending.faults, time.monotonic() - began)
        print(json.dumps(told), flush=True)
    return 1 if ending.faults else 0


def _parser() -> Parser:
    parser = Parser(
        prog="epochgate demo",
        description="Plays one fault twice on an embedded MCP server: directly, then through the proxy. "
        "Exit code 0 only if the direct answer was wrong and the guarded one right.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--no-color", action="store_true", help="no colours (also: NO_COLOR=1)")
    return parser


def _console(no_color: bool) -> Console:
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return Console(no_color=no_color or None, width=width, highlight=False)


async def _play(console: Console, ending: Ending) -> None:
    task = asyncio.current_task()
    if task is not None:  # a SIGTERM must not leave our processes behind
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with asyncio.timeout(DEADLINE_S):
            await _play_both(console, ending)
    except (DemoFailed, CallLost) as failure:
        ending.faults.append(str(failure))
    except ClientError as failure:
        ending.faults.append(f"a connection failed: {failure}")
    except TimeoutError:
        ending.faults.append(f"not done after {DEADLINE_S:.0f} s")
    except asyncio.CancelledError:
        ending.faults.append("stopped by a signal")


async def _play_both(console: Console, ending: Ending) -> None:
    with _following(console, "directly") as follower:
        ending.direct = await play.play_direct(follower.saw)
    story.tell_direct(console, ending.direct)
    ending.faults += play.find_faults_of_direct(ending.direct)
    with _following(console, "through epochgate") as follower:
        ending.guarded = await play.play_guarded(follower.saw)
    story.tell_guarded(console, ending.guarded)
    ending.faults += play.find_faults_of_guarded(ending.guarded.outcome)


class _Follower:
    """Shows how far a play is: a bar on a terminal, a line now and then on a pipe."""

    def __init__(self, console: Console, what: str, bar: Progress) -> None:
        self._console = console
        self._what = what
        self._bar = bar
        self._task = bar.add_task(what, total=len(LEDGER))
        self._leg = 1

    def saw(self, seen: Seen) -> None:
        if seen.leg != self._leg:
            self._leg = seen.leg
            self._say(f"connection lost, resumed; next event id {seen.event_id}")
        method = seen.message.get("method")
        if method == "notifications/progress":
            self._saw_entry(int(seen.message["params"]["progress"]))
        elif method is not None:
            self._say(f"notice: {seen.message['params'].get('data')}")

    def _saw_entry(self, entry: int) -> None:
        self._bar.update(self._task, completed=entry)
        if not self._console.is_terminal and entry % PIPED_STEP == 0:
            self._say(f"entry {entry} of {len(LEDGER)}")

    def _say(self, text: str) -> None:
        self._console.print(f"  {self._what}: {text}", style="dim", markup=False)


@contextmanager
def _following(console: Console, what: str) -> Iterator[_Follower]:
    columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield _Follower(console, what, bar)
