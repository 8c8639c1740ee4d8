"""Shared parts of the tests: servers, stand-ins for them, and bases of test cases.

The tests run the server's binary: $UMBRA, or the newest of target/debug/umbra and target/release/umbra.
"""

import asyncio
import contextlib
import logging
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import unittest
import unittest.mock
import uuid
from collections.abc import Iterator
from typing import Any

from umbra_shadow import AsyncSidecar, AsyncUmbra, models

HERE = pathlib.Path(__file__).parent
# A busy machine is no fault: tests of deadlines set one.
PATIENT = 20.0
SERVER: "Server"
URL: str
WORK: pathlib.Path
TOOLS = [
    {"server": "search", "name": "search_code", "description": "Search the code of a repository for a text"},
    {"server": "files", "name": "edit_file", "description": "Edit a file: replace a text by another"},
    {"server": "db", "name": "drop_table", "description": "Drop a table of the database"},
    {"server": "mail", "name": "send_email", "description": "Send an email to somebody"},
    {"server": "web", "name": "fetch", "description": "Fetch a page of the web"},
]
SEARCH = {"tool": {"server": "search", "name": "search_code"}, "arguments": {"query": "date"}}
EDIT = {"tool": {"server": "files", "name": "edit_file"}, "arguments": {"path": "src/date.rs", "text": "fix"}}
DROP = {"tool": {"server": "db", "name": "drop_table"}, "arguments": {"table": "users"}}
TODO = "# Todo\n\n## Plan\n\n- [ ] find the bug\n\n## Notes\n\nNothing yet.\n"


def binary() -> str:
    built = [HERE.parents[2] / "target" / profile / "umbra" for profile in ("debug", "release")]
    found = os.environ.get("UMBRA") or max(
        filter(pathlib.Path.exists, built), key=lambda path: path.stat().st_mtime, default=None
    )
    if not found:
        raise AssertionError("the server is not built: cargo build, or set UMBRA to its binary")
    return str(found)


class Server:
    """A server of the tests, with its own database."""

    def __init__(
        self,
        *before: tuple[str, ...],
        shadows: str | None = None,
        tools: pathlib.Path = HERE / "tools.yaml",
        **settings: str,
    ) -> None:
        self.files = tempfile.TemporaryDirectory()
        # The user that runs Postgres must be able to reach its programs and data.
        os.chmod(self.files.name, 0o755)
        self.work = pathlib.Path(self.files.name, "work")
        self.work.mkdir()
        self.env = {name: os.environ[name] for name in ("PATH", "HOME", "UMBRA_PG_BIN") if name in os.environ}
        settings = {
            "STORAGE__DATA_DIR": f"{self.files.name}/data",
            "SIDECAR__DEADLINE": "20s",
            "SIDECAR__PATH": str(HERE / "sidecar.yaml"),
            "SIDECAR__WORKSPACE": str(self.work),
            **settings,
        }
        self.env |= {f"UMBRA__{name}": value for name, value in settings.items()}
        self.flags = ["--tools", str(tools)]
        if shadows is not None:
            path = pathlib.Path(self.files.name, "shadows.yaml")
            path.write_text(shadows)
            self.flags += ["--shadows", str(path)]
        self.said = [self.command(*arguments) for arguments in before]
        self.start("http://127.0.0.1:0")

    def start(self, url: str) -> None:
        command = [binary(), "serve", "--bind", url.removeprefix("http://"), *self.flags]
        with open(f"{self.files.name}/log", "wb") as log:
            self.process = subprocess.Popen(
                command, cwd=self.files.name, env=self.env, stdout=subprocess.PIPE, stderr=log
            )
        # The line ends when the server listens; the output ends if it does not.
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        if "listening on " not in line:
            raise AssertionError(pathlib.Path(self.files.name, "log").read_text())
        self.url = line.partition("listening on ")[2].strip()

    def command(self, *arguments: str) -> bytes:
        done = subprocess.run(
            [binary(), *arguments], cwd=self.files.name, env=self.env, check=True, capture_output=True
        )
        return done.stdout

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Ends the process; the data stay."""
        self.process.send_signal(how)
        self.process.wait(60.0)
        assert self.process.stdout is not None
        self.process.stdout.close()

    @contextlib.contextmanager
    def revived_by(self, kind: type, method: str) -> Iterator[None]:
        """Starts the stopped process again, at its address, once this method is called: a client has met the outage."""
        original = getattr(kind, method)

        def revive(*arguments: Any) -> Any:
            if self.process.poll() is not None:
                self.start(self.url)
            return original(*arguments)

        with unittest.mock.patch.object(kind, method, revive):
            yield
        assert self.process.poll() is None, "no request met the outage"

    def end(self, how: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.stop(how)
        with contextlib.suppress(OSError):
            self.files.cleanup()


def setUpModule() -> None:
    """Starts the server of a module's tests."""
    global SERVER, URL, WORK
    SERVER = Server()
    unittest.addModuleCleanup(SERVER.end)
    URL, WORK = SERVER.url, SERVER.work


