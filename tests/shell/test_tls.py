"""What is said of certificate files that are wrong, and what becomes of a context when they change."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from structlog.testing import CapturingLogger

from epochgate.shell.tls import BadTls, Tls, TlsFiles, client_context, reason_of_handshake, server_context
from tests.shell.wire import until
from tests.support.certificates import LONG_AGO, Authority

DEADLINE_S = 10.0


def _encrypted(key: str, passphrase: bytes) -> str:
    loaded = serialization.load_pem_private_key(Path(key).read_bytes(), None)
    how = serialization.BestAvailableEncryption(passphrase)
    pem = loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
    Path(f"{key}.encrypted").write_bytes(pem)
    return f"{key}.encrypted"


def test_an_encrypted_key_is_opened_by_its_passphrase_alone(tmp_path: Path) -> None:
    own = Authority(tmp_path).issue()
    key = _encrypted(own.key, b"s3cret")
    server_context(TlsFiles(own.certificate, key, "s3cret"))
    for wrong in ("", "other"):
        with pytest.raises(
            BadTls, match=r"own\.crt, .*own\.key\.encrypted: the passphrase is not that of the key"
        ):
            server_context(TlsFiles(own.certificate, key, wrong))


async def test_a_passphrase_may_change_with_the_key(tmp_path: Path) -> None:
    own = Authority(tmp_path).issue()
    key = _encrypted(own.key, b"first")
    file = tmp_path / "passphrase"
    file.write_text("first\n")
    files = TlsFiles(own.certificate, key, "first", passphrase_file=str(file))
    capturing = CapturingLogger()
    log = structlog.wrap_logger(capturing, processors=[])
    tls = Tls(server_context, files, log, lambda is_good: None, interval_s=0.001)
    first = tls.context
    watching = asyncio.create_task(tls.watch())
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.to_thread(_encrypted, own.key, b"second")
        await until(lambda: bool(capturing.calls))  # the key alone is of no use
        assert tls.context is first
        await asyncio.to_thread(file.write_text, "second\n")
        await until(lambda: tls.context is not first)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


def test_a_passphrase_file_that_is_gone_is_one_line(tmp_path: Path) -> None:
    own = Authority(tmp_path).issue()
    gone = str(tmp_path / "gone")
    with pytest.raises(BadTls, match=rf"^{gone}: no such file or directory$"):
        server_context(TlsFiles(own.certificate, own.key, "given", passphrase_file=gone))


def test_files_that_are_wrong_are_one_line(tmp_path: Path) -> None:
    own = Authority(tmp_path).issue()
    other = Authority(tmp_path).issue(stem="other")
    junk = tmp_path / "junk"
    junk.write_text("junk")
    for files, said in (
        (TlsFiles(own.certificate, other.key), "the key is not that of the certificate"),
        (TlsFiles(own.certificate, str(junk)), "not a certificate and its key in PEM form"),
        (
            TlsFiles(own.certificate),
            "not a certificate and its key in PEM form; give the key's own file too, if it has one",
        ),
        (TlsFiles(str(tmp_path / "none"), own.key), "no such file or directory"),
        (TlsFiles(own.certificate, own.key, authorities=str(junk)), "no certificate in PEM form"),
    ):
        with pytest.raises(BadTls, match=rf"^[^\n]+: {said}$"):
            server_context(files)
    with pytest.raises(BadTls, match=r"none: no such file or directory$"):
        client_context(TlsFiles(authorities=str(tmp_path / "none")))


def test_a_handshake_with_a_server_that_speaks_no_tls_says_so() -> None:
    client, server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    context = ssl.create_default_context()
    with pytest.raises(ssl.SSLError) as raised:
        context.wrap_bio(client, server, server_hostname="example.com").do_handshake()
    assert reason_of_handshake(raised.value) == "no TLS is spoken there"


def test_a_key_of_another_algorithm_or_too_short_is_not_called_no_pem(tmp_path: Path) -> None:
    own = Authority(tmp_path).issue()  # on a curve
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    short = tmp_path / "short.pem"
    short.write_bytes(_pem(key) + _self_signed(key))
    with pytest.raises(BadTls, match="the key is not that of the certificate"):
        server_context(TlsFiles(own.certificate, str(short)))
    with pytest.raises(BadTls, match=r"short\.pem: too weak: ee key too small"):
        server_context(TlsFiles(str(short)))


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    no = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, no)


def _self_signed(key: rsa.RSAPrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "short")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, LONG_AGO, LONG_AGO + timedelta(1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_a_peer_that_closes_within_the_handshake_is_told_in_words() -> None:
    assert reason_of_handshake(ConnectionResetError()) == "the peer closed the connection"
    assert reason_of_handshake(ConnectionResetError(104, "x")) == "connection reset by peer"
    assert reason_of_handshake(ConnectionAbortedError("SSL handshake is taking long")) == "not over in time"


async def test_a_context_follows_its_files_and_outlives_wrong_ones(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue()
    capturing = CapturingLogger()
    told: list[bool] = []
    tls = Tls(
        server_context,
        TlsFiles(own.certificate, own.key),
        structlog.wrap_logger(capturing, processors=[]),
        told.append,
        interval_s=0.001,
    )
    first = tls.context
    watching = asyncio.create_task(tls.watch())
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.to_thread(Path(own.key).write_text, "half")
        await until(lambda: bool(capturing.calls))
        assert capturing.calls[-1].kwargs["event"] == "certificates not reloaded"
        assert tls.context is first
        assert not told[-1]

        await asyncio.to_thread(authority.issue)
        await until(lambda: tls.context is not first)
        assert isinstance(tls.context, ssl.SSLContext)
        await until(lambda: told[-1])
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
