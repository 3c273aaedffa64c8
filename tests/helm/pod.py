"""Runs the container `epochgate` of rendered manifests as kubelet would, without a cluster.

Its volumes become folders, filled as kubelet fills them: files are links through `..data`, which is swapped
when they change. Paths of mounts and addresses of all interfaces are replaced by those of the test.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.helm.charts import Object, container, pod_of
from tests.shell.running import environment

DEADLINE_S = 20.0
EPOCHGATE = (sys.executable, "-m", "epochgate")
Texts = Mapping[str, str]


@dataclass
class Pod:
    """A running container, and what it has said."""

    spec: Object
    folder: Path
    environment: dict[str, str]
    process: asyncio.subprocess.Process
    said: list[str] = field(default_factory=list)

    async def probe(self, name: str) -> int:
        """The status that kubelet would see."""
        get = self.spec[name]["httpGet"]
        return await asyncio.to_thread(_status, f"http://127.0.0.1:{get['port']}{get['path']}")

    async def wait_probed(self, name: str) -> None:
        """Return when that probe succeeds."""
        async with asyncio.timeout(DEADLINE_S):
            while await self.probe(name) != 200:
                assert self.process.returncode is None, "".join(self.said)
                await asyncio.sleep(0.02)

    async def wait_said(self, text: str) -> str:
        """The next line of the log that has `text` in it."""
        assert self.process.stderr is not None
        async with asyncio.timeout(DEADLINE_S):
            async for line in self.process.stderr:
                self.said.append(line.decode())
                if text in self.said[-1]:
                    return self.said[-1]
        raise AssertionError("".join(self.said))

    async def stop_before(self) -> int:
        """What the `preStop` hook does; its exit code."""
        program, *words = self.spec["lifecycle"]["preStop"]["exec"]["command"]
        assert program == "epochgate"
        hook = await asyncio.create_subprocess_exec(*EPOCHGATE, *words, env=self.environment)
        async with asyncio.timeout(DEADLINE_S):
            return await hook.wait()

    async def terminate(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_S):
            return await self.process.wait()


@asynccontextmanager
async def running(
    objects: list[Object], folder: Path, secrets: Mapping[str, Texts] | None = None
) -> AsyncIterator[Pod]:
    """The container of these objects; `secrets` are the Secrets of the namespace, by name and key."""
    spec, volumes = container(objects, "epochgate"), pod_of(objects)["spec"]["volumes"]
    texts = {volume["name"]: _content(volume, objects, secrets or {}) for volume in volumes}
    places = {}
    for mount in spec["volumeMounts"]:
        places[mount["mountPath"]] = folder / mount["mountPath"].lstrip("/")
        fill(places[mount["mountPath"]], texts[mount["name"]])
    variables = {each["name"]: _moved(each["value"], places) for each in spec["env"]}
    environ = {**environment(), **variables}
    process = await asyncio.create_subprocess_exec(
        *EPOCHGATE, *spec["args"], env=environ, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield Pod(spec, folder, environ, process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def fill(folder: Path, texts: Texts) -> None:
    """Fill a folder as kubelet does, in place of what was there; readers see all of it or nothing."""
    number = len(list(folder.glob("..[0-9]*"))) if folder.is_dir() else 0
    made = folder / f"..{number}"
    made.mkdir(parents=True)
    for name, text in texts.items():
        (made / name).write_text(text)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    (folder / "..new").symlink_to(made.name)
    os.replace(folder / "..new", folder / "..data")


def _content(volume: Object, objects: list[Object], secrets: Mapping[str, Texts]) -> Texts:
    match volume:
        case {"configMap": {"name": name}}:
            maps = {each["metadata"]["name"]: each["data"] for each in objects if each["kind"] == "ConfigMap"}
            content: Texts = maps[name]
            return content
        case {"secret": {"secretName": name}}:
            return secrets[name]
        case _:
            return {}


def _moved(value: str, places: Mapping[str, Path]) -> str:
    for mounted, place in places.items():
        if value.startswith(f"{mounted}/"):
            return f"{place}{value.removeprefix(mounted)}"
    return value.replace("0.0.0.0:", "127.0.0.1:")


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except urllib.error.URLError:
        return 0
