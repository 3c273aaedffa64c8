"""Settings that change while the process runs: at SIGHUP, and when the file of settings does.

A file that is wrong leaves everything as it was; what can only be read at the start is named.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from epochgate.loading import BadSettings
from epochgate.observe.logs import Logger
from epochgate.observe.metrics import Metrics
from epochgate.settings import RELOADED, Settings
from epochgate.shell.following import LOOK_INTERVAL_S, Followed


class Reloading:
    """Loads again and hands what changed to `apply`."""

    def __init__(
        self,
        load: Callable[[], Settings],
        settings: Settings,
        apply: Callable[[Settings], None],
        metrics: Metrics,
        log: Logger,
        *,
        interval_s: float = LOOK_INTERVAL_S,
    ) -> None:
        self._load, self._settings, self._apply = load, settings, apply
        self._metrics, self._log = metrics, log
        self._one_at_a_time = asyncio.Lock()  # or what was read first could be applied last
        self._followed = Followed((settings.config,), interval_s)
        self._tell(is_good=True)

    async def watch(self) -> None:
        """Follow the file until cancelled; without one there is nothing to see."""
        await self._followed.follow(self.reload)

    async def reload(self) -> None:
        """Take what can be taken from the settings as they are now."""
        async with self._one_at_a_time:
            await self._reload()

    async def _reload(self) -> None:
        try:
            loaded = await asyncio.to_thread(self._load)
        except BadSettings as error:
            self._log.warning("settings not reloaded", reason=str(error))
            self._tell(is_good=False)
            return
        changed = {
            name for name in Settings.model_fields if getattr(loaded, name) != getattr(self._settings, name)
        }
        taken = {name: getattr(loaded, name) for name in changed & RELOADED}
        self._settings = self._settings.model_copy(update=taken)
        self._apply(self._settings)
        at_start_only = changed - RELOADED - self._settings.followed
        self._log.info("settings reloaded", changed=sorted(taken), needs_restart=sorted(at_start_only))
        self._tell(is_good=True)

    def _tell(self, *, is_good: bool) -> None:
        self._metrics.gauge("config_last_reload_successful").set(is_good)
        if is_good:
            self._metrics.gauge("config_last_reload_success_timestamp_seconds").set(time.time())
