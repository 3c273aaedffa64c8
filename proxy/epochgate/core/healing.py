"""A heal: one transaction that re-establishes the upstream session, single flight (design, section 8).

initialize, compare, initialized, reopen the standalone stream, restore, commit, re-issue, tell. The
client's session id never changes. Unreachable is not lost: as long as somebody waits it is tried again,
then parked for the next caller (R27).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core import (
    delivery,
    ending,
    epoch,
    heal,
    http,
    jsonrpc,
    legs,
    reopening,
    restarting,
    restoring,
    sending,
    standalone,
)
from epochgate.core.commands import HealBegun, HealEnded
from epochgate.core.events import LegEnd, RequestHead
from epochgate.core.generation import Generation
from epochgate.core.heal import Heal
from epochgate.core.inquiry import Outcome
from epochgate.core.policy import Stamps
from epochgate.core.states import SessionInput, SessionState, Up
from epochgate.core.stream import Restart, Stream
from epochgate.core.timers import Timer
from epochgate.core.upward import back_off, stamp_again

if TYPE_CHECKING:
    from epochgate.core.session import Session

_FIRST_BACKOFF_S = 0.1
_LAST_BACKOFF_S = 2.0
_MINUTE_S = 60.0


# --- beginning --------------------------------------------------------------------------------------


def begin(session: Session, trigger: str, head: RequestHead) -> None:
    """Begin a heal, or join the one under way. `head` is a caller that the session has accepted."""
    if session.state is SessionState.HEALING:
        return
    if ending.defer_while_deleting(session, lambda: begin(session, trigger, head)):
        return
    if session.state not in (SessionState.LIVE, SessionState.PARKED):
        restarting.fail_waiting(session, "session_lost")
        return
    if session.drain_until is not None:
        restarting.fail_waiting(session, "draining")
        return
    if not _has_budget(session) and session.is_heal_refused:
        restarting.fail_waiting(session, "unauthorized")  # it is not lost, however often it was tried (R27)
        return
    if not _has_budget(session):
        session.move(SessionInput.SURFACED)
        session.do(HealEnded(trigger, "lost", session.current.number, 0.0))
        restarting.fail_waiting(session, "heal_budget")
        return
    session.move(SessionInput.HEAL)
    session.heals_at.append(session.now)
    session.heal = Heal(trigger, session.current.number, session.now, head)
    session.do(HealBegun(trigger, session.current.number))
    attempt(session)


def _has_budget(session: Session) -> bool:
    session.heals_at = [at for at in session.heals_at if session.now - at < _MINUTE_S]
    return len(session.heals_at) < session.policy.max_heals_per_minute


def attempt(session: Session) -> None:
    """Send the recorded `initialize` with the negotiated version and an id of ours (W9)."""
    run = session.heal
    if run is None or session.initialize is None:
        return
    if ending.defer_while_deleting(session, lambda: attempt(session)):
        return
    request_id = session.own_id()
    body = heal.initialize_request(session.initialize, session.initialize_result.protocol_version, request_id)

    def initialized(outcome: Outcome) -> None:
        if session.heal is run:
            _compare(session, run, outcome)
        else:
            _end_unwanted(session, outcome)

    legs.inquire(session, run.head, None, body, request_id, initialized)


def _end_unwanted(session: Session, outcome: Outcome) -> None:
    """Nobody wants the session any more that was being made (R25)."""
    upstream_id = http.find(outcome.headers, http.SESSION_ID)
    if outcome.is_accepted and upstream_id is not None and upstream_id != session.current.upstream_id:
        made = Generation(session.current.number + 1, upstream_id, epoch.Epoch(None, None))
        ending.end_upstream(session, made)


# --- comparing --------------------------------------------------------------------------------------


def _compare(session: Session, run: Heal, outcome: Outcome) -> None:
    if outcome.is_unauthorized:
        session.is_heal_refused = True
        _park(session, run)
        return
    if not outcome.is_accepted or outcome.end not in (LegEnd.CLEAN, LegEnd.CLOSED):
        _end_unwanted(session, outcome)  # its head may have named a session
        try_again(session, run)
        return
    upstream_id = http.find(outcome.headers, http.SESSION_ID)
    result_raw = jsonrpc.member(outcome.message.raw, "result") if outcome.message is not None else None
    result = None if result_raw is None else heal.read_initialize_result(result_raw)
    if outcome.message is None or result_raw is None or result is None or upstream_id is None:
        give_up(session, run, ("no session",))
        return
    if upstream_id == session.current.upstream_id and session.policy.stamp is Stamps.OFF:
        give_up(session, run, ("same session id without stamps",))
        return
    comparison = heal.compare(session.initialize_result, result)
    stated = epoch.Epoch(
        epoch.stated_in(outcome.message.raw, session.policy.epoch_keys),
        epoch.stated_in_headers(outcome.headers, session.policy.epoch_header),
    )
    run.new = Generation(session.current.number + 1, upstream_id, stated, last_sign_of_life=session.now)
    run.new.cookies = session.current.cookies | http.set_cookies(outcome.headers)
    if comparison.incompatible:
        ending.end_upstream(session, run.new)
        give_up(session, run, comparison.incompatible)
        return
    run.result_raw, run.changes = result_raw, comparison.changes
    if session.has_initialized:
        _send_initialized(session, run, run.new)
    else:
        commit(session, run)  # the client's own `initialized` goes to the new generation (R45)


def _send_initialized(session: Session, run: Heal, new: Generation) -> None:
    def acknowledged(outcome: Outcome) -> None:
        if session.heal is not run:
            return
        if not outcome.is_accepted:
            try_again(session, run)
            return
        standalone.move_to(session, new)
        prelude = [restoring.call_params(message.raw) for message in session.prelude.values()]
        run.steps = list(heal.restore_steps(session.log_level, tuple(session.subscriptions), prelude))
        restoring.restore_next(session, run, new)

    run.is_initialized_told = True
    legs.inquire(session, run.head, new, _initialized(), None, acknowledged)


def _initialized() -> bytes:
    return jsonrpc.notification("notifications/initialized", {})


# --- committing -------------------------------------------------------------------------------------


def commit(session: Session, run: Heal) -> None:
    """The new generation becomes current, durably, before anything is sent again (R16)."""
    if ending.defer_while_deleting(session, lambda: commit(session, run)) or session.heal is not run:
        return
    assert run.new is not None
    old = session.current
    if run.new.upstream_id == old.upstream_id:
        old.is_ended = True
    session.take_generation(run.new)
    session.initialize_result_raw = run.result_raw
    session.persist_session(lambda: _committed(session, run, old))


def _committed(session: Session, run: Heal, old: Generation) -> None:
    is_deferred = ending.defer_while_deleting(session, lambda: _committed(session, run, old))
    if is_deferred or session.heal is not run:
        return
    session.heal = None
    session.is_heal_refused = False
    session.move(SessionInput.COMMITTED)
    seconds = session.now - run.began_at
    session.do(HealEnded(run.trigger, "healed", session.current.number, seconds, run.changes))
    if session.has_initialized and not run.is_initialized_told:  # it came while the commit was written
        legs.inquire(session, run.head, session.current, _initialized(), None, ending.nothing)
    waiting = _attend_waiting(session)
    if (
        session.standalone is not None
        and session.standalone.generation is old
        and session.standalone.up is Up.VOID
    ):
        standalone.move_to(session, session.current)
    session.pending_mark = Restart(run.trigger, session.current.number, 0, reissued=False)
    _tell_server(session, run)
    _tell(session)
    for stream in waiting:
        release(session, stream)
    ending.end_if_over(session, old)
    reopening.heal_over(session)


def _attend_waiting(session: Session) -> list[Stream]:
    """What was void goes up again; returns what was never sent, to be released last."""
    streams = list(session.streams.values())
    waiting = [stream for stream in streams if stream.up is Up.WAITING and stream.is_durable]
    for stream in streams:
        if stream.is_request and stream.up is Up.VOID:
            restarting.attend_after_commit(session, stream)
    return waiting


def serve_waiting(session: Session) -> None:
    """There is a session again without a heal: what waited for one goes on in it."""
    for stream in _attend_waiting(session):
        release(session, stream)


def release(session: Session, stream: Stream) -> None:
    """A request that waited for the commit goes up in the current generation (R24)."""
    session.clear_timer(Timer.WAIT, stream.handle)
    for owed in stream.owed:
        stream.generation.stamps.pop(owed.key, None)
        stream.generation.tokens.pop(owed.token_key or b"", None)
    stream.generation = session.current
    states = [owed.state for owed in stream.owed]
    stream.owed = [stamp_again(session, stream, owed) for owed in stream.owed]
    for owed, state in zip(stream.owed, states, strict=True):
        owed.state = state
    stream.failing_since = None
    sending.send_post(session, stream)


def _tell_server(session: Session, run: Heal) -> None:
    """The one notification that may be sent for the client after a heal (R37)."""
    if session.has_changed_roots:
        session.has_changed_roots = False
        body = jsonrpc.notification("notifications/roots/list_changed", {})
        legs.inquire(session, run.head, session.current, body, None, ending.nothing)


def _tell(session: Session) -> None:
    """The lists may have changed with the server: say so where the server declared that it would."""
    stream = session.standalone
    if stream is None or not session.has_initialized:
        return
    for name in ("tools", "prompts", "resources"):
        capability = session.initialize_result.capabilities.get(name)
        if isinstance(capability, dict) and capability.get("listChanged") is True:
            delivery.deliver_message(
                session, stream, jsonrpc.notification(f"notifications/{name}/list_changed", {})
            )


# --- not succeeding ---------------------------------------------------------------------------------


def give_up(session: Session, run: Heal, why: tuple[str, ...]) -> None:
    """An answer that rules the new session out: the client has to negotiate anew (R27)."""
    session.heal = None
    session.move(SessionInput.INCOMPATIBLE)
    seconds = session.now - run.began_at
    session.do(HealEnded(run.trigger, "incompatible", run.replaces, seconds, why))
    restarting.fail_waiting(session, "incompatible")
    _end_standalone(session)
    reopening.heal_over(session)


def _end_standalone(session: Session) -> None:
    if session.standalone is not None:
        standalone.close(session, session.standalone)


def try_again(session: Session, run: Heal) -> None:
    """Unreachable is not lost: again with back-off while somebody waits (R27)."""
    if not _is_wanted(session):
        _park(session, run)
        return
    delay = back_off(_FIRST_BACKOFF_S, _LAST_BACKOFF_S, run.attempts)
    run.attempts += 1
    _end_made(session, run)  # each attempt makes a session of its own
    session.set_timer(Timer.HEAL, 0, delay)


def _end_made(session: Session, run: Heal) -> None:
    """Leave no session behind that was made and not committed (R26)."""
    made, run.new = run.new, None
    if made is not None and made.upstream_id != session.current.upstream_id:
        ending.end_upstream(session, made)


def _is_wanted(session: Session) -> bool:
    return any(
        stream.up in (Up.VOID, Up.WAITING) and stream.exchange is not None
        for stream in session.streams.values()
    ) or (session.standalone is not None and session.standalone.exchange is not None)


def park_if_unwanted(session: Session) -> None:
    """The last one who waited has given up. What is being committed has succeeded all the same."""
    run = session.heal
    if run is not None and run.new is not session.current and not _is_wanted(session):
        _park(session, run)


def _park(session: Session, run: Heal) -> None:
    """The session stays; the next caller tries again."""
    session.heal = None
    session.clear_timer(Timer.HEAL, 0)
    session.move(SessionInput.UNREACHABLE)
    session.do(HealEnded(run.trigger, "parked", run.replaces, session.now - run.began_at))
    _end_made(session, run)
    reopening.heal_over(session)
