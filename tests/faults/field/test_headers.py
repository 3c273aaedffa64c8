"""Redirects, hosts, challenges, versions, Accept and cookies as they are met in the field."""

from __future__ import annotations

import json

import pytest

from tests.shell.running import running_proxy
from tests.support.client import JSON, PRIMED, Client, Json, call, initialize, outcome
from tests.support.legs import Request
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, Play, serving, whole
from tests.support.splices import broken_once

BEARER = ("Authorization", "Bearer secret-0123456789")
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def saying(answer: bytes) -> Play:
    async def play(leg: Leg) -> None:
        await leg.peer.send(answer)

    return play


def moved(status: int, location: str) -> bytes:
    return whole(status, [("location", location), ("content-type", "text/plain")], b"moved")


# redirects


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("location", ["/mcp/", "/mcp", "http://other.example:9/mcp/", "//other.example/mcp"])
async def test_a_redirect_is_the_clients_to_follow(status: int, location: str) -> None:
    """Never followed, not even one that leads back to itself."""
    server = McpServer(saying(moved(status, location)))
    async with serving(server), guarding(server.port) as proxy:
        async with Client(proxy.port, headers=[BEARER]) as client:
            await client.open()
            answer = await client.call()
            assert (answer.status, answer.header("location")) == (status, location)
            assert await answer.read() == b"moved"
        assert server.counts["tools/call"] == 1
        assert server.counts["initialize"] == 1


async def test_nothing_of_a_session_leaves_the_servers_origin() -> None:
    elsewhere = McpServer()
    async with serving(elsewhere):
        location = f"http://127.0.0.1:{elsewhere.port}/mcp/"
        server = McpServer(saying(moved(307, location)))
        server.stand = saying(moved(307, location))
        async with (
            serving(server),
            guarding(server.port) as proxy,
            Client(proxy.port, headers=[BEARER]) as client,
        ):
            await client.open()
            for answer in (await client.call(), await client.get(), await client.post(initialize())):
                assert answer.status in (200, 307)
                await answer.read()
            server.override = moved(307, location)
            plain = await client.send("GET", "/other", [])
            assert (plain.status, plain.header("location")) == (307, location)
        assert elsewhere.requests == []


@pytest.mark.parametrize("target", ["/mcp%2Fa/?q=a%2Fb+c%20d&x=%7E", "/a//b/../mcp?x", "/m%63p;v=1"])
async def test_a_sessions_target_is_kept_byte_for_byte_by_what_the_proxy_sends_itself_too(
    target: str,
) -> None:
    server = McpServer(broken_once())
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        answer = await client.post(initialize(), target=target)
        client.session = answer.header("mcp-session-id")
        await answer.read()
        told = await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, target=target)
        assert told.status == 202

        async def gone(leg: Leg) -> None:
            await leg.refuse(404)

        server.replay = gone
        messages = await (await client.post(call(), target=target)).messages()
        assert outcome(messages) == "run 2 done"
        assert {one.target for one in server.requests} == {target}
        methods = [one.message.get("method") or one.method for one in server.requests]
        assert {"GET", "initialize", "tools/call"} <= set(methods)


# hosts and origins


async def host_seen(policy: str, host: str, origin: str) -> Request:
    """What the server saw of one request with this Host and Origin."""
    server = McpServer()
    async with serving(server):
        settings = {"allowed_hosts": "*", "allowed_origins": "*", "host": policy}
        async with guarding(server.port, **settings) as proxy, Client(proxy.port) as client:
            lines = ["GET /mcp HTTP/1.1", f"Host: {host}", f"Origin: {origin}", "", ""]
            await (await client.send_raw("\r\n".join(lines).encode())).read()
        (request,) = server.requests
        return Request(request.head.replace(str(server.port).encode(), b"PORT"), b"")


@pytest.mark.parametrize(
    ("policy", "seen"),
    [
        ("upstream", "127.0.0.1:PORT"),
        ("keep", "mcp.example.org"),
        ("inner.example:1", "inner.example:1"),
    ],
)
async def test_the_host_that_the_server_sees_is_a_choice_and_the_truth_stands_beside_it(
    policy: str, seen: str
) -> None:
    origin = "https://app.example.org"
    request = await host_seen(policy, "mcp.example.org", origin)
    assert request.header("host") == seen
    assert request.header("x-forwarded-host") == "mcp.example.org"
    assert request.header("origin") == origin  # never taken out to make it work


