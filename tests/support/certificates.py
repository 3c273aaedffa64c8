"""Certificates of authorities that exist for one test, as files."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import trustme

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Files:
    """A certificate with its chain, its key, and the authority that signed it."""

    certificate: str
    key: str
    authority: str


class Authority:
    """Signs certificates for `127.0.0.1` unless another name is given, into files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = trustme.CA()

    def issue(self, name: str = "127.0.0.1", *, stem: str = "own", is_expired: bool = False) -> Files:
        """What stood under `stem` before is replaced."""
        given = self._own.issue_cert(name, not_after=LONG_AGO if is_expired else None)
        certificate, key, authority = (self._folder / f"{stem}.{kind}" for kind in ("crt", "key", "ca"))
        self._own.cert_pem.write_to_path(authority)
        given.private_key_pem.write_to_path(key)
        certificate.write_bytes(b"".join(pem.bytes() for pem in given.cert_chain_pems))
        return Files(str(certificate), str(key), str(authority))

    def server_context(self, files: Files) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(files.certificate, files.key)
        return context

    def client_context(self) -> ssl.SSLContext:
        """Believes this authority and no other."""
        context = ssl.create_default_context()
        self._own.configure_trust(context)
        return context
