"""Kinds of panels and of queries. In a query `OURS` stands for the processes that were chosen.

What happened in the time range is the greater of `increase()` and, of processes that began within it, all
that they have counted: what happened before a process was first scraped would be missing otherwise (see
`helm/epochgate/files/rules.yaml`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TARGET = "namespace, job, pod, instance"
PROCESS = "{{pod}} {{instance}}"
STARTED = (
    f"1000 * process_start_time_seconds{{OURS}} * on ({TARGET})"
    " group_left (version) epochgate_build_info{OURS}"
)
GOOD, DOUBTFUL, BAD = "green", "orange", "red"
NEUTRAL = (("text", None),)
CAUGHT = ((GOOD, None), (DOUBTFUL, 1))
LOST = ((GOOD, None), (BAD, 1))
IS_GOOD = ((BAD, None), (GOOD, 1))


@dataclass(frozen=True)
class Query:
    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """Lines over time. `steps` are thresholds: from a value on, a colour."""

    title: str
    text: str
    queries: Sequence[Query]
    unit: str = "short"
    steps: Sequence[tuple[str, float | None]] = ((GOOD, None),)

    kind = "timeseries"
    width, height = 8, 8
    is_instant = False
    format = "time_series"
    color = "palette-classic"

    def options(self) -> dict[str, Any]:
        legend = {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True}
        return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}

    def custom(self) -> dict[str, Any]:
        return {"drawStyle": "line", "fillOpacity": 10, "lineWidth": 1, "showPoints": "never"}


class Bars(Panel):
    """Events, stacked."""

    def custom(self) -> dict[str, Any]:
        stacking = {"group": "A", "mode": "normal"}
        return {"drawStyle": "bars", "fillOpacity": 80, "lineWidth": 0, "stacking": stacking}


class Share(Panel):
    """Lines between 0 and 1, and the one above which an alert fires."""

    def custom(self) -> dict[str, Any]:
        return {**super().custom(), "thresholdsStyle": {"mode": "dashed"}}


class Number(Panel):
    """One number, or one for each query or series."""

    kind = "stat"
    width, height = 4, 4
    is_instant = True
    color = "thresholds"

    def options(self) -> dict[str, Any]:
        return {
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "percentChangeColorMode": "standard",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "showPercentChange": False,
            "textMode": "auto",
            "wideLayout": True,
        }

    def custom(self) -> dict[str, Any]:
        return {}


class Table(Panel):
    """A row for each series, a column for each of its labels."""

    kind = "table"
    width, height = 12, 6
    is_instant = True
    format = "table"

    def options(self) -> dict[str, Any]:
        return {"showHeader": True, "frameIndex": 0, "cellHeight": "sm"}

    def custom(self) -> dict[str, Any]:
        return {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False}


def happened(series: str) -> str:
    """How often in the time range, in all processes."""
    new = "time() - process_start_time_seconds{OURS} < $__range_s"
    return (
        f"sum(({series} and on ({TARGET}) ({new})) > increase({series}[$__range])"
        f" or increase({series}[$__range]))"
    )


def each_bar(by: str, series: str) -> str:
    """How often from one bar to the next."""
    return f"sum by ({by}) (increase({series}[$__rate_interval]))"


def below(share: float, histogram: str, over: str) -> str:
    """The value that this share of what was observed is below; `histogram` is a selector of its buckets."""
    return f"histogram_quantile({share}, sum by (le) (increase({histogram}[{over}])))"


def limited(title: str, text: str, record: str, line: float) -> Share:
    """A recorded share of each process, and the line above which an alert fires."""
    return Share(
        title, text, [Query(f"{record}{{OURS}}", PROCESS)], "percentunit", ((GOOD, None), (BAD, line))
    )