@pytest.mark.parametrize("status", [421, 403])
async def test_a_server_that_guards_its_names_is_satisfied_or_heard(status: int) -> None:
    """It allows its own name only; kept names are refused, and the refusal passes and is counted."""
    server = McpServer()

    def guard(request: Request) -> int | None:
        return None if (request.header("host") or "").startswith("127.0.0.1") else status

    server.accepts = guard
    body = json.dumps(initialize()).encode()
    lines = ["POST /mcp HTTP/1.1", "Host: mcp.example.org", "Content-Type: application/json"]
    raw = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body
    async with serving(server):
        for policy, expected in (("keep", status), ("upstream", 200)):
            async with guarding(server.port, host=policy, allowed_hosts="mcp.example.org") as proxy:
                async with Client(proxy.port) as client:
                    answer = await client.send_raw(raw)
                    assert answer.status == expected
                    await answer.read()
                counted = await proxy.moved("requests_total")
                (labels,) = counted
                assert f"status={expected // 100}xx" in labels or f"status={expected}" in labels


# challenges


CHALLENGES = (
    'Bearer realm="a", error="invalid_token", scope="a b", '
    'resource_metadata="http://app:8080/.well-known/oauth-protected-resource/mcp"',
    'Basic realm="b"',
)


def challenge(status: int) -> bytes:
    lines = [("www-authenticate", CHALLENGES[0]), ("WWW-Authenticate", CHALLENGES[1])]
    return whole(status, [*lines, ("content-type", "text/plain")], b"who are you?")


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("place", ["call", "initialize", "GET", "DELETE", "HEAD"])
async def test_every_line_of_a_challenge_passes_in_order(status: int, place: str) -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy:
        async with Client(proxy.port, headers=[BEARER]) as client:
            await client.open()
            server.override = challenge(status)
            if place == "HEAD":
                server.override = server.override.removesuffix(b"who are you?")
            match place:
                case "call":
                    answer = await client.call()
                case "initialize":
                    client.session = None
                    answer = await client.post(initialize())
                case "GET":
                    answer = await client.get()
                case "DELETE":
                    answer = await client.delete()
                case _:
                    answer = await client.send("HEAD", "/mcp", [])
            assert answer.status == status
            given = [value for name, value in answer.headers if name.lower() == "www-authenticate"]
            assert given == list(CHALLENGES)
            if place != "HEAD":
                assert await answer.read() == b"who are you?"
        assert server.counts["initialize"] == (2 if place == "initialize" else 1)
        assert await proxy.moved("heals_total") == {}
        assert BEARER[1] not in "\n".join(proxy.lines)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_challenge_on_a_resume_starts_nothing(status: int) -> None:
    async def refuse(leg: Leg) -> None:
        await leg.peer.send(challenge(status))

    server = McpServer(broken_once(), refuse)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        messages = await (await client.call()).messages()
        assert outcome(messages) == -32050
        assert server.found() == {"initialize": 1, "initialized": 1, "executions": 1}
        assert await proxy.resumes() == {"upstream pass unauthorized": 1}


@pytest.mark.parametrize(
    "target",
    [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration?x=1",
    ],
)
async def test_documents_about_authorization_are_the_servers_and_it_learns_the_public_name(
    target: str,
) -> None:
    server = McpServer()
    server.override = whole(200, [("content-type", JSON)], b'{"resource":"http://app:8080/mcp"}')
    async with serving(server), guarding(server.port, allowed_hosts="mcp.example.org") as proxy:
        async with Client(proxy.port) as client:
            raw = f"GET {target} HTTP/1.1\r\nHost: mcp.example.org\r\n\r\n"
            answer = await client.send_raw(raw.encode())
            assert await answer.json() == {"resource": "http://app:8080/mcp"}  # bodies are not rewritten
        (request,) = server.requests
        assert request.target == target
        assert request.header("x-forwarded-host") == "mcp.example.org"
        assert request.header("x-forwarded-proto") == "http"
        assert request.header("x-forwarded-for") == "127.0.0.1"


# versions and Accept


