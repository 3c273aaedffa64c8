"""`epochgate check` of https servers: whom it believes, what it shows, and what it says of what fails."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.check.test_check import Scripted, check, serving
from tests.support.certificates import Authority


async def _refused(*words: str) -> str:
    ran = await check(*words)
    assert (ran.returncode, ran.stdout) == (2, "")
    return ran.stderr.splitlines()[-1]


async def test_a_certificate_of_an_unknown_authority_is_one_line(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.server_context(authority.issue())
    async with serving(Scripted(), context) as url:
        assert await _refused(url) == (
            "epochgate: TLS failed: certificate not accepted: unable to get local issuer certificate; "
            "give its authorities by --ca"
        )


async def test_a_certificate_of_a_given_authority_is_believed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue()
    async with serving(Scripted(), authority.server_context(own)) as url:
        ran = await check(url, "--ca", own.authority)
    assert ran.returncode == 0


async def test_a_certificate_of_ours_is_shown_to_a_server_that_asks(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own, visitor = authority.issue(), authority.issue("visitor", stem="visitor")
    context = authority.server_context(own)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(own.authority)
    async with serving(Scripted(), context) as url:
        given = (url, "--ca", own.authority)
        ran = await check(*given, "--certificate", visitor.certificate, "--key", visitor.key)
        assert ran.returncode == 0
        assert (await check(*given)).returncode == 2


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("http://127.0.0.1:1/mcp", "--ca", "{junk}"), "--ca: without effect; the URL is not an https one"),
        (("{url}", "--key", "{junk}"), "--key: without effect; give --certificate as well"),
        (("{url}", "--ca", "{junk}"), "--ca: {junk}: no certificate in PEM form"),
        (("{url}", "--ca", "/nowhere"), "--ca: /nowhere: no such file or directory"),
        (
            ("{url}", "--certificate", "{junk}"),
            "--certificate: {junk}: not a certificate and its key in PEM form, without a passphrase",
        ),
    ],
)
async def test_files_that_are_wrong_are_one_line(tmp_path: Path, words: tuple[str, ...], line: str) -> None:
    junk = tmp_path / "junk"
    junk.write_text("junk")
    names = {"url": "https://127.0.0.1:1/mcp", "junk": str(junk)}
    said = await _refused(*(word.format(**names) for word in words))
    assert said == f"epochgate: {line.format(**names)}"