class Peer:
    """Stand-in at the server's address, or proxy between the server and its client."""

    def __init__(self, behave: Any) -> None:
        self.behave = behave
        self.accepted = 0
        self.over = asyncio.Event()
        self.streams: set[asyncio.StreamWriter] = set()
        self.handlers: set[Any] = set()

    async def __aenter__(self) -> "Peer":
        self.listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.listener.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.over.set()
        self.listener.close()
        self.cut()
        await asyncio.gather(*self.handlers)

    def cut(self) -> None:
        for stream in self.streams:
            stream.transport.abort()

    async def _accept(self, reader: Any, writer: Any) -> Any:
        self.accepted += 1
        self.streams.add(writer)
        self.handlers.add(asyncio.current_task())
        try:
            await self.behave(self, reader, writer)
        except (OSError, EOFError):
            pass
        finally:
            self.streams.discard(writer)
            self.handlers.discard(asyncio.current_task())
            writer.transport.abort()

    async def hangs(self, reader: Any, writer: Any) -> Any:
        await self.over.wait()

    async def trickles(self, reader: Any, writer: Any) -> Any:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{")
        while not self.over.is_set():
            writer.write(b" ")
            await writer.drain()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.over.wait(), 0.02)

    async def passes_on(self, reader: Any, writer: Any) -> Any:
        host, port = URL.rpartition("/")[2].split(":")
        theirs, ours = await asyncio.open_connection(host, int(port))
        self.streams.add(ours)

        async def pump(source: Any, sink: Any) -> Any:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        try:
            await asyncio.gather(pump(reader, ours), pump(theirs, writer))
        finally:
            self.streams.discard(ours)
            ours.transport.abort()


def answers(status: Any, body: Any, headers: Any = "") -> Any:
    """Returns a server that gives one answer to every request."""

    async def behave(self: Any, reader: Any, writer: Any) -> Any:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
            )
            await reader.readexactly(length)
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body)
            await writer.drain()

    return behave


def summary_of(s: AsyncSidecar) -> models.SessionSummary:
    """Returns the summary of a closed session."""
    assert s.summary is not None
    return s.summary


def session_of(s: AsyncSidecar) -> models.Session:
    """Returns the state of a closed session."""
    session = summary_of(s).session
    assert session is not None
    return session


class Case(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.agent = f"coder-{uuid.uuid4().hex[:8]}"
        self.client = AsyncUmbra(URL, decision_timeout=PATIENT)
        self.addAsyncCleanup(self.client.aclose)
        logging.getLogger("umbra_shadow").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("umbra_shadow").setLevel, logging.NOTSET)
        self.threads = set(threading.enumerate())

    async def asyncTearDown(self) -> None:
        # Generators of a stream that was left end in the next steps of the loop; nothing else may be left.
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            _, pending = await asyncio.wait(tasks, timeout=1.0)
            self.assertEqual(pending, set())
        mine = [
            thread
            for thread in set(threading.enumerate()) - self.threads
            if not thread.name.startswith(("asyncio_", "umbra-outcomes"))
        ]
        self.assertEqual(mine, [])

    def sidecar(self, **settings: Any) -> AsyncSidecar:
        client: AsyncUmbra = settings.pop("client", self.client)
        return client.sidecar(**{"agent": self.agent, **settings})

    def patient(self, url: str) -> AsyncUmbra:
        """Returns a client with a long deadline."""
        client = AsyncUmbra(url, decision_timeout=PATIENT)
        self.addAsyncCleanup(client.aclose)
        return client

    def quick(self, url: str) -> AsyncUmbra:
        """Returns a client with a short deadline."""
        client = AsyncUmbra(url, decision_timeout=0.3)
        self.addAsyncCleanup(client.aclose)
        return client