class Older(McpServer):
    """Answers every `initialize` but the first with an older revision."""

    async def _answer(self, leg: Leg, result: Json) -> None:
        if "protocolVersion" in result and self.counts["initialize"] > 1:
            result = {**result, "protocolVersion": "2025-06-18"}
        await super()._answer(leg, result)


async def test_a_server_that_came_back_with_another_revision_is_negotiated_with_anew() -> None:
    server = Older()
    async with serving(server), guarding(server.port) as proxy:
        async with Client(proxy.port, version=PRIMED) as client:
            await client.open()
            server.evict()
            assert outcome(await (await client.call()).messages()) == -32051
            assert (await client.call()).status == 404
            assert server.executions == 0
        assert await proxy.moved("heals_total") == {"outcome=incompatible,trigger=session_gone": 1}


async def test_the_proxys_own_requests_carry_the_sessions_version_and_both_types() -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy:
        async with Client(proxy.port, version=PRIMED) as client:
            await client.open()
            server.evict()
            before = len(server.requests)
            assert outcome(await (await client.call()).messages()) == "run 1 done"
        healed = [one for one in server.requests[before:] if one.message.get("method") == "initialize"]
        own = [one for one in server.requests[before:] if one.message.get("method") != "tools/call"]
        assert [one.message["params"]["protocolVersion"] for one in healed] == [PRIMED]
        for request in own:
            assert request.header("mcp-protocol-version") == PRIMED
            assert {"application/json", "text/event-stream"} <= set(
                (request.header("accept") or "").replace(" ", "").split(",")
            )


@pytest.mark.parametrize("accept", [None, "*/*", "text/event-stream", "text/event-stream, application/json"])
@pytest.mark.parametrize("version", [None, "2025-06-18", "2099-01-01"])
async def test_accept_and_version_are_the_clients_own(accept: str | None, version: str | None) -> None:
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        session = client.session
        lines = [f"Mcp-Session-Id: {session}", "Content-Type: application/json"]
        lines += [] if accept is None else [f"Accept: {accept}"]
        lines += [] if version is None else [f"MCP-Protocol-Version: {version}"]
        body = json.dumps(LIST).encode()
        lines = ["POST /mcp HTTP/1.1", "Host: localhost", *lines, f"Content-Length: {len(body)}"]
        answer = await client.send_raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        assert (await answer.json())["result"]["tools"]
        request = server.requests[-1]
        assert [value for name, value in request.headers if name.lower() == "accept"] == (
            [] if accept is None else [accept]
        )
        assert request.header("mcp-protocol-version") == version


@pytest.mark.parametrize("status", [400, 406, 415])
async def test_a_server_that_does_not_like_accept_or_version_says_so_itself(status: int) -> None:
    refusal = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Not Acceptable"}}'
    server = McpServer(saying(whole(status, [("content-type", JSON)], refusal)))
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        assert (answer.status, await answer.read()) == (status, refusal)
        assert server.counts["initialize"] == 1


# cookies


async def test_a_cookie_belongs_to_one_exchange() -> None:
    """The server has a name, since jars pass over bare addresses."""
    own = [("Cookie", "a=1"), ("cookie", "b=2; c=3")]

    async def play(leg: Leg) -> None:
        result = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}' % str(leg.run.id).encode()
        cookies = [("set-cookie", "sid=ALICE; Path=/"), ("Set-Cookie", "lb=A")]
        await leg.peer.send(whole(200, [("content-type", "application/json"), *cookies], result))

    server = McpServer(play)
    async with (
        serving(server),
        running_proxy(server.port, "--upstream", f"http://localhost:{server.port}") as proxy,
        Client(proxy.port) as alice,
        Client(proxy.port) as bob,
    ):
        await alice.open()
        answer = await alice.call()
        given = [value for name, value in answer.headers if name.lower() == "set-cookie"]
        assert given == ["sid=ALICE; Path=/", "lb=A"]
        await bob.open()
        for client, sent in ((bob, []), (alice, []), (alice, own)):
            await (await client.post(LIST, *sent)).read()
            request = server.requests[-1]
            seen = [value for name, value in request.headers if name.lower() == "cookie"]
            assert seen == [value for _, value in sent]
        await (await bob.send("GET", "/other", [])).read()
        assert server.requests[-1].header("cookie") is None
        assert await proxy.stop() == 0
