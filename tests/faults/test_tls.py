"""TLS on both legs, with certificates made for the test: answers, rotation under streams, wrong files."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from tests.shell.running import refused, running_proxy, told
from tests.support.certificates import Authority, Files
from tests.support.client import Client, Truncated, outcome
from tests.support.proxy import Proxy, guarding
from tests.support.server import Leg, McpServer, serving

RELOADED = "certificates_last_reload_successful"


class Held:
    """A call that waits in the middle."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def play(self, leg: Leg) -> None:
        await leg.open()
        await leg.progress(1)
        await self.go_on.wait()
        await leg.progress(2)
        await leg.answer()
        await leg.end()


def https(server: McpServer) -> str:
    return f"https://127.0.0.1:{server.port}"


def encrypted(proxy: Proxy, authority: Authority) -> Client:
    """A client that talks TLS and believes this authority."""
    client = Client(proxy.port)
    client.tls = authority.client_context()
    return client


def peer_serial(client: Client) -> str:
    """The serial number of the certificate that the last connection was shown."""
    shown = client.writers[-1].get_extra_info("peercert")
    assert shown is not None
    return str(shown["serialNumber"])


async def test_a_call_goes_through_tls_on_both_legs(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue()
    server = McpServer()
    server.tls = authority.server_context(own)
    async with serving(server):
        files = {"upstream_ca": own.authority, "tls_certificate": own.certificate, "tls_key": own.key}
        async with guarding(https(server), **files) as proxy, encrypted(proxy, authority) as client:
            await client.open()
            assert outcome(await (await client.call()).messages()) == "run 1 done"
    assert ("X-Forwarded-Proto", "https") in server.requests[-1].headers


async def test_a_server_that_restarts_behind_tls_is_healed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue()
    held = Held()
    server = McpServer(held.play)
    server.tls = authority.server_context(own)
    async with (
        serving(server),
        guarding(https(server), upstream_ca=own.authority) as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        answer = await client.call()
        await answer.next_message()
        await server.restart()
        held.go_on.set()
        assert str(outcome(await answer.messages())).startswith("run 2 done")


async def test_certificates_are_rotated_while_a_stream_runs(tmp_path: Path) -> None:
    """New handshakes get the new one; the stream that runs is left alone."""
    authority = Authority(tmp_path)
    own = authority.issue()
    held = Held()
    server = McpServer(held.play)
    listener = {"tls_certificate": own.certificate, "tls_key": own.key}
    async with (
        serving(server),
        guarding(server.port, **listener) as proxy,
        encrypted(proxy, authority) as client,
    ):
        await client.open()
        answer = await client.call()
        await answer.next_message()
        before = peer_serial(client)

        await asyncio.to_thread(authority.issue)
        await proxy.process.reload()
        async with encrypted(proxy, authority) as other:
            await other.open()
            assert peer_serial(other) != before
        held.go_on.set()
        assert outcome(await answer.messages()) == "run 1 done"


async def test_a_certificate_that_is_wrong_is_not_taken_and_shows_in_the_metrics(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue()
    good = {"leg=client": 1.0, "leg=upstream": 1.0}
    listener = {"tls_certificate": own.certificate, "tls_key": own.key}
    async with serving(McpServer()) as server, guarding(server.port, **listener) as proxy:
        assert await proxy.moved(RELOADED) == good
        await asyncio.to_thread(Path(own.key).write_text, "half")
        await proxy.process.reload()
        assert await proxy.moved(RELOADED) == {"leg=upstream": 1.0}
        async with encrypted(proxy, authority) as client:
            await client.open()

        await asyncio.to_thread(authority.issue)
        await proxy.process.reload()
        assert await proxy.moved(RELOADED) == good


async def test_only_clients_with_a_certificate_of_the_given_authority_are_served(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own, visitor = authority.issue(), authority.issue("visitor", stem="visitor")
    listener = {"tls_certificate": own.certificate, "tls_key": own.key, "tls_client_ca": own.authority}
    server = McpServer()
    async with serving(server), guarding(server.port, **listener) as proxy:
        async with encrypted(proxy, authority) as stranger:
            with pytest.raises((ssl.SSLError, ConnectionError, Truncated)):
                await stranger.open()
        await server.until(lambda: bool(proxy.log("TLS handshake failed")))
        assert proxy.log("TLS handshake failed")[0]["reason"] == "peer did not return a certificate"
        assert await proxy.moved("tls_handshake_failures_total") == {"kind=failed": 1}
        async with encrypted(proxy, authority) as guest:
            assert guest.tls is not None
            guest.tls.load_cert_chain(visitor.certificate, visitor.key)
            await guest.open()
            assert outcome(await (await guest.call()).messages()) == "run 1 done"


async def test_our_own_certificate_is_shown_to_a_server_that_asks(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own, visitor = authority.issue(), authority.issue("visitor", stem="visitor")
    server = McpServer()
    server.tls = authority.server_context(own)
    server.tls.verify_mode = ssl.CERT_REQUIRED
    server.tls.load_verify_locations(own.authority)
    shown = {"upstream_certificate": visitor.certificate, "upstream_key": visitor.key}
    async with (
        serving(server),
        guarding(https(server), upstream_ca=own.authority, **shown) as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        assert outcome(await (await client.call()).messages()) == "run 1 done"


async def test_a_server_that_asks_for_a_certificate_in_vain_is_not_reached(tmp_path: Path) -> None:
    """With TLS 1.3 it says so only when the handshake is over on our side."""
    authority = Authority(tmp_path)
    own = authority.issue()
    server = McpServer()
    server.tls = authority.server_context(own)
    server.tls.minimum_version = ssl.TLSVersion.TLSv1_3
    server.tls.verify_mode = ssl.CERT_REQUIRED
    server.tls.load_verify_locations(own.authority)
    async with serving(server):
        flags = ("--upstream", https(server), "--upstream-ca", own.authority)
        async with running_proxy(server.port, *flags) as proxy:
            said = await told(proxy.log, "server not reached")
            assert said["reason"] == "closed after the handshake: our certificate is refused"
            assert await proxy.ready() == 503
            assert await proxy.stop() == 0


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("expired", "certificate not accepted: certificate has expired"),
        ("stranger", "certificate not accepted: unable to get local issuer certificate"),
        ("name", "certificate not accepted: IP address mismatch, certificate is not valid for '127.0.0.1'."),
    ],
)
async def test_a_server_s_certificate_that_is_wrong_is_one_line_and_an_error(
    tmp_path: Path, fault: str, reason: str
) -> None:
    server = McpServer()
    own = _wrong(tmp_path, fault, server)
    flags = ("--upstream", "https://127.0.0.1:{port}", "--upstream-ca", own.authority, "--connect", "1s")
    async with serving(server):
        given = [word.format(port=server.port) for word in flags]
        async with running_proxy(server.port, *given) as proxy:
            assert (await told(proxy.log, "server not reached"))["reason"] == reason
            async with Client(proxy.port) as client:
                answer = await client.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
                (message,) = await answer.messages()
                with pytest.raises(Truncated):
                    await client.send("GET", "/elsewhere", [])
            assert "error" in message
            for _ in range(2):  # guarded, and not
                failed = await told(proxy.log, "upstream failed")
                assert (failed["kind"], failed["reason"]) == ("connect", reason)
            assert server.requests == []
            assert await proxy.stop() == 0


def _wrong(folder: Path, fault: str, server: McpServer) -> Files:
    authority = Authority(folder)
    own = authority.issue(
        "elsewhere.example" if fault == "name" else "127.0.0.1", is_expired=fault == "expired"
    )
    server.tls = authority.server_context(own)
    return Authority(folder).issue(stem="stranger") if fault == "stranger" else own


async def test_a_certificate_that_cannot_be_used_stops_the_start_with_one_line(tmp_path: Path) -> None:
    own = Authority(tmp_path).issue()
    other = Authority(tmp_path).issue(stem="other")
    code, said = await refused("--admin", "off", "--tls-certificate", own.certificate, "--tls-key", other.key)
    why = "the key is not that of the certificate"
    assert (code, said) == (1, f"epochgate: tls_certificate: {own.certificate}, {other.key}: {why}\n")
