"""Tests of what the client does, and says, while the server is away, or another program answers at its address."""

import asyncio
import contextlib
import pathlib
import ssl
import tempfile
import time
import unittest
import unittest.mock
from collections.abc import AsyncIterator
from typing import Any

from support import DROP, PATIENT, TODO, Case, Peer, answers, setUpModule

from umbra_shadow import AsyncUmbra, Unavailable, UndecidedCall

__all__ = ["setUpModule"]

# A certificate that no authority has signed.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgYyY4GZ0avio851di
wggHcO/q701WJi/SEIAzKZbB5kihRANCAATOpzlcv3KYGWI8pPChZCRx2MKiehBM
f093xumoWl/Zk3JXpwcZ4g6wwJKBBHT2G4YhjGdx0aZ2+RDPN8OM8gaK
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBcDCCARWgAwIBAgIUCdfCafz0BNX6ckVsSPzXdxfF1cQwCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBeDAgFw0yNjExMjgyMTI2MzNaGA8yMTI2MTEwNDIxMjYzM1ow
DDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABM6nOVy/cpgZ
Yjyk8KFkJHHYwqJ6EEx/T3fG6ahaX9mTclenBxniDrDAkoEEdPYbhiGMZ3HRpnb5
EM83w4zyBoqjUzBRMB0GA1UdDgQWBBRzLDX/Q4qynGIsRE5F9YAQcpkykjAfBgNV
HSMEGDAWgBRzLDX/Q4qynGIsRE5F9YAQcpkykjAPBgNVHRMBAf8EBTADAQH/MAoG
CCqGSM49BAMCA0kAMEYCIQDI27F0jROC0mrgu9FgHOSDSyaXrG08TVW+si8r3dM9
8QIhAJHyTBbVYtLzc1lSINgjsfkAL1O+3dQ3wZz1RSfcxfRN
-----END CERTIFICATE-----
"""
HTML = answers(404, b"<html>Not Found</html>", "Content-Type: text/html\r\n")


async def paid() -> str:
    return "paid"


class Pauses(Case):
    async def test_answer_to_any_request_ends_the_pause_of_a_sidecar(self) -> None:
        async with Peer(Peer.passes_on) as between:
            client = self.patient(between.url)

            async def report() -> None:
                client.report(
                    (await self.client.decide({"tool": "mail.send", "arguments": {}})).call_id, {"status": "ok"}
                )
                self.assertTrue(await client.flush(PATIENT))

            asks: list[Any] = [lambda: client.call_tool("pay", {}, paid), client.status, report]
            async with self.sidecar(client=client) as s:
                for ask in asks:
                    between.behave = answers(503, b"{}")
                    between.cut()
                    for _ in range(3):
                        self.assertTrue((await s.guard(DROP)).degraded)
                    between.behave = Peer.passes_on
                    between.cut()
                    self.assertIn("left alone for a while", (await s.guard(DROP)).warnings[0])
                    await ask()
                    self.assertEqual((await s.guard(DROP)).rule, "no-drop")

    async def test_lost_change_of_a_document_is_told_once_for_each_absence(self) -> None:
        change = {"op": "append_text", "text": "x"}
        async with Peer(Peer.passes_on) as between:
            client = self.patient(between.url)
            async with self.sidecar(client=client, documents={"todo": TODO}) as s:
                todo = await s.document("todo")
                for _ in range(2):
                    between.behave = answers(503, b"{}")
                    between.cut()
                    with self.assertLogs("umbra_shadow", "WARNING") as logs:
                        for _ in range(2):
                            self.assertFalse((await todo.edit(change)).stored)
                        await todo.read()
                    told = [line for line in logs.output if "the change of the document todo is lost: " in line]
                    self.assertEqual(len(told), 1, logs.output)
                    self.assertIn("make it again once read() is not degraded", told[0])
                    between.behave = Peer.passes_on
                    between.cut()
                    await client.status()
                    self.assertTrue((await todo.edit(change)).stored)


class OtherPrograms(Case):
    @contextlib.asynccontextmanager
    async def at_once(self, url: str, words: str) -> AsyncIterator[AsyncUmbra]:
        """Checks that every request to an address is given up at once, and that declared reads run."""
        began = time.monotonic()
        async with AsyncUmbra(url, timeout=PATIENT, decision_timeout=PATIENT) as umbra:
            asks: list[Any] = [
                umbra.status(),
                umbra.events.post({"output": "x"}),
                anext(umbra.findings.stream()),
                umbra.approvals.wait("apr_1"),
                asyncio.to_thread(umbra._core.sync_client().status),
                umbra.decide({"tool": "pay", "arguments": {}}),
            ]
            for ask in asks:
                with self.assertRaises(Unavailable) as gone:
                    await ask
                self.assertRegex(f"{gone.exception} {gone.exception.__cause__}", words)
            with self.assertLogs("umbra_shadow", "WARNING") as logs:
                self.assertEqual(await umbra.call_tool("look", {}, paid, effect="read"), "paid")
                with self.assertRaises(UndecidedCall):
                    await umbra.call_tool("pay", {}, paid, effect="write")
            self.assertRegex(logs.output[0], words)
            async with self.sidecar(client=umbra) as s:
                self.assertRegex(s.warnings[0], words)
            yield umbra
        self.assertLess(time.monotonic() - began, PATIENT / 2)

    async def test_another_program_is_told_at_once(self) -> None:
        not_found = answers(404, b'{"message": "no such page"}', "Content-Type: application/json\r\n")
        page = answers(200, b"<html>Welcome</html>", "Content-Type: text/html\r\n")
        for behave, words in (
            (HTML, "what answers is no server of Umbra: it answered 404: <html>Not Found"),
            (not_found, "what answers is no server of Umbra: it answered 404"),
            (answers(405, b""), "what answers is no server of Umbra: it answered 405"),
        ):
            async with Peer(behave) as peer, self.at_once(peer.url, words) as umbra:
                umbra.report("c", {"status": "ok"})
                # The outcome waits: perhaps a proxy has lost its server for a while.
                self.assertFalse(await umbra.flush(0.1))
        async with Peer(page) as peer, AsyncUmbra(peer.url, timeout=PATIENT) as umbra:
            with self.assertRaisesRegex(Unavailable, "what answers is no server of Umbra"):
                await asyncio.wait_for(umbra.status(), 1.0)

    async def test_port_without_tls_is_told_at_once(self) -> None:
        async with Peer(Peer.passes_on) as peer:
            async with self.at_once(peer.url.replace("http:", "https:"), "this port speaks no TLS: use http:// in its"):
                pass

    async def test_unknown_certificate_is_told_at_once(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "pem")
            file.write_text(CERTIFICATE)
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(file)
        # The server's side of each refusal.
        silent = unittest.mock.patch.object(asyncio.get_running_loop(), "call_exception_handler")
        silent.start()
        self.addCleanup(silent.stop)
        async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0, ssl=tls) as server:
            port = server.sockets[0].getsockname()[1]
            async with self.at_once(
                f"https://127.0.0.1:{port}", "its certificate is refused: self.signed.*SSL_CERT_FILE"
            ):
                pass


if __name__ == "__main__":
    unittest.main()
