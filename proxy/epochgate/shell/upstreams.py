"""The servers behind the proxy, and which of them is asked.

A server is a URL, or one address of a name that has several (a headless Service). What belongs to a session
goes where the session was begun (`pinning.py`). A new session goes to the server with the least to do,
stateless traffic too. Other traffic that is not guarded goes where the same client's went before, since the
server may know it (HTTP+SSE, sign-ins), and that of a session that is not ours to who knows it. Who was
not reached last is asked last.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2s
from types import MappingProxyType

from aiohappyeyeballs.types import AddrInfoType

from epochgate.observe.logs import Logger
from epochgate.shell.origin import Origin, literal, look_up
from epochgate.shell.sockets import CONNECT_ERRORS
from epochgate.shell.tls import reason_of_connect
from epochgate.shell.upstream import Upstream

# After a connect that failed the name is looked up at once, but not more often than this.
_LEAST_INTERVAL_S = 1.0
# The start waits no longer than this for a name; afterwards a resolver may have to ask a second name server.
_FIRST_LOOK_UP_S = 3.0
_LOOK_UP_S = 20.0
_MAX_FOUND = 4096  # owners

Make = Callable[[Origin, Sequence[AddrInfoType]], Upstream]
Find = Callable[[], Awaitable[Sequence[AddrInfoType]]]
LookUp = Callable[[Origin, asyncio.AbstractEventLoop], Awaitable[Sequence[AddrInfoType]]]
# Whose a request is that is not guarded: a client's, or of a session that is not ours; which, and its name.
Owner = tuple[str, bytes]


class _Name:
    """One URL and the servers behind it.

    One address of each family is one server, which is looked up for each connection, so that it may move.
    """

    def __init__(self, origin: Origin, make: Make, find: Find | None) -> None:
        """`find` looks its addresses up; without it, they are those of one server."""
        self.origin = origin
        self.find = find
        self.text = origin.authority.decode()
        self.is_found = True
        self.is_due = asyncio.Event()  # it is to be looked up at once
        self.listed = [make(origin, ())]
        self.left: list[Upstream] = []
        self._make = make
        self._last: Sequence[AddrInfoType] = ()  # where the only server was found last
        if find is not None:
            self.listed[0].find = self._find_only

    async def _find_only(self) -> Sequence[AddrInfoType]:
        """Where the only server is: of several addresses that the name has now, where it was before."""
        assert self.find is not None
        addresses = await self.find()
        if not _is_one(addresses):
            addresses = self._place_of_only(addresses)
            self.is_due.set()
        self._last = addresses
        return addresses

    def _place_of_only(self, addresses: Sequence[AddrInfoType]) -> Sequence[AddrInfoType]:
        return self._last or addresses[:1]

    def take(self, addresses: Sequence[AddrInfoType]) -> bool:
        """The name has these addresses now; whether that changes who is behind it."""
        if not self.listed[0].addresses:
            if _is_one(addresses):
                self._last = addresses
                return False
            self.listed[0].addresses = tuple(self._place_of_only(addresses))
        known = (*self.listed, *self.left)
        there = {address: upstream for upstream in known for address in upstream.addresses}
        listed = dict.fromkeys(
            there.get(address) or self._make(self.origin, (address,)) for address in dict.fromkeys(addresses)
        )
        if listed.keys() == set(self.listed):
            return False  # in another order, as many resolvers give them each time
        self.listed, self.left = list(listed), [upstream for upstream in known if upstream not in listed]
        for upstream in (*self.listed, *self.left):
            upstream.has_left = upstream not in listed
        return True


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
        loop = asyncio.get_running_loop()
        self._log = log
        self._interval_s = interval_s
        self._names = []
        for origin in origins:
            is_one = interval_s is None or origin in others_look_up or literal(origin) is not None
            find = None if is_one else partial(find_addresses, origin, loop)
            self._names.append(_Name(origin, make, find))
        self._found: OrderedDict[Owner, Upstream] = OrderedDict()
        self.listed: tuple[Upstream, ...] = ()  # who may be given something new
        self.only: Upstream | None = None  # the server, if there is but one and nothing is left of others
        self._list()

    # who is asked

    def by_load(
        self, first: Upstream | None = None, in_vain: Mapping[Upstream, int] = MappingProxyType({})
    ) -> list[Upstream]:
        """In the order in which they are asked for a new session.

        `first` is preferred if it is reached and not busy; who was asked `in_vain`, so many times, comes
        behind the others.
        """
        return sorted(
            self.listed,
            key=lambda one: (
                in_vain.get(one, 0),
                one.is_reached is False,
                one.is_busy,
                one is not first,
                one.load,
            ),
        )

    def by_name(self, name: bytes) -> list[Upstream]:
        """In an order that is the same for all that bears this name, in any replica of the proxy."""
        return sorted(self.listed, key=lambda one: (one.is_reached is False, _rank(one, name)))

    def for_owner(self, owner: Owner) -> list[Upstream]:
        """Where its requests were answered before, also when that is listed no longer, then `by_name`."""
        order = self.by_name(owner[1])
        known = self._found.get(owner)
        if known is None or known not in self._all:
            return order
        return [known, *[one for one in order if one is not known]]

    def found(self, owner: Owner, upstream: Upstream) -> None:
        """A request of `owner` was answered there."""
        self._found[owner] = upstream
        self._found.move_to_end(owner)
        if len(self._found) > _MAX_FOUND:
            self._found.popitem(last=False)

    # who is there

    async def start(self) -> None:
        """Look at every name once, so that the first session finds its server."""
        followed = [(name, name.find) for name in self._names if name.find]
        await asyncio.gather(*[self._look_up(name, find, _FIRST_LOOK_UP_S) for name, find in followed])

    async def watch(self) -> None:
        """Follow the names until cancelled."""
        every_s = self._interval_s
        if every_s is not None:
            await asyncio.gather(*[self._follow(one, one.find, every_s) for one in self._names if one.find])

    async def _follow(self, name: _Name, find: Find, interval_s: float) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await name.is_due.wait()
            name.is_due.clear()
            await self._look_up(name, find, _LOOK_UP_S)
            for upstream in [one for one in name.left if one.is_unused]:
                name.left.remove(upstream)
                self._list()
                await upstream.close()
            await asyncio.sleep(min(_LEAST_INTERVAL_S, interval_s))

    async def _look_up(self, name: _Name, find: Find, within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                addresses = await find()
        except CONNECT_ERRORS as error:  # who was there may still be; the probes tell
            if name.is_found:
                self._log.warning("name not looked up", upstream=name.text, reason=reason_of_connect(error))
            name.is_found = False
            return
        if not name.is_found:
            self._log.info("name looked up again", upstream=name.text)
        name.is_found = True
        if addresses and name.take(addresses):
            self._list()
            servers = [upstream.name for upstream in name.listed]
            self._log.info("servers changed", upstream=name.text, servers=servers)

    def _list(self) -> None:
        self.listed = tuple(upstream for name in self._names for upstream in name.listed)
        self._all = (*self.listed, *(upstream for name in self._names for upstream in name.left))
        self.only = self._all[0] if len(self._all) == 1 else None
        for name in self._names:
            for upstream in (*name.listed, *name.left):
                upstream.on_unreachable = name.is_due.set

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
