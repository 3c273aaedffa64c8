"""Which of several servers is asked for what: a new session, a client's other requests, a stranger's."""

from __future__ import annotations

from tests.shell.test_upstreams import Dns, following, names, v4
from tests.shell.wire import until


async def test_who_has_the_least_to_do_is_asked_first_and_who_is_not_reached_last() -> None:
    async with following(Dns(), *(f"http://10.0.0.{at}" for at in range(1, 5))) as upstreams:
        one, two, three, four = upstreams.listed
        one.sessions, two.sessions, three.sessions, four.sessions = 3, 1, 2, 0
        four.is_reached = False

        assert upstreams.by_load() == [two, three, one, four]
        assert upstreams.by_load(first=one) == [one, two, three, four]
        assert upstreams.by_load(first=four) == [two, three, one, four]
        assert upstreams.by_load(two, {two: 1}) == [three, one, four, two]
        assert upstreams.by_load(two, {two: 2, three: 1, one: 1, four: 1}) == [three, one, four, two]


async def test_a_client_finds_the_same_server_and_loses_it_only_with_the_server() -> None:
    urls = [f"http://10.0.0.{at}" for at in range(1, 5)]
    clients = [b"10.1.0.%d" % at for at in range(64)]
    async with following(Dns(), *urls) as all_of_them, following(Dns(), *urls[:3]) as without_the_last:
        before = {name: all_of_them.by_name(name)[0].name for name in clients}
        after = {name: without_the_last.by_name(name)[0].name for name in clients}

    assert set(before.values()) == {f"10.0.0.{at}" for at in range(1, 5)}
    assert all(after[name] == where for name, where in before.items() if where != "10.0.0.4")


async def test_servers_under_two_paths_of_one_host_are_told_apart() -> None:
    async with following(Dns(), "http://10.0.0.1/a", "http://10.0.0.1/b") as upstreams:
        assert names(upstreams) == ["10.0.0.1/a", "10.0.0.1/b"]
        first = {upstreams.by_name(b"10.1.0.%d" % at)[0] for at in range(64)}
        assert first == set(upstreams.listed)


async def test_where_a_name_belongs_is_remembered_for_a_bounded_number() -> None:
    async with following(Dns(), "http://10.0.0.1", "http://10.0.0.2") as upstreams:
        name = ("session", b"s")
        wrong = upstreams.for_owner(name)[1]
        upstreams.found(name, wrong)
        assert upstreams.for_owner(name)[0] is wrong
        assert upstreams.for_owner(("client", b"s"))[0] is not wrong

        for number in range(5000):
            upstreams.found(("session", b"%d" % number), wrong)
        assert upstreams.for_owner(name)[0] is not wrong


async def test_a_client_stays_with_its_server_when_others_come_and_until_it_is_gone_for_good() -> None:
    """A stream that it has open there, its requests belong to, also while the server goes away."""
    dns = Dns(v4("10.0.0.1"), v4("10.0.0.2"))
    async with following(dns) as upstreams:
        clients = [("client", b"10.1.0.%d" % at) for at in range(32)]
        homes = {client: upstreams.for_owner(client)[0] for client in clients}
        for client, home in homes.items():
            upstreams.found(client, home)
            home.sessions = 1
        dns.addresses = (v4("10.0.0.2"), v4("10.0.0.3"), v4("10.0.0.4"))
        await until(lambda: len(upstreams.listed) == 3)
        assert {client: upstreams.for_owner(client)[0] for client in clients} == homes

        (leaving,) = set(upstreams) - set(upstreams.listed)
        leaving.sessions = 0
        await until(lambda: leaving not in set(upstreams))
        now = {client: upstreams.for_owner(client) for client in clients}
        assert all(leaving not in order and len(order) == 3 for order in now.values())
