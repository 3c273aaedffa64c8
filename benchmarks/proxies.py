"""Starting the proxies under measurement on a core of their own, and reading what they cost."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

START_S = 20.0  # A proxy that does not listen by then is broken.
POLL_S = 0.05

NGINX_CONF = """
daemon off; master_process off; pid {directory}/pid; error_log stderr error;
events {{ worker_connections 16384; }}
http {{
  access_log off; client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  keepalive_requests 100000000;
  upstream server {{ server {upstream}; keepalive 64; keepalive_requests 100000000; }}
  server {{
    listen {listen};
    location / {{
      proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 1h;
    }}
  }}
}}
"""


class ProxyError(Exception):
    """A proxy did not start, or ended by itself; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Cores:
    """The core of the proxy, and the one of load and upstream; equal when there is only one."""

    proxy: int
    load: int

    @classmethod
    def choose(cls) -> "Cores":
        """The first and the last core that this process may use."""
        allowed = sorted(os.sched_getaffinity(0))
        return cls(proxy=allowed[0], load=allowed[-1])


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running proxy."""

    name: str
    pid: int
    address: str

    def cpu_s(self) -> float:
        """CPU seconds of all its threads so far: utime + stime of /proc/PID/stat, to the nanosecond."""
        return time.clock_gettime((~self.pid << 3) | 2)  # The process's CPU clock, clock_getcpuclockid(3).

    def pss_kb(self) -> int:
        """Its proportional share of memory, in KiB."""
        for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
        raise ProxyError(f"{self.name}: no Pss in smaps_rollup")

    def reads(self) -> int:
        """read() calls so far. uvloop reads its sockets this way; nginx does not (recv)."""
        fields = dict(line.split(": ") for line in Path(f"/proc/{self.pid}/io").read_text().splitlines())
        return int(fields["syscr"])


Command = Callable[[str, str, Path], list[str]]


def _epochgate(listen: str, upstream: str, directory: Path) -> list[str]:
    run = [sys.executable, "-m", "epochgate", "run"]
    return [*run, "--upstream", f"http://{upstream}", "--listen", listen, "--admin", "127.0.0.1:0"]


def _bare(listen: str, upstream: str, directory: Path) -> list[str]:
    relay = [sys.executable, "-m", "benchmarks.bare_relay"]
    return [*relay, "--listen", listen, "--upstream", f"http://{upstream}"]


def _nginx(listen: str, upstream: str, directory: Path) -> list[str]:
    conf = directory / "nginx.conf"
    conf.write_text(NGINX_CONF.format(listen=listen, upstream=upstream, directory=directory))
    return ["nginx", "-p", str(directory), "-c", str(conf)]


COMMANDS: dict[str, Command] = {"epochgate": _epochgate, "bare": _bare, "nginx": _nginx}


def has_nginx() -> bool:
    """Is nginx installed?"""
    return shutil.which("nginx") is not None


@contextlib.asynccontextmanager
async def running(name: str, upstream: str, cores: Cores) -> AsyncIterator[Proxy]:
    """A proxy of that name in front of `upstream`, ended at the end. Raises ProxyError."""
    with tempfile.TemporaryDirectory(prefix="epochgate-bench-") as folder:
        directory = Path(folder)
        listen = f"127.0.0.1:{_free_port()}"
        log = directory / "log"
        with log.open("wb") as output:
            process = _spawn(COMMANDS[name](listen, upstream, directory), output.fileno(), cores.proxy)
        try:
            await _wait_listening(process, name, listen, log)
            yield Proxy(name, process.pid, listen)
            if process.poll() is not None:
                raise ProxyError(f"{name} ended with {process.returncode}: {_end_of(log)}")
        finally:
            process.kill()
            process.wait()


def _spawn(command: list[str], output: int, core: int) -> subprocess.Popen[bytes]:
    # A child inherits the affinity of its parent, with every thread that it will start.
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    except FileNotFoundError as error:
        raise ProxyError(f"{command[0]} is not installed") from error
    finally:
        os.sched_setaffinity(0, own)


async def _wait_listening(process: subprocess.Popen[bytes], name: str, listen: str, log: Path) -> None:
    host, port = listen.split(":")
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            return
        await asyncio.sleep(POLL_S)
    raise ProxyError(f"{name} does not listen: {_end_of(log)}")


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:].strip()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
