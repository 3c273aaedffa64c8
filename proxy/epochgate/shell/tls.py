"""TLS of both legs: contexts made of PEM files, and made anew when those change.

A handshake takes the context that is current when it begins; connections that are there keep theirs.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from epochgate.core.enums import Enum
from epochgate.observe.logs import Logger
from epochgate.shell.following import LOOK_INTERVAL_S, Followed
from epochgate.shell.sockets import reason_of

ALPN = ["http/1.1"]
HANDSHAKE_S = 10.0
_MISMATCHES = ("KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED")  # the other one: a key of another algorithm
_TOO_WEAK = ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK")
SHUTDOWN_S = 1.0  # for the peer's last word; nobody waits for it


class BadTls(Exception):
    """One line: which file, what is wrong with it."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: our certificate with its chain, its key, and the authorities that are believed. The key's
    passphrase is given, or stands in a file as well, which may change with the key."""

    certificate: str | None = None
    key: str | None = None
    passphrase: str = ""
    authorities: str | None = None
    passphrase_file: str | None = None


class Tls:
    """The current context of one leg."""

    def __init__(
        self,
        make: Callable[[TlsFiles], ssl.SSLContext],
        files: TlsFiles,
        log: Logger,
        tell: Callable[[bool], None],
        interval_s: float = LOOK_INTERVAL_S,
    ) -> None:
        """`tell` is told of each reload whether the files were good. Raises `BadTls`."""
        self._make, self._files, self._log, self._tell = make, files, log, tell
        self._one_at_a_time = asyncio.Lock()  # or what was read first could be shown last
        followed = (files.certificate, files.key, files.authorities, files.passphrase_file)
        self._followed = Followed(followed, interval_s)
        self.context = make(files)

    async def watch(self) -> None:
        """Follow the files until cancelled. One that is wrong or half written changes nothing."""
        await self._followed.follow(self.renew)

    async def renew(self) -> None:
        """Read the files now."""
        async with self._one_at_a_time:
            try:
                self.context = await asyncio.to_thread(self._make, self._files)
            except BadTls as error:
                self._log.warning("certificates not reloaded", reason=str(error))
                self._tell(False)
            else:
                read = [self._files.certificate, self._files.authorities]
                self._log.info("certificates reloaded", files=read)
                self._tell(True)


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """For a listener; with authorities, clients must show a certificate of theirs. Raises `BadTls`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _show(context, files)
    if files.authorities is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        _believe(context, files.authorities)
    context.set_alpn_protocols(ALPN)
    return context


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """For the upstream; without authorities those of the system are believed. Raises `BadTls`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if files.authorities is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _believe(context, files.authorities)
    if files.certificate is not None:
        _show(context, files)
    context.set_alpn_protocols(ALPN)
    return context


def _show(context: ssl.SSLContext, files: TlsFiles) -> None:
    assert files.certificate is not None
    is_encrypted = False
    given = _passphrase(files)

    def passphrase() -> str:
        nonlocal is_encrypted
        is_encrypted = True
        return given

    named = files.certificate if files.key is None else f"{files.certificate}, {files.key}"
    try:
        # With a callback, as OpenSSL would ask for the passphrase on the terminal otherwise.
        context.load_cert_chain(files.certificate, files.key, passphrase)
    except (OSError, ValueError) as error:
        hint = "; give the key's own file too, if it has one" if files.key is None else ""
        why = _why(error, f"not a certificate and its key in PEM form{hint}")
        raise BadTls(f"{named}: {'the passphrase is not that of the key' if is_encrypted else why}") from None


def _passphrase(files: TlsFiles) -> str:
    if files.passphrase_file is None:
        return files.passphrase
    try:
        return Path(files.passphrase_file).read_text().strip()
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "not text"
        raise BadTls(f"{files.passphrase_file}: {reason}") from None


def _believe(context: ssl.SSLContext, authorities: str) -> None:
    try:
        context.load_verify_locations(authorities)
    except (OSError, ValueError) as error:
        raise BadTls(f"{authorities}: {_why(error, 'no certificate in PEM form')}") from None


def _why(error: OSError | ValueError, otherwise: str) -> str:
    if isinstance(error, ssl.SSLError):
        if error.reason in _MISMATCHES:
            return "the key is not that of the certificate"
        return f"too weak: {_words(error)}" if error.reason in _TOO_WEAK else otherwise
    return reason_of(error) if isinstance(error, OSError) else str(error)


class HandshakeFailure(Enum):
    """Values of a label."""

    NOT_BEGUN = "not_begun"  # the peer closed without a byte
    TIMEOUT = "timeout"
    FAILED = "failed"


def kind_of_handshake(error: OSError, *, has_begun: bool) -> HandshakeFailure:
    """`has_begun`: whether a byte of it came."""
    if isinstance(error, TimeoutError | ConnectionAbortedError):  # the loop's own limit raises the other one
        return HandshakeFailure.TIMEOUT
    return HandshakeFailure.FAILED if has_begun else HandshakeFailure.NOT_BEGUN


def reason_of_handshake(error: OSError) -> str:
    """Why a handshake failed, in OpenSSL's words without their numbers."""
    if isinstance(error, TimeoutError | ConnectionAbortedError):
        return "not over in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "no TLS is spoken there"
    if isinstance(error, ssl.SSLError):
        return _words(error)
    return reason_of(error)


def reason_of_connect(error: Exception) -> str:
    """Why a connection to the server failed; `error` is one of `CONNECT_ERRORS`."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return reason_of_handshake(error) if isinstance(error, OSError) else str(error)


def _words(error: ssl.SSLError) -> str:
    return (error.reason or "TLS failed").replace("_", " ").lower()
