"""The stage with what stands around guarded sessions: stateless peers, the old transport, nginx, browsers."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from tests.interop.stage import HERE, Stage, free_port
from tests.interop.steered import Steered

STATELESS_KINDS = ("python-2.3", "typescript-2.4")


class Surroundings(Stage):
    """A stage on which these can stand too."""

    async def stateless_server(self, kind: str, *flags: str, port: int = 0) -> tuple[Steered, int]:
        """A server of the stateless revision, and its port; it serves older revisions too."""
        server = await self._stateless(kind, "server", "--port", str(port), *flags)
        return server, (await server.wait_told("ready"))["port"]

    async def stateless_client(self, kind: str, port: int) -> Steered:
        """A client that asks which revisions the server speaks."""
        client = await self._stateless(kind, "client", f"http://127.0.0.1:{port}/mcp")
        await client.wait_told("ready")
        return client

    async def _stateless(self, kind: str, role: str, *arguments: str) -> Steered:
        if kind == "typescript-2.4":
            command = ["node", str(HERE / "ts-2" / f"stateless_{role}.mjs")]
        else:
            command = [str(self._peers.python_2), str(HERE / "python" / f"stateless_{role}.py")]
        node = {"PEERS_NODE": str(self._peers.node_2)}
        return await self._start(f"stateless {role} {kind}", [*command, *arguments], **node)

    async def oauth_server(self, port: int, public: str) -> Steered:
        """A server that wants a token, and believes to be reached at `public`."""
        program = [str(self._peers.python_1), str(HERE / "python" / "oauth_server.py")]
        server = await self._start("oauth server", [*program, "--port", str(port), "--public", public])
        await server.wait_told("ready")
        return server

    async def oauth_client(self, url: str) -> Steered:
        """A client that looks for a way to be let in, and makes one call."""
        program = [str(self._peers.python_1), str(HERE / "python" / "oauth_client.py")]
        return await self._start("oauth client", [*program, url])

    async def nginx(self, target: int, *directives: str, port: int = 0) -> tuple[Steered, int]:
        """nginx in front of this port, and its own; as it is by default but for these directives."""
        folder = self._folder()
        port = port or free_port()
        names = {"PREFIX": str(folder), "PORT": str(port), "TARGET": str(target)}
        text = Path(__file__).with_name("nginx.conf").read_text().replace("DIRECTIVES", " ".join(directives))
        for name, value in names.items():
            text = text.replace(name, value)
        conf = folder / "nginx.conf"
        conf.write_text(text)
        nginx = await self._start("nginx", [str(self._peers.nginx), "-p", str(folder), "-c", str(conf)])
        await nginx.wait_text('using the "epoll" event method')
        return nginx, port

    async def browser(self, page: str) -> tuple[Steered, str]:
        """A Chromium that will show this page of `tests/peers/browser`, and the page's origin."""
        folder = self._folder()
        self._bundle(HERE / "browser" / f"{page}.mjs", folder / f"{page}.js")
        (folder / f"{page}.html").write_text(f'<script type="module" src="{page}.js"></script>')
        program = [str(self._peers.browser), str(HERE / "python" / "browser.py")]
        browser = await self._start("browser", [*program, str(self._peers.chromium), str(folder), page])
        return browser, (await browser.wait_told("serving"))["origin"]

    async def visitor(self, colours: str = "light") -> Steered:
        """A Chromium in which pages are looked at, in light or dark colours."""
        program = [str(self._peers.browser), str(HERE / "python" / "visitor.py")]
        visitor = await self._start("visitor", [*program, str(self._peers.chromium), colours])
        await visitor.wait_told("ready")
        return visitor

    def _bundle(self, source: Path, target: Path) -> None:
        """One file of the page and the SDK that it uses."""
        esbuild = self._peers.bundler / "node_modules" / ".bin" / "esbuild"
        flags = ["--bundle", "--format=esm", "--log-level=warning", f"--outfile={target}"]
        installed = (self._peers.node / "node_modules", self._peers.node_2 / "node_modules")
        env = {**os.environ, "NODE_PATH": os.pathsep.join(map(str, installed))}
        subprocess.run([str(esbuild), str(source), *flags], check=True, env=env)

    def _folder(self) -> Path:
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
