"""Writes what is generated from the code: five pages of this folder, a table of the README, the schema of
the file of settings, what the Helm chart has of it (`chart.py`), and the dashboard (`dashboard.py`).

`python docs/generate.py` writes them; `python docs/generate.py --check` names those that differ and
exits with 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import chart
import dashboard
from rule_sentences import RULES
from sentences import AXES, REASONS, STATES, VALUES

from epochgate.core import axes, verdict
from epochgate.core.states import CLIENT, INTAKE, SESSION, UPSTREAM
from epochgate.core.verdict import OUTSIDE, RESUME_LABELS, Row, Ruling, Verdict
from epochgate.limits import table
from epochgate.observe.metrics import METRICS, Kind, Metric

ROOT = Path(__file__).parents[1]

# --- limits and metrics -----------------------------------------------------------------------------


def limits() -> str:
    """Every limit and deadline, from the settings model."""
    rows = [(f"`{limit.name}`", limit.default, limit.what, limit.why, limit.at_limit) for limit in table()]
    return _page(
        "Limits",
        "Every limit and deadline. Each is a flag (`--max-body 32MiB`), a variable "
        "(`EPOCHGATE_MAX_BODY=32MiB`) and a line of the file given by `--config` (`max_body: 32MiB`).",
        _table(("setting", "default", "what it limits", "why", "at the limit"), rows),
        "An event above `max_event_bytes` is passed on as it comes on a connection that never broke, and is "
        "not kept: a client that loses it gets error -32050 when it returns. What has to be looked at whole "
        "ends its request with that error instead: a question to the client, and an answer that needs a mark "
        "or less of its epoch because the session was healed before.",
        "A TLS handshake has 10 s.",
        "At start the limit of open files is raised to its hard limit. When no descriptor is left, "
        "accepting pauses, and `epochgate_accept_pauses_total` counts it.",
    )


def metrics() -> str:
    """Every metric, from the table that the registry is built from."""
    rows = [
        (f"`{metric.full_name}`", metric.kind.value, _labels(metric), str(_born(metric)), metric.text)
        for metric in METRICS
    ]
    values = [_values(metric) for metric in METRICS if metric.labels and metric.name not in _TOO_LONG]
    return _page(
        "Metrics",
        "`GET /metrics` on the admin listener, and on the health listener if there is one. Every series "
        "exists at 0 from the start, so that `increase()` sees the first event; besides these, "
        "`process_*` tells of memory, CPU and descriptors. What is counted before a process is first scraped "
        "has no sample of 0 before it all the same; how the rules see it, and what the alerts mean: "
        "[rules.yaml](../helm/epochgate/files/rules.yaml), [runbook.md](runbook.md).",
        _table(("metric", "kind", "labels", "series at start", "what it counts"), rows),
        "## Label values",
        *values,
    )


# Products of methods with classes or statuses; the label values stand in the other rows.
_TOO_LONG = ("requests", "build_info")


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels) or "–"


def _born(metric: Metric) -> int:
    """How many series there are from the start, the buckets of a histogram counted as one."""
    return len(metric.series)


def _values(metric: Metric) -> str:
    if metric.name == "resumes":
        return f"### `{metric.full_name}`\n\n{_table(metric.labels, metric.series)}"
    columns = [sorted({values[i] for values in metric.series}) for i in range(len(metric.labels))]
    lines = [
        f"- `{label}`: {', '.join(f'`{value}`' for value in column)}"
        for label, column in zip(metric.labels, columns, strict=True)
    ]
    buckets = f"\n- buckets: {', '.join(f'{bucket:g}' for bucket in metric.buckets)}"
    shown = buckets if metric.kind is Kind.HISTOGRAM else ""
    return f"### `{metric.full_name}`\n\n" + "\n".join(lines) + shown


# --- verdicts ---------------------------------------------------------------------------------------

TABLES: tuple[tuple[str, type, tuple[Row, ...]], ...] = (
    ("A message came", axes.MessageEvidence, verdict.MESSAGE_TABLE),
    ("A resume was answered", axes.AnswerEvidence, verdict.ANSWER_TABLE),
    ("A connection to the server ended", axes.BreakEvidence, verdict.BREAK_TABLE),
    ("A client came back with a cursor", axes.CursorEvidence, verdict.CURSOR_TABLE),
)
_NOT_ASKED = (
    "When a client ends its session its connections are closed, and the table of breaks is not asked."
)


def verdicts() -> str:
    """The judge's four tables, what can be seen, and every reason in words."""
    return _page(
        "Verdicts",
        "The tables of `proxy/epochgate/core/verdict.py`. In each, rows are tried from the top and the first "
        "that fits decides; what a row does not name may be anything. A *scope* of `session` means that the "
        "session on the server is in doubt and is re-established; with `stream` that is done only to send "
        "the request again.",
        _NOT_ASKED,
        *(_verdict_table(title, kind, rows) for title, kind, rows in TABLES),
        "## Outside the tables",
        "Decided where they happen: there is nothing to weigh.",
        _table(("verdict", "reason", "scope"), [_ruled(ruling) for ruling in OUTSIDE.values()]),
        "## Every reason in words",
        _table(
            ("verdict", "reason", "when"),
            [(name, f"`{reason}`", REASONS[name, reason]) for name, reason in _reasons()],
        ),
    )


