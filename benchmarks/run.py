"""`python -m benchmarks.run`: what epochgate costs, against a bare aiohttp relay in the same run.

Figures of one machine move by a third from run to run, so only ratios of one run count: the proxies take
turns in every round, on a core of their own; load and upstream share another.
"""

import argparse
import contextlib
import os
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import uvloop

from benchmarks.load import LoadError
from benchmarks.measure import CPU_ROWS, IDLE_ROW, Row, Sample, measure_cpu, measure_idle
from benchmarks.proxies import COMMANDS, Cores, Proxy, ProxyError, has_nginx, running
from benchmarks.report import LIMIT, Result, as_json, as_table, is_within
from benchmarks.upstream import Upstream

QUICK = 0.1
FILES = 16384  # Two descriptors per idle session in this process, two in the proxy.


@dataclass(frozen=True, slots=True)
class Bench:
    """What every measurement of a run shares. `names`: the bare relay, the judged proxy, then any others."""

    names: tuple[str, ...]
    upstream: Upstream
    address: str
    cores: Cores
    rounds: int
    is_quiet: bool

    async def measure_cpu(self, results: Sequence[Result]) -> None:
        """Every row at every proxy, in rounds; each round has fresh processes.

        Where its memory came to lie can make one process a sixth slower than the next for life.
        """
        if not results:
            return
        for number in range(self.rounds):
            async with contextlib.AsyncExitStack() as stack:
                proxies = [await stack.enter_async_context(self._running(name)) for name in self.names]
                for result in results:
                    for i in _order(len(proxies), number):
                        self._keep(result, i, await measure_cpu(result.row, proxies[i], self.upstream))

    async def measure_idle(self, result: Result) -> None:
        """Memory, with fresh processes in every second round: they take long to start."""
        for number in range(max(1, self.rounds // 2)):
            for i in _order(len(self.names), number):
                async with self._running(self.names[i]) as proxy:
                    self._keep(result, i, await measure_idle(result.row, proxy))

    def _running(self, name: str) -> contextlib.AbstractAsyncContextManager[Proxy]:
        return running(name, self.address, self.cores)

    def _keep(self, result: Result, proxy: int, sample: Sample) -> None:
        result.add(proxy, sample)
        if not self.is_quiet:
            print(f"{result.row.name} {self.names[proxy]} {sample.cost:.2f}", file=sys.stderr)


async def run(options: argparse.Namespace, rows: Sequence[Row], cores: Cores) -> list[Result]:
    """Measure every row in every round. Raises LoadError and ProxyError."""
    os.sched_setaffinity(0, {cores.load})
    upstream = Upstream(has_epochs=options.epochs)
    names = ("bare", options.subject, *(("nginx",) if has_nginx() else ()))
    address = await upstream.start()
    bench = Bench(names, upstream, address, cores, options.rounds, options.json)
    results = [Result(row, names) for row in rows]
    try:
        await bench.measure_cpu([result for result in results if not result.row.is_memory])
        for result in (result for result in results if result.row.is_memory):
            await bench.measure_idle(result)
    finally:
        upstream.close()
    return results


def _order(count: int, number: int) -> Sequence[int]:
    return range(count) if number % 2 == 0 else range(count - 1, -1, -1)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    names = [row.name for row in (*CPU_ROWS, IDLE_ROW)]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="times that each row is measured (default 5)")
    add("--scale", type=float, default=1.0, help="the amount of work in a round (default 1.0)")
    add("--quick", dest="scale", action="store_const", const=QUICK, help="a tenth of the work")
    add("--sessions", type=int, default=8, help="sessions that call at a time (default 8; 1: quiet)")
    add("--rows", nargs="+", choices=names, default=names, help="rows to measure (default: all)")
    add("--subject", choices=list(COMMANDS), default="epochgate", help="the proxy that is judged")
    add("--epochs", action="store_true", help="the server states an epoch on every message")
    add("--json", action="store_true", help="print one JSON object and nothing else")
    add("--enforce", action="store_true", help=f"exit 1 when a ratio is above {LIMIT}")
    options = parser.parse_args(argv)
    if options.rounds < 1 or options.scale <= 0 or options.sessions < 1:
        parser.error("--rounds, --scale and --sessions must be above 0")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """0; 1 with `--enforce` when a ratio is above the limit; 2 when a proxy or an answer was wrong."""
    options = _options(argv)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most if most != resource.RLIM_INFINITY else FILES, most))
    rows = [
        row.scaled(options.scale, options.sessions)
        for row in (*CPU_ROWS, IDLE_ROW)
        if row.name in options.rows
    ]
    cores = Cores.choose()
    try:
        results = uvloop.run(run(options, rows, cores))
    except (LoadError, ProxyError) as error:
        print(f"benchmark failed: {error}", file=sys.stderr)
        return 2
    print(as_json(results, cores) if options.json else as_table(results, cores))
    return 0 if is_within(results) or not options.enforce else 1


if __name__ == "__main__":
    sys.exit(main())
