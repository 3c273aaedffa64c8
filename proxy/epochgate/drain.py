"""`epochgate drain`: tells the process on this machine to drain, and waits until it has.

For the `preStop` hook of a pod: there SIGTERM comes to a sidecar only when the server is gone already.
"""

from __future__ import annotations

import asyncio

import aiohttp

from epochgate.settings import Settings
from epochgate.shell.sockets import reason_of
from epochgate.units import Address, Place, UnixPath

CONNECT_S = 5.0
# What the process itself allows its drain is `drain`; its last words are not waited for longer than this.
_MARGIN_S = 5.0
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class CannotDrain(Exception):
    """One line: why nobody was told, or what became of it."""


def drain(settings: Settings) -> None:
    """Return when the process behind `admin` has drained. Raises `CannotDrain`."""
    if not settings.admin:
        raise CannotDrain("admin is off: nobody can be told; send SIGTERM, or give --admin")
    asyncio.run(_drain(settings, settings.admin[0]))


async def _drain(settings: Settings, place: Place) -> None:
    secret = settings.secret("admin_token")
    timeout = aiohttp.ClientTimeout(total=settings.drain + _MARGIN_S, sock_connect=CONNECT_S)
    async with aiohttp.ClientSession(
        connector=aiohttp.UnixConnector(place.path) if isinstance(place, UnixPath) else None,
        headers={"Authorization": f"Bearer {secret}"} if secret else None,
        timeout=timeout,
    ) as http:
        try:
            async with http.post(_url(place)) as answer:
                await answer.read()
        except aiohttp.ClientConnectorError as error:
            why = reason_of(error.os_error)
            raise CannotDrain(
                f"nothing answers at admin {place}: {why}; give --admin as the process has it"
            ) from None
        except TimeoutError:
            raise CannotDrain(f"not drained after {settings.drain + _MARGIN_S:g} s") from None
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            return  # it is gone: nothing is left to drain
        except aiohttp.ClientError:
            raise CannotDrain(f"admin {place} speaks no HTTP; give the address of epochgate") from None
        if answer.status == 401:
            raise CannotDrain(
                f"admin {place} answered 401; give its token by --admin-token-file or EPOCHGATE_ADMIN_TOKEN"
            )
        if answer.status != 200:
            raise CannotDrain(f"admin {place} answered {answer.status}; give the admin address of epochgate")


def _url(place: Place) -> str:
    if isinstance(place, UnixPath):
        return "http://localhost/drain"
    return f"http://{Address(_ANY.get(place.host, place.host), place.port)}/drain"
