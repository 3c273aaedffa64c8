"""Turns what passes by into metrics and log lines. Nothing waits for it and it changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from epochgate.core.commands import (
    Counted,
    Discarded,
    Drifted,
    Dropped,
    Fact,
    HealBegun,
    HealEnded,
    Judged,
    Reissued,
    Relayed,
    UpstreamFailed,
)
from epochgate.core.era import TrafficClass
from epochgate.core.verdict import Verdict
from epochgate.observe.logs import Logger
from epochgate.observe.metrics import METHODS, OTHER_METHOD, REISSUE_METHODS, Metrics, status_label
from epochgate.settings import AccessLog

_METHODS = frozenset(METHODS)
_REISSUE_METHODS = frozenset(REISSUE_METHODS)
_LOUD = frozenset({Verdict.RESTART.value, Verdict.FAIL.value, Verdict.REFUSE.value})


class Observer:
    """Sees every fact and every exchange of the process."""

    def __init__(self, metrics: Metrics, log: Logger, access: AccessLog) -> None:
        self.metrics = metrics
        self.log = log
        self.access = access
        self.why = ""  # the leg failed of whose end the next fact tells, if that is one
        self.relayed = 0  # events relayed since the last scrape: counting each read would show
        metrics.before_refresh(self._count_relayed)

    def saw(self, session: str, step: Fact) -> None:
        """Count and log a fact about the session with this hash."""
        match step:
            case Relayed():
                self.relayed += step.events
            case Judged():
                self._judged(session, step)
            case Dropped():
                self.metrics.counter("dropped_messages", step.reason).inc()
                self.log.debug("message dropped", session=session, reason=step.reason)
            case HealBegun():
                self.log.info("heal begun", session=session, trigger=step.trigger, generation=step.generation)
            case HealEnded():
                self._healed(session, step)
            case Reissued():
                self._reissued(session, step)
            case Discarded():
                self.metrics.counter("discarded_events").inc(step.events)
                self.metrics.histogram("discarded_work_seconds").observe(step.seconds)
                self.log.warning(
                    "work discarded", session=session, events=step.events, seconds=round(step.seconds, 3)
                )
            case Drifted():
                self.metrics.counter("epoch_drift").inc()
                self.log.warning("session re-created", session=session, generation=step.generation)
            case Counted():
                self.metrics.counter(step.name).inc()
                self._said(step.name)(step.name.replace("_", " "), session=session)
            case UpstreamFailed():
                self.metrics.counter("upstream_errors", step.kind).inc()
                said = {"reason": self.why} if self.why else {}
                self.log.info("upstream failed", session=session, kind=step.kind, **said)
            case _:
                assert_never(step)

    def _said(self, counted: str) -> Callable[..., object]:
        """How loudly: a long stream evicts at every read, and replicas that are mixed up are to be mended."""
        match counted:
            case "journal_evictions":
                return self.log.debug
            case "affinity_faults":
                return self.log.warning
            case _:
                return self.log.info

    def _count_relayed(self) -> None:
        relayed, self.relayed = self.relayed, 0
        self.metrics.counter("relayed_events").inc(relayed)

    def request_ended(
        self,
        traffic: str,
        method: str,
        status: int | None,
        seconds: float,
        session: str = "",
        verdicts: Sequence[str] = (),
        ids: Callable[[], Mapping[str, list[str]]] = dict,
    ) -> None:
        """Count an exchange whose answer has ended and log it as `access_log` says.

        `traffic` is a value of `TrafficClass`; `method` what `era.method_label` said; `status` None
        if the connection was closed without one. `verdicts` are the things to tell of it, such as
        `restart epoch_mismatch`; an exchange with any is notable. `ids` says which ids to show, and is
        asked only for a line that is written.
        """
        label = method if method in _METHODS else OTHER_METHOD
        self.metrics.counter("requests", traffic, label, status_label(status)).inc()
        self.metrics.histogram("request_duration_seconds", traffic, label).observe(seconds)
        if self._is_logged(status, verdicts):
            self.log.info(
                "request",
                session=session,
                traffic=traffic,
                method=label,
                status=status,
                ms=round(seconds * 1000, 1),
                verdicts=list(verdicts),
                **ids(),
            )

    def request_refused(self, status: int) -> None:
        """A request that was refused before anything of it was looked at (W12, limits)."""
        self.request_ended(TrafficClass.PLAIN.value, OTHER_METHOD, status, 0.0)

    def watch_certificates(self, leg: str) -> Callable[[bool], None]:
        """What to call with whether the last reload of a leg's certificates was good; at first it was."""
        gauge = self.metrics.gauge("certificates_last_reload_successful", leg)
        gauge.set(1)
        return gauge.set

    def accept_paused(self) -> None:
        """No file descriptor is left; accepting pauses."""
        self.metrics.counter("accept_pauses").inc()
        self.log.warning("accepting paused", reason="no file descriptor left")

    def handshake_failed(self, kind: str, reason: str) -> None:
        """A client did not get its TLS connection. Those that asked for none are no news."""
        self.metrics.counter("tls_handshake_failures", kind).inc()
        write = self.log.debug if kind == "not_begun" else self.log.info
        write("TLS handshake failed", kind=kind, reason=reason)

    def _is_logged(self, status: int | None, verdicts: Sequence[str]) -> bool:
        match self.access:
            case AccessLog.ALL:
                return True
            case AccessLog.NOTABLE:
                return bool(verdicts) or status is None or not 200 <= status < 300
            case AccessLog.OFF:
                return False

    def _judged(self, session: str, step: Judged) -> None:
        labels = (step.leg, step.stream, step.verdict, step.reason)
        self.metrics.counter("resumes", *labels).inc()
        write = self.log.warning if step.verdict in _LOUD else self.log.info
        write(
            "resume judged",
            session=session,
            leg=step.leg,
            stream=step.stream,
            verdict=step.verdict,
            reason=step.reason,
        )

    def _healed(self, session: str, step: HealEnded) -> None:
        self.metrics.counter("heals", step.trigger, step.outcome).inc()
        self.metrics.histogram("heal_duration_seconds").observe(step.seconds)
        self.log.warning(
            "heal ended",
            session=session,
            trigger=step.trigger,
            outcome=step.outcome,
            generation=step.generation,
            seconds=round(step.seconds, 3),
            changes=list(step.changes),
        )

    def _reissued(self, session: str, step: Reissued) -> None:
        method = step.method if step.method in _REISSUE_METHODS else OTHER_METHOD
        self.metrics.counter("reissues", method, step.outcome).inc()
        self.log.warning(
            "request re-issue", session=session, method=method, outcome=step.outcome, reason=step.reason
        )