def _verdict_table(title: str, kind: type, rows: Sequence[Row]) -> str:
    seen = [
        f"- {AXES[kind][axis]}: {', '.join(VALUES[value] for value in values)}"
        for axis, values in axes.axes(kind).items()
    ]
    lines = [(str(at), _when(kind, row), *_ruled(row.ruling)) for at, row in enumerate(rows, 1)]
    made = _table(("", "when", "verdict", "reason", "scope"), lines)
    return "\n\n".join((f"## {title}", made, "What can be seen:", "\n".join(seen)))


def _when(kind: type, row: Row) -> str:
    said = [
        f"**{AXES[kind][axis]}**: {' *or* '.join(VALUES[value] for value in values)}"
        for axis, values in row.when.items()
    ]
    return "; ".join(said) or "anything else"


def _ruled(ruling: Ruling) -> tuple[str, str, str]:
    return ruling.verdict.value, f"`{ruling.reason}`", ruling.scope.value


def _rulings() -> list[Ruling]:
    return [row.ruling for _, _, rows in TABLES for row in rows] + list(OUTSIDE.values())


def _reasons() -> list[tuple[str, str]]:
    """Every verdict with its reason, by verdict and in the order of the tables."""
    order = list(Verdict)
    found = dict.fromkeys((ruling.verdict, ruling.reason) for ruling in _rulings())
    return [(name.value, reason) for name, reason in sorted(found, key=lambda pair: order.index(pair[0]))]


def readme_verdicts() -> str:
    """What `epochgate_resumes_total` can say, in words."""
    counted = {(leg, name, reason) for leg, _, name, reason in RESUME_LABELS}
    scopes = {(ruling.verdict.value, ruling.reason): ruling.scope.value for ruling in reversed(_rulings())}
    lines = [
        (leg, shown, f"`{reason}`", scopes[name, reason], REASONS[name, reason])
        for leg in ("upstream", "client")
        for name, reason in _reasons()
        if (leg, (shown := _counted_as(name)), reason) in counted
    ]
    return _table(("leg", "verdict", "reason", "scope", "when"), lines)


def _counted_as(name: str) -> str:
    return "resume" if name == Verdict.RELAY.value else name


# --- states -----------------------------------------------------------------------------------------


