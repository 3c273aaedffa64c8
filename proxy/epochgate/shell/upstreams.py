"""The servers behind the proxy, and which of them is asked.

A server is a URL, or one address of a name that has several (a headless Service). What belongs to a session
goes where the session was begun (`pinning.py`). A new session goes to the server with the least to do,
stateless traffic too. Other traffic that is not guarded goes where the same client's went before, since the
server may know it (HTTP+SSE, sign-ins). Who was not reached last is asked last.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from hashlib import blake2s
from types import MappingProxyType

from aiohappyeyeballs.types import AddrInfoType

from epochgate.observe.logs import Logger
from epochgate.shell.origin import Origin, literal, look_up
from epochgate.shell.sockets import CONNECT_ERRORS
from epochgate.shell.upstream import Upstream

# After a connect that failed the name is looked up at once, but not more often than this.
_LEAST_INTERVAL_S = 1.0
_MAX_FOUND = 4096  # sessions that are not ours, of which is known where they are

Make = Callable[[Origin, Sequence[AddrInfoType]], Upstream]
LookUp = Callable[[Origin, asyncio.AbstractEventLoop], Awaitable[Sequence[AddrInfoType]]]


class _Name:
    """One URL and the servers behind it."""

    def __init__(self, origin: Origin, make: Make, *, has_addresses: bool) -> None:
        self.origin = origin
        self.is_looked_up = has_addresses and literal(origin) is None
        self.listed = [make(origin, ())]
        self.left: list[Upstream] = []
        self._make = make
        self._last: Sequence[AddrInfoType] = ()

    def take(self, addresses: Sequence[AddrInfoType]) -> bool:
        """The name has these addresses now; whether that changes who is behind it.

        One address of each family is one server, which is looked up for each connection.
        """
        last, self._last = self._last, addresses
        if not self.listed[0].addresses and _is_one(addresses):
            return False
        if not self.listed[0].addresses:  # it had one server until now, which stays what it is
            self.listed[0].addresses = tuple(last or addresses[:1])
        there = {upstream.addresses: upstream for upstream in (*self.listed, *self.left)}
        wanted = [(address,) for address in dict.fromkeys(addresses)]
        listed = [there.pop(one) if one in there else self._make(self.origin, one) for one in wanted]
        has_changed = listed != self.listed
        self.listed, self.left = listed, list(there.values())
        for upstream in (*self.listed, *self.left):
            upstream.has_left = upstream in self.left
        return has_changed


class Upstreams:
    """Every server of `upstream`. Use it on the loop it was made on."""

    def __init__(
        self,
        origins: Sequence[Origin],
        make: Make,
        log: Logger,
        *,
        interval_s: float | None,
        others_look_up: Collection[Origin] = (),
        find_addresses: LookUp = look_up,
    ) -> None:
        """Names are looked up by `find_addresses` every `interval_s` seconds; None: the addresses of a name
        are one server. Those that `others_look_up`, a proxy on the way to them, are one server as well."""
        self._names = [_Name(origin, make, has_addresses=origin not in others_look_up) for origin in origins]
        self._log = log
        self._interval_s = interval_s
        self._look_up = find_addresses
        self._loop = asyncio.get_running_loop()
        self._is_due = asyncio.Event()
        self._found: OrderedDict[bytes, Upstream] = OrderedDict()
        self.listed: tuple[Upstream, ...] = ()  # who may be given something new
        self.only: Upstream | None = None  # the server, if there is but one and nothing is left of others
        self._list()

    # who is asked

    def by_load(
        self, first: Upstream | None = None, in_vain: Mapping[Upstream, int] = MappingProxyType({})
    ) -> list[Upstream]:
        """In the order in which they are asked for a new session.

        `first` is preferred if it is reached; who was asked `in_vain`, so many times, follows the others.
        """
        return sorted(
            self.listed,
            key=lambda one: (in_vain.get(one, 0), one.is_reached is False, one is not first, one.load),
        )

    def by_name(self, name: bytes) -> list[Upstream]:
        """In an order that is the same for all that bears this name, in any replica of the proxy."""
        return sorted(self.listed, key=lambda one: (one.is_reached is False, _rank(one, name)))

    def for_stranger(self, session_id: bytes) -> list[Upstream]:
        """Where a session may be that is not ours: where it was found before, then everywhere else."""
        known = self._found.get(session_id)
        return sorted(self.by_name(session_id), key=lambda one: one is not known)

    def found(self, session_id: bytes, upstream: Upstream) -> None:
        """A session that is not ours is known there."""
        self._found[session_id] = upstream
        self._found.move_to_end(session_id)
        if len(self._found) > _MAX_FOUND:
            self._found.popitem(last=False)

    # who is there

    async def start(self) -> None:
        """Look at every name once, so that the first session finds its server."""
        await self._refresh()

    async def watch(self) -> None:
        """Follow the names until cancelled."""
        if self._interval_s is None or not any(name.is_looked_up for name in self._names):
            return
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._is_due.wait()
            self._is_due.clear()
            await self._refresh()
            await asyncio.sleep(min(_LEAST_INTERVAL_S, self._interval_s))

    async def _refresh(self) -> None:
        for name in self._names:
            if self._interval_s is None or not name.is_looked_up:
                continue
            try:
                addresses = await self._look_up(name.origin, self._loop)
            except CONNECT_ERRORS:
                continue  # who was there may still be; the probes tell
            if addresses and name.take(addresses):
                servers = [upstream.name for upstream in name.listed]
                self._log.info("servers changed", upstream=name.origin.authority.decode(), servers=servers)
        await self._drop_unused()
        self._list()

    async def _drop_unused(self) -> None:
        for name in self._names:
            for upstream in [one for one in name.left if one.is_unused]:
                name.left.remove(upstream)
                await upstream.close()

    def _list(self) -> None:
        self.listed = tuple(upstream for name in self._names for upstream in name.listed)
        self._all = (*self.listed, *(upstream for name in self._names for upstream in name.left))
        self.only = self._all[0] if len(self._all) == 1 else None
        for upstream in self._all:
            upstream.on_unreachable = self._is_due.set

    def __iter__(self) -> Iterator[Upstream]:
        return iter(self._all)

    async def close(self) -> None:
        for upstream in self._all:
            await upstream.close()


def _is_one(addresses: Sequence[AddrInfoType]) -> bool:
    families = [family for family, *_ in dict.fromkeys(addresses)]
    return len(set(families)) == len(families)


def _rank(upstream: Upstream, name: bytes) -> bytes:
    """Rendezvous hashing: when a server comes or goes, only what was or will be its own moves."""
    return blake2s(name, key=blake2s(upstream.name.encode()).digest()).digest()
