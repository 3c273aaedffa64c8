"""What must hold inside a session after every event (the invariants of the state machines)."""

from __future__ import annotations

from collections.abc import Iterator

from epochgate.core.generation import Generation
from epochgate.core.session import Session
from epochgate.core.states import Up
from epochgate.core.stream import OwedState, Stream


class Invariants:
    """Looks at one session; of anything else in its place there is nothing to say."""

    def __init__(self, middle: object) -> None:
        self._session = middle if isinstance(middle, Session) else None
        self._sent_in: dict[int, Generation] = {}  # stream handle -> what its POST was sent in
        self.generations: dict[int, Generation] = {}  # by number; the session lets go of old ones

    def broken(self) -> Iterator[str]:
        session = self._session
        if session is None:
            return
        self.generations |= {one.number: one for one in session.generations}
        running = size = 0
        requests: dict[int, Stream] = {}
        for stream in session.streams.values():
            size += stream.journal.size
            yield from self._stream(session, stream)
            if stream.is_over or not stream.is_request:
                continue
            running += 1
            for owed in stream.owed:
                if (
                    owed.state is OwedState.OPEN
                    and requests.setdefault(id(owed.message), stream) is not stream
                ):
                    yield f"invariant: {stream} and {requests[id(owed.message)]} owe the same request"
        if running != session.running:
            yield f"invariant: {running} request streams run, {session.running} are counted"
        if size != session.budget.used:
            yield f"G8: journals hold {size} bytes, {session.budget.used} are counted"

    def _stream(self, session: Session, stream: Stream) -> Iterator[str]:
        if stream.up is not Up.WAITING:
            sent_in = self._sent_in.setdefault(stream.handle, stream.generation)
            if sent_in is not stream.generation:
                yield f"invariant: {stream} was sent in {sent_in}"
        if stream.reissues > session.policy.max_reissues:
            yield f"G4 counter: {stream} was sent again {stream.reissues} times"
        if stream.not_run_reissues > session.policy.max_not_run_reissues:
            yield f"G4 counter: {stream} was sent again {stream.not_run_reissues} times, not run"
        for block, _ in stream.numbering.blocks:
            if session.block_owners.get(block) is not stream:
                yield f"R15: block {block} of {stream} leads elsewhere"
        if stream.successor is not None:
            yield from _chain(stream)


def _chain(stream: Stream) -> Iterator[str]:
    seen, at = {stream.handle}, stream.successor
    while at is not None:
        if at.handle in seen:
            yield f"invariant: the successors of {stream} go round"
            return
        seen.add(at.handle)
        at = at.successor
