"""TLS of the check: the authorities that it believes, and the certificate that it shows."""

from __future__ import annotations

import ssl

from epochgate.check.wire import CannotTell


def make_context(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """PEM files; without `ca` the system's authorities are believed. Raises `CannotTell`."""
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        raise CannotTell(f"--ca: {ca}: {_why(error, 'no certificate in PEM form')}") from None
    if certificate is not None:
        try:
            # With a passphrase, as OpenSSL would ask for it on the terminal otherwise.
            context.load_cert_chain(certificate, key, "")
        except (OSError, ValueError) as error:
            named = certificate if key is None else f"{certificate}, {key}"
            why = _why(error, "not a certificate and its key in PEM form, without a passphrase")
            raise CannotTell(f"--certificate: {named}: {why}") from None
    return context


def _why(error: OSError | ValueError, otherwise: str) -> str:
    if isinstance(error, ssl.SSLError) or not isinstance(error, OSError):
        return otherwise
    return (error.strerror or otherwise).lower()
