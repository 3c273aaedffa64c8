"""Every metric, as one table, and the registry that is built from it.

Every label combination in the table exists at 0 from the start: Prometheus' `increase()` does not
see a series that is born at 1. `docs/metrics.md` is generated from the table.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from itertools import product
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

import epochgate
from epochgate.core import heal
from epochgate.core.era import KNOWN_METHODS, TrafficClass
from epochgate.core.reissue import Choice
from epochgate.core.states import SessionState, Up
from epochgate.core.verdict import MESSAGE_TABLE, RESUME_LABELS, Verdict

# Requests and discarded work last from an answer out of memory to an hour of work, heals from a
# server in the same pod to one that has to be scheduled anew.
WORK_BUCKETS_S = (0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 1200, 3600)
HEAL_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

LEGS = ("client", "upstream")
UPSTREAM_ERRORS = ("connect", "headers_timeout", "reset", "truncated", "protocol")
HANDSHAKE_FAILURES = ("failed", "not_begun", "timeout")
DROP_REASONS = tuple(
    sorted(
        {row.ruling.reason for row in MESSAGE_TABLE if row.ruling.verdict is Verdict.DROP} | {"stale_answer"}
    )
)

OTHER_METHOD = "other"
METHODS = (*sorted(KNOWN_METHODS), "GET", "DELETE", "batch", "response", OTHER_METHOD)
REISSUE_METHODS = (*sorted(m for m in KNOWN_METHODS if not m.startswith("notifications/")), OTHER_METHOD)
CLASSES = tuple(member.value for member in TrafficClass)
NO_STATUS = "none"  # the connection was closed without an answer (W4)

_EVERY_STATUS = ("200", "400", "401", "403", "404", "500", "502", "503", NO_STATUS)
_MORE_STATUSES = {
    "GET": ("405", "406", "409"),
    "DELETE": ("204", "405"),
    "batch": ("202",),
    "response": ("202",),
}
# Requests that never became an exchange: bounds and allow-lists, before their traffic is known.
_REFUSALS = ("408", "413", "431", "501")
_NO_LABELS: tuple[tuple[str, ...], ...] = ((),)


Population = Mapping[tuple[str, ...], int]


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `name` is without the prefix `epochgate_` and a counter's suffix `_total`."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    series: tuple[tuple[str, ...], ...] = _NO_LABELS
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        return f"epochgate_{self.name}{'_total' if self.kind is Kind.COUNTER else ''}"


def _request_series() -> Iterator[tuple[str, str, str]]:
    for traffic, method in product(CLASSES, METHODS):
        is_notification = method.startswith("notifications/")
        more = ("202",) if is_notification else _MORE_STATUSES.get(method, ())
        if (traffic, method) == (TrafficClass.PLAIN.value, OTHER_METHOD):
            more = _REFUSALS
        for status in (*_EVERY_STATUS, *more):
            yield traffic, method, status


def _stream_series() -> Iterator[tuple[str, str]]:
    return product(("request", "standalone"), (state.value for state in Up))


def _each(values: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    return tuple((value,) for value in values)


_BUILD = (epochgate.__version__, platform.python_version())
_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
# fmt: off
METRICS: tuple[Metric, ...] = (
    Metric("resumes", _C, "Resumes by what the judge said of them, one for each resume.",
           ("leg", "stream", "verdict", "reason"), tuple(sorted(RESUME_LABELS))),
    Metric("heals", _C, "Heals by what began them and how they ended.",
           ("trigger", "outcome"), tuple(product(heal.TRIGGERS, heal.OUTCOMES))),
    Metric("heal_duration_seconds", _H, "Length of a heal.", buckets=HEAL_BUCKETS_S),
    Metric("reissues", _C, "Owed requests that a restart met: sent again, withheld, or used up.",
           ("method", "outcome"), tuple(product(REISSUE_METHODS, (choice.value for choice in Choice)))),
    Metric("discarded_events", _C, "Events of abandoned runs that clients had seen."),
    Metric("discarded_work_seconds", _H, "Time from a request to the restart that made its work void.",
           buckets=WORK_BUCKETS_S),
    Metric("epoch_drift", _C, "Sessions that were re-created between two calls."),
    Metric("dropped_messages", _C, "Messages that no client may see.", ("reason",), _each(DROP_REASONS)),
    Metric("affinity_faults", _C, "A 404 while the session was alive: requests reach the wrong replica."),
    Metric("unproven_polls", _C, "Announced polls accepted from a server that states no epochs."),
    Metric("standalone_gaps", _C, "Gaps in a session's standalone stream."),
    Metric("unknown_cursors", _C, "Cursors that name nothing of their session."),
    Metric("sessions", _G, "Sessions now.", ("state",), _each(state.value for state in SessionState)),
    Metric("sessions_limit", _G, "Sessions that there may be at a time (`max_sessions`)."),
    Metric("session_evictions", _C, "Unused sessions ended to make room for new ones."),
    Metric("streams", _G, "Streams now, by the state of their upstream half.",
           ("kind", "state"), tuple(_stream_series())),
    Metric("journal_bytes", _G, "Bytes kept for redelivery."),
    Metric("journal_limit_bytes", _G, "Bytes that may be kept for redelivery (`journal_total`)."),
    Metric("journal_evictions", _C, "Events dropped from a full journal."),
    Metric("relayed_events", _C, "Events relayed to clients."),
    Metric("requests", _C, "Exchanges by class, method and HTTP status; `none`: closed without an answer.",
           ("class", "method", "status"), tuple(_request_series())),
    Metric("request_duration_seconds", _H, "Time from a request to the end of its answer.",
           ("class", "method"), tuple(product(CLASSES, METHODS)), WORK_BUCKETS_S),
    Metric("upstream_errors", _C, "Upstream exchanges that failed.", ("kind",), _each(UPSTREAM_ERRORS)),
    Metric("upstreams", _G, "Servers now, by whether the last connect reached them.",
        ("state",), _each(("reached", "not_reached"))),
    Metric("ready", _G, "1 while `/readyz` answers 200."),
    Metric("tls_handshake_failures", _C, "Failed TLS handshakes of clients; `not_begun`: closed without a "
           "byte, as port probes are.", ("kind",), _each(HANDSHAKE_FAILURES)),
    Metric("accept_pauses", _C, "Times that accepting paused because no file descriptor was left."),
    Metric("log_lines_dropped", _C, "Log lines lost because nobody read them."),
    Metric("config_last_reload_successful", _G, "1 unless the last reload found settings that are wrong."),
    Metric("config_last_reload_success_timestamp_seconds", _G, "When settings were last loaded (Unix time)."),
    Metric("certificates_last_reload_successful", _G, "1 unless the last reload found files that are wrong.",
           ("leg",), _each(LEGS)),
    Metric("build_info", _G, "Always 1.", ("version", "python"), (_BUILD,)),
)
# fmt: on


class Metrics:
    """The registry, with every series of the table at 0."""

    def __init__(self) -> None:
        # Creation times double the page and nothing here reads them.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no annotations
        self._registry = CollectorRegistry()
        self._counters: dict[tuple[str, ...], Counter] = {}
        self._gauges: dict[tuple[str, ...], Gauge] = {}
        self._histograms: dict[tuple[str, ...], Histogram] = {}
        self._count: Callable[[], Population] = dict
        self._before_refresh: list[Callable[[], None]] = []
        for metric in METRICS:
            self._add(metric)
        ProcessCollector(registry=self._registry)
        self.gauge("build_info", *_BUILD).set(1)

    def _add(self, metric: Metric) -> None:
        name, text, labels = f"epochgate_{metric.name}", metric.text, metric.labels
        key = (metric.name,)
        match metric.kind:
            case Kind.COUNTER:
                self._counters[key] = Counter(name, text, labels, registry=self._registry)
                for values in metric.series:
                    self.counter(metric.name, *values)
            case Kind.GAUGE:
                self._gauges[key] = Gauge(name, text, labels, registry=self._registry)
                for values in metric.series:
                    self.gauge(metric.name, *values)
            case Kind.HISTOGRAM:
                self._histograms[key] = Histogram(
                    name, text, labels, registry=self._registry, buckets=metric.buckets
                )
                for values in metric.series:
                    self.histogram(metric.name, *values)

    def counter(self, *key: str) -> Counter:
        """The series of a counter: its name as in the table, then its label values."""
        return self._counters.get(key) or _bear(self._counters, key)

    def totals(self, name: str, label: str) -> dict[str, float]:
        """What a counter says, summed up by the values of one of its labels; under "" if it has none."""
        summed: dict[str, float] = {}
        (family,) = self._counters[name,].collect()
        for sample in family.samples:
            value = sample.labels.get(label, "")
            summed[value] = summed.get(value, 0) + sample.value
        return dict(sorted(summed.items()))

    def gauge(self, *key: str) -> Gauge:
        return self._gauges.get(key) or _bear(self._gauges, key)

    def histogram(self, *key: str) -> Histogram:
        return self._histograms.get(key) or _bear(self._histograms, key)

    def watch_populations(self, count: Callable[[], Population]) -> None:
        """Take `sessions` and `streams` from `count` at each `refresh`.

        Its keys are a name and label values: ("sessions", "live"), ("streams", "request", "open").
        """
        self._count = count

    def before_refresh(self, prepare: Callable[[], None]) -> None:
        """Call `prepare` at the beginning of each `refresh`."""
        self._before_refresh.append(prepare)

    def refresh(self) -> None:
        """Count the populations anew; on the thread that changes them."""
        for prepare in self._before_refresh:
            prepare()
        counted = self._count()
        for key, gauge in self._gauges.items():
            if key[0] in ("sessions", "streams") and len(key) > 1:
                gauge.set(counted.get(key, 0))

    def watch_journal(self, read_bytes: Callable[[], int]) -> None:
        """Take `journal_bytes` from `read_bytes` at each scrape."""
        self.gauge("journal_bytes").set_function(read_bytes)

    def page(self) -> bytes:
        """The text exposition, as `GET /metrics` answers it."""
        return generate_latest(self._registry)


_Family = TypeVar("_Family", Counter, Gauge, Histogram)


def _bear(series: dict[tuple[str, ...], _Family], key: tuple[str, ...]) -> _Family:
    """Make the series of `key` and keep it: looking one up in its family takes a lock."""
    made = series[key] = series[key[:1]].labels(*key[1:])
    return made


_STANDARD_STATUSES = frozenset(int(status) for status in HTTPStatus)


def status_label(status: int | None) -> str:
    """A standard HTTP status as it is, another by its class (`2xx`), None as `none`."""
    if status is None:
        return NO_STATUS
    return str(status) if status in _STANDARD_STATUSES else f"{min(status // 100, 9)}xx"
