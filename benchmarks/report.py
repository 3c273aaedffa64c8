"""The result of a run as a table for people and as one JSON object."""

import json
from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.measure import Row, Sample
from benchmarks.proxies import Cores

LIMIT = 1.25  # Above this a row that is judged fails with --enforce; `Row.budget` is the aim.


class Result:
    """The samples of one row: one list per proxy, the bare relay first, the judged proxy second."""

    def __init__(self, row: Row, names: Sequence[str]) -> None:
        self.row = row
        self.names = tuple(names)
        self.samples: list[list[Sample]] = [[] for _ in names]

    def add(self, proxy: int, sample: Sample) -> None:
        """Keep one sample of one proxy."""
        self.samples[proxy].append(sample)

    def ratio(self, proxy: int = 1) -> float:
        """Median over the rounds of this proxy's cost by the bare relay's of the same round."""
        pairs = zip(self.samples[proxy], self.samples[0], strict=True)
        return median(mine.cost / bare.cost for mine, bare in pairs)

    def ratio_of_minima(self, proxy: int = 1) -> float:
        """The lowest cost by the bare relay's lowest."""
        return self.lowest(proxy) / self.lowest(0)

    def lowest(self, proxy: int) -> float:
        """The lowest cost of a proxy."""
        return min(sample.cost for sample in self.samples[proxy])

    def median(self, proxy: int) -> float:
        """The median cost of a proxy."""
        return median(sample.cost for sample in self.samples[proxy])

    def units_per_read(self, proxy: int) -> float | None:
        """Median of the units per read; None where reads cannot be counted."""
        counted = [s.units_per_read for s in self.samples[proxy] if s.units_per_read is not None]
        return median(counted) if counted else None


def is_within(results: Sequence[Result]) -> bool:
    """Is the judged proxy within the limit on every row that is judged?"""
    return all(result.ratio() <= LIMIT for result in results if result.row.budget is not None)


def as_json(results: Sequence[Result], cores: Cores) -> str:
    """One JSON object on one line."""
    rows = [_row(result) for result in results]
    is_pinned = cores.proxy != cores.load
    return json.dumps({"limit": LIMIT, "is_pinned": is_pinned, "is_within": is_within(results), "rows": rows})


def _row(result: Result) -> dict[str, Any]:
    proxies = [
        {
            "name": name,
            "min": result.lowest(i),
            "median": result.median(i),
            "units_per_read": result.units_per_read(i),
            "samples": [sample.cost for sample in result.samples[i]],
        }
        for i, name in enumerate(result.names)
    ]
    return {
        "row": result.row.name,
        "unit": _unit(result.row),
        "ratio": result.ratio(),
        "ratio_of_minima": result.ratio_of_minima(),
        "budget": result.row.budget,
        "proxies": proxies,
    }


def as_table(results: Sequence[Result], cores: Cores) -> str:
    """The table, one line per row and proxy."""
    lines = [_cells("row", "unit", "proxy", "min", "median", "per read", "ratio", "of minima", "budget")]
    for result in results:
        lines += [_line(result, i) for i in range(len(result.names))]
    if cores.proxy == cores.load:
        lines.append("Only one core: proxy, load and upstream shared it; the figures say little.")
    lines.append(f"ratio: cost by the bare relay's, median over rounds; limit {LIMIT}, budget: the aim")
    return "\n".join(lines)


def _line(result: Result, proxy: int) -> str:
    per_read = result.units_per_read(proxy)
    first = (result.row.name, _unit(result.row)) if proxy == 0 else ("", "")
    ratios = (f"{result.ratio(proxy):.2f}", f"{result.ratio_of_minima(proxy):.2f}") if proxy else ("", "")
    return _cells(
        *first,
        result.names[proxy],
        f"{result.lowest(proxy):.2f}",
        f"{result.median(proxy):.2f}",
        f"{per_read:.1f}" if per_read is not None else "-",
        *ratios,
        _budget(result.row) if proxy == 1 else "",
    )


def _unit(row: Row) -> str:
    return f"KiB/{row.unit}" if row.is_memory else f"µs/{row.unit}"


def _budget(row: Row) -> str:
    return "none" if row.budget is None else str(row.budget)


def _cells(*cells: str) -> str:
    widths = (13, 12, 10, 8, 8, 9, 6, 10, 6)
    aligned = (
        cell.ljust(width) if i < 3 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return " ".join(aligned).rstrip()