def states() -> str:
    """The state tables, a row for each input and a column for each state."""
    return _page(
        "States",
        "The tables of `proxy/epochgate/core/states.py`. A cell is the next state; `–` cannot happen, and "
        "meeting it is an error of the machine.",
        _machine("Session", SESSION),
        "Nothing leads out of `ended`.",
        _machine("Stream, upstream half", UPSTREAM),
        "Nothing leads out of `gone`. A standalone stream owes no answer: where a request's stream waits "
        "in `void` to be sent again, it waits to be reopened.",
        _machine("Stream, client half", CLIENT),
        "## What is done with a client's request",
        "By the state of its session.",
        _grid(INTAKE),
        "Of a repeated `initialize`: the same session id in its answer is a new generation of the session, "
        "another id is another session, anything else passes and changes nothing. While a heal is under way "
        "it waits for its end.",
    )


def _machine(title: str, cells: Mapping[Any, Enum]) -> str:
    kind = type(next(iter(cells))[0])
    meanings = [f"- `{state.value}`: {STATES[state]}" for state in kind]
    return "\n\n".join((f"## {title}", "\n".join(meanings), _grid(cells)))


def _grid(cells: Mapping[Any, Enum]) -> str:
    """A table of (state, input) -> outcome; states that nothing leads out of have no column."""
    with_cells = {state for state, _ in cells}
    columns = [state for state in type(next(iter(cells))[0]) if state in with_cells]
    inputs = type(next(iter(cells))[1])
    lines = [
        (one.value, *(cells[state, one].value if (state, one) in cells else "–" for state in columns))
        for one in inputs
    ]
    return _table(("", *(f"`{state.value}`" for state in columns)), lines)


# --- rules ------------------------------------------------------------------------------------------

SOURCE = ROOT / "proxy" / "epochgate"
CITED = re.compile(r"\b[RW][1-9][0-9]?\b")


def rules() -> str:
    """Every rule with the modules that cite it."""
    places = cited()
    lines = [
        (name, said, ", ".join(f"`{place}`" for place in places.get(name, ())))
        for name, said in RULES.items()
    ]
    return _page(
        "Rules",
        "What the numbers in comments and docstrings stand for, and which modules say that they carry a rule "
        "out. R: what the guard has to do. W: what real clients and servers force. Some numbers are not in "
        "use. G1 to G9 are the guarantees of [design.md](design.md), which also has the sections that are "
        "cited as *design, 8*.",
        _table(("rule", "what it says", "where"), lines),
    )


def cited() -> dict[str, list[str]]:
    """Rule -> the modules that cite it, as paths within the package and without suffix."""
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).with_suffix("").as_posix()
        for name in sorted(set(CITED.findall(path.read_text()))):
            found.setdefault(name, []).append(place)
    return found


# --- pages ------------------------------------------------------------------------------------------

_BEGIN, _END = "<!-- verdicts:begin -->", "<!-- verdicts:end -->"


def readme() -> str:
    """The README with its table made anew; everything else in it is written by hand."""
    before, _, rest = (ROOT / "README.md").read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{readme_verdicts()}\n{_END}{after}"


def _page(title: str, *parts: str) -> str:
    made = "<!-- Generated by docs/generate.py; change the code it is generated from. -->"
    return "\n\n".join((f"# {title}", made, *parts)) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


PAGES = {
    "docs/limits.md": limits,
    "docs/metrics.md": metrics,
    "docs/rules.md": rules,
    "docs/states.md": states,
    "docs/verdicts.md": verdicts,
    "README.md": readme,
    "helm/epochgate/files/dashboard.json": dashboard.page,
    "config/settings.schema.json": chart.settings_schema,
    "helm/epochgate/README.md": chart.chart_readme,
    "helm/epochgate/files/settings.yaml": chart.known_settings,
    "helm/epochgate/values.schema.json": chart.values_schema,
}


def main(words: Sequence[str]) -> int:
    stale = [name for name, make in PAGES.items() if _read(name) != make()]
    if "--check" in words:
        for name in stale:
            print(f"{name} differs from the code; run `python docs/generate.py`", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).write_text(PAGES[name]())
    return 0


def _read(name: str) -> str | None:
    path = ROOT / name
    return path.read_text() if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
