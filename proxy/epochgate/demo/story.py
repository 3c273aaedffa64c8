"""What the demo says: the two plays told for people (rich) and as one JSON object."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from epochgate.demo.ledger import LEDGER, Json
from epochgate.demo.play import EXPECTED_TOTAL, Guarded, Outcome, Row
from epochgate.demo.server import CUT_AFTER_EVENT, RAN_AHEAD_TO, SESSION_TTL_S

OPENING = f"""\
An agent asks an MCP server for the total of a ledger of {len(LEDGER):,} entries; the right one is \
{EXPECTED_TOTAL:,}. The server streams a running total after each entry. Behind event {CUT_AFTER_EVENT} it \
stalls for longer than its session limit ({SESSION_TTL_S:.0f} s, on a clock that is set forward) and the \
connection is lost. Its buffer, which reaches to event {RAN_AHEAD_TO}, outlives the session. Whoever comes \
back finds a session made anew under the old id.\
"""

# The series that tell the story, in its order; --json has every one that moved.
TOLD = (
    "epochgate_resumes_total",
    "epochgate_heals_total",
    "epochgate_heal_duration_seconds_sum",
    "epochgate_reissues_total",
    "epochgate_discarded_events_total",
    "epochgate_discarded_work_seconds_sum",
    "epochgate_dropped_messages_total",
    "epochgate_relayed_events_total",
)


def tell_opening(console: Console) -> None:
    console.print("[bold]epochgate demo[/bold]")
    console.print(OPENING)


def tell_direct(console: Console, direct: Outcome) -> None:
    console.print("\n[bold]1. Directly: client - server[/bold]")
    console.print(_events(direct.rows))
    console.print(f"The client resumed with Last-Event-ID {', '.join(direct.call.cursors)}.")
    statuses = ", ".join(str(status) for status in direct.call.statuses)
    console.print(
        f"What it can see: HTTP {statuses}; event ids 1 to {len(direct.rows)} without a gap; one answer."
    )
    console.print(f"What it cannot see: {_executions(direct)}.")
    console.print(f"The agent is told [bold red]{_told(direct)}[/]. The ledger holds {EXPECTED_TOTAL:,}.")


def tell_guarded(console: Console, guarded: Guarded) -> None:
    outcome, price = guarded.outcome, _price(guarded)
    console.print("\n[bold]2. Guarded: client - epochgate - server[/bold]")
    console.print(_events(outcome.rows))
    console.print(f"What happened on the server: {_executions(outcome)}.")
    style = "bold green" if outcome.total == EXPECTED_TOTAL else "bold red"
    console.print(f"The agent is told [{style}]{_told(outcome)}[/]. The ledger holds {EXPECTED_TOTAL:,}.")
    if outcome.mark is not None:
        console.print(f"The answer says so itself: {_mark(outcome.mark)}.")
    console.print(f"The proxy's verdicts on its own resume: {', '.join(_verdicts(guarded))}.")
    console.print("\nThe proxy's own account (metrics that moved):")
    console.print(_metrics(guarded))
    console.print(
        f"The price: {price['events']:.0f} events and {price['seconds']:.2f} s of work discarded; the session"
        f" re-established in {price['heal_seconds']:.3f} s; the call took {outcome.call.seconds:.1f} s."
    )


def tell_end(console: Console, faults: Iterable[str]) -> None:
    found = list(faults)
    console.print()
    for fault in found:
        console.print(f"[bold red]not shown[/]: {fault}")
    if not found:
        console.print(
            "[bold green]Shown[/]: the direct total is wrong, the guarded one right;"
            " each was compared with the sum of the ledger."
        )


def as_json(direct: Outcome | None, guarded: Guarded | None, faults: list[str], seconds: float) -> Json:
    """The whole outcome; a play that did not come to its end is null."""
    return {
        "ok": not faults,
        "faults": faults,
        "expected_total": EXPECTED_TOTAL,
        "seconds": round(seconds, 2),
        "direct": None if direct is None else _outcome(direct),
        "guarded": None if guarded is None else _guarded(guarded),
    }


def _outcome(outcome: Outcome) -> Json:
    return {
        "total": outcome.total,
        "is_right": outcome.total == EXPECTED_TOTAL,
        "first_wrong_entry": outcome.first_wrong_entry,
        "events": len(outcome.rows),
        "answers": len(outcome.call.answers),
        "statuses": outcome.call.statuses,
        "resumed_with": outcome.call.cursors,
        "seconds": round(outcome.call.seconds, 3),
        "server": outcome.facts,
    }


def _guarded(guarded: Guarded) -> Json:
    more: Json = {"verdicts": _verdicts(guarded)}
    more |= {"mark": guarded.outcome.mark, "price": _price(guarded), "metrics_moved": guarded.moved}
    return _outcome(guarded.outcome) | more


def _price(guarded: Guarded) -> dict[str, float]:
    moved = guarded.moved
    return {
        "events": moved.get("epochgate_discarded_events_total", 0.0),
        "seconds": moved.get("epochgate_discarded_work_seconds_sum", 0.0),
        "heal_seconds": moved.get("epochgate_heal_duration_seconds_sum", 0.0),
    }


# --- parts of the text --------------------------------------------------------------------------


def _told(outcome: Outcome) -> str:
    """The text of the answer, as the agent reads it."""
    answer = outcome.call.answers[0]
    content = answer.get("result", {}).get("content") or [answer.get("error", {})]
    return escape(repr(content[0].get("text") or content[0].get("message")))


def _executions(outcome: Outcome) -> str:
    runs = [
        f"epoch {run['epoch']} added up entries {run['first_entry']} to {run['last_entry']}"
        for run in outcome.facts["runs"]
    ]
    return "; ".join(runs)


def _verdicts(guarded: Guarded) -> list[str]:
    """`verdict (reason)` of each upstream series of `epochgate_resumes_total` that moved."""
    found = []
    for series in guarded.moved:
        if series.startswith("epochgate_resumes_total") and 'leg="upstream"' in series:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', series))
            found.append(f"{labels['verdict']} ({labels['reason']})")
    return found


def _mark(mark: Json) -> str:
    return ", ".join(f"{key} {value}" for key, value in mark.items())


def _events(rows: tuple[Row, ...]) -> Table:
    """The rows at which something changes, with their neighbours."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for title in ("leg", "event id", "message", "running total", "true total", "epoch"):
        table.add_column(title, justify="left" if title == "message" else "right", no_wrap=True)
    last = -1
    for index in _telling(rows):
        if index != last + 1:
            table.add_row("", "...", "...", "...", "...", "")
        last, row = index, rows[index]
        is_wrong = row.said != row.true
        table.add_row(*_cells(row), style="red" if is_wrong else None)
    return table


def _cells(row: Row) -> Iterator[str]:
    yield str(row.leg)
    yield row.event_id or ""
    yield row.kind if row.entry is None else f"entry {row.entry}"
    yield "" if row.said is None else f"{row.said:,}"
    yield "" if row.true is None else f"{row.true:,}"
    yield "" if row.epoch is None else str(row.epoch)


def _telling(rows: tuple[Row, ...]) -> list[int]:
    telling = {0, len(rows) - 2, len(rows) - 1}
    for index in range(1, len(rows)):
        here, before = rows[index], rows[index - 1]
        if (here.leg, here.kind, here.epoch) != (before.leg, before.kind, before.epoch):
            telling |= {index - 1, index}
    return sorted(telling)


def _metrics(guarded: Guarded) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column("series", overflow="fold")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    for name in TOLD:
        for series in guarded.moved:
            if series.partition("{")[0] == name:
                table.add_row(series, *(f"{at.get(series, 0.0):g}" for at in (guarded.before, guarded.after)))
    return table
