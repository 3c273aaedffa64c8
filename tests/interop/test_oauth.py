"""A server that wants a token, and the official Python SDK's client that finds its way to one.

Challenges, `.well-known` documents, registration, login and token all pass through the proxy. What the
server says of its own address has to be the address that clients use: the proxy does not rewrite it.
"""

from __future__ import annotations

from tests.interop.recorded import Exchange, exchanges
from tests.interop.stage import free_port
from tests.interop.surroundings import Surroundings


def _is_past_the_guard(exchange: Exchange) -> bool:
    return b" /mcp " not in exchange.request.start


async def test_a_client_finds_its_way_to_a_token_through_the_proxy(around: Surroundings) -> None:
    upstream = free_port()
    far = await around.cutter(upstream)
    proxy = await around.proxy(far.port)
    near = await around.cutter(proxy.port)
    public = f"http://127.0.0.1:{near.port}"
    await around.oauth_server(upstream, public)

    client = await around.oauth_client(f"{public}/mcp")
    assert (await client.wait_told("result"))["text"] == "let in"

    asked = {one.request.start.split()[1].partition(b"?")[0] for one in exchanges(near)}
    assert asked == {
        b"/mcp",
        b"/.well-known/oauth-protected-resource/mcp",
        b"/.well-known/oauth-authorization-server",
        b"/register",
        b"/authorize",
        b"/token",
    }
    seen = [one for one in exchanges(near) if _is_past_the_guard(one)]
    assert seen == [one for one in exchanges(far) if _is_past_the_guard(one)]
    assert sorted(one.status for one in seen) == [200, 200, 200, 201, 302]
    refused, meant = ([one for one in exchanges(leg) if one.status == 401] for leg in (near, far))
    assert [one.answer for one in refused] == [one.answer for one in meant]
    (challenge,) = [one.answer.header("www-authenticate") for one in refused if one.answer is not None]
    assert f'resource_metadata="{public}/.well-known/oauth-protected-resource/mcp"' in (challenge or "")
    assert 'class="session",method="tools/call",status="200"' in proxy.moved("epochgate_requests_total")


async def test_a_server_that_names_its_inner_address_is_refused_by_the_client(
    around: Surroundings,
) -> None:
    """What operators have to set right, and `docs/in-front.md` says: on the server, not here."""
    upstream = free_port()
    proxy = await around.proxy(upstream)
    await around.oauth_server(upstream, f"http://127.0.0.1:{upstream}")

    client = await around.oauth_client(f"http://127.0.0.1:{proxy.port}/mcp")

    said = (await client.wait_told("error"))["message"]
    assert f"http://127.0.0.1:{upstream}/mcp does not match" in said
