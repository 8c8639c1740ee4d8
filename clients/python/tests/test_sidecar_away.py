"""Tests of the sidecar's client with a faulty server, or without one."""

import asyncio
import contextlib
import json
import signal
import socket
import time
import unittest
import unittest.mock
from collections.abc import AsyncIterator
from typing import Any

import support
from support import (
    DROP,
    EDIT,
    PATIENT,
    SEARCH,
    TODO,
    TOOLS,
    Case,
    Peer,
    Server,
    answers,
    session_of,
    setUpModule,
    summary_of,
)

from umbra_shadow import APIError, AsyncSidecar, AsyncUmbra, Blocked, SessionStep, Unavailable, _session
from umbra_shadow._async import sidecar as async_sidecar

__all__ = ["setUpModule"]


SESSION = {
    **{
        "id": "ses_1",
        "agent": "a",
        "state": "open",
        "modes": [],
        "objectives": [],
        "taints": [],
        "tools": 0,
        "turns": 0,
    },
    **{
        "messages": 0,
        "tools_digest": "",
        "rulings": {"allow": 0, "warn": 0, "block": 0},
        "opened_at": "2026-01-01T00:00:00Z",
        "seen_at": "2026-01-01T00:00:00Z",
    },
}
COMPLETE = {"policy_version": "", "degraded": False, "warnings": []}
ATTACHED = {"id": "ses_1", "session": SESSION, "documents": [], **COMPLETE}
RULING = {"decision": "block", "would": "block", "inputs": "", **COMPLETE}


class Away(Case):
    """Tests that a faulty server stops no agent."""

    async def loop(self: Any, s: AsyncSidecar) -> None:
        """Runs an agent's loop that gets nothing from its sidecar, and ends."""
        ran = []

        @s.guardrails("enforce", server="db")
        async def drop_table(table: Any) -> Any:
            ran.append(table)

        @s.guardrails("enforce", server="db", name="drop_table")
        def drop_now(table: Any) -> Any:
            ran.append(table)

        turn = await s.turn("x", planned_calls=[DROP, EDIT])
        self.assertEqual(
            [(one.decision, str(one.tool)) for one in turn.decisions],
            [("allow", "db.drop_table"), ("allow", "files.edit_file")],
        )
        self.assertEqual((turn.turn, turn.blocked, turn.degraded, len(turn.warnings)), (0, False, True, 1))
        told = await s.message("x", tool_calls=[DROP], results=[{"tool": "x", "content": "y"}])
        self.assertEqual((told.degraded, len(told.calls), len(told.results), told.decision), (True, 1, 1, "allow"))
        unanswered: list[Any] = [
            await s.guard(DROP),
            await s.select("x"),
            await s.record_pattern("x"),
            await s.search_patterns("x"),
        ]
        for answer in unanswered:
            self.assertTrue(answer.degraded and answer.warnings)
        todo = await s.document("todo")
        self.assertEqual(
            (todo.text, todo.degraded), (TODO if "todo" in s._attachment["documents"] and s.id else todo.text, True)
        )
        edited = await todo.edit({"op": "append_text", "text": "x"})
        self.assertEqual((edited.stored, edited.degraded), (False, True))
        self.assertTrue((await s.ensure_updated("todo", section="Plan")).degraded)
        self.assertTrue((await todo.history()).degraded)
        await drop_table("a")
        drop_now("b")
        self.assertEqual(ran, ["a", "b"])
        self.assertEqual([said async for said in self.stream(s)], [])

    @contextlib.asynccontextmanager
    async def soon(self) -> AsyncIterator[None]:
        """Checks that a block ends long before its deadline."""
        began = time.monotonic()
        yield
        self.assertLess(time.monotonic() - began, PATIENT / 2)

    async def stream(self, s: AsyncSidecar) -> AsyncIterator[SessionStep]:
        with unittest.mock.patch.object(_session, "RESUME_AFTER", 0.0):
            async for said in s.stream():
                yield said

    async def test_refused_connection_degrades_every_answer(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            client = self.quick(f"http://127.0.0.1:{taken.getsockname()[1]}")
            with self.assertLogs("umbra_shadow", "WARNING") as logs:
                async with self.sidecar(client=client) as s:
                    self.assertTrue(s.degraded)
                    await self.loop(s)
            self.assertEqual((summary_of(s).degraded, s.outcome), (True, "succeeded"))
            self.assertIn("left alone for 15 s", "".join(logs.output))
            async with self.sidecar(client=self.patient("http://no-such-host.invalid"), deadline=1.0) as s:
                self.assertTrue(s.degraded)

    async def test_hanging_server_is_left_alone_after_three_faults(self) -> None:
        for behave in (Peer.hangs, Peer.trickles):
            async with Peer(behave) as peer, self.soon():
                client = self.quick(peer.url)
                async with self.sidecar(client=client) as s:
                    await self.loop(s)
                    # A server that is known to hang costs no more time: no connection is made to it.
                    self.assertLessEqual(peer.accepted, 3)
                    await asyncio.gather(*(s.turn() for _ in range(20)))
                    self.assertLessEqual(peer.accepted, 3)
                    # After the pause exactly one request tries the server.
                    before = peer.accepted
                    with unittest.mock.patch.object(s._core.health, "_until", 0.0):
                        await asyncio.gather(*(s.search_patterns("x") for _ in range(20)))
                    self.assertLessEqual(peer.accepted - before, 1)

    async def test_plain_function_keeps_to_the_deadline(self) -> None:
        for behave in (Peer.hangs, Peer.trickles):
            async with Peer(behave) as peer:
                async with self.sidecar(client=self.quick(peer.url)) as s:
                    tool = s.guardrails("enforce")(lambda: "ran")
                    async with self.soon():
                        self.assertEqual(await asyncio.to_thread(tool), "ran")

    async def test_unusable_answers_degrade(self) -> None:
        for behave in [
            answers(200, b"not json"),
            answers(200, b"[]"),
            answers(200, b'{"session": 7}'),
            answers(200, b"[" * 100_000),
            answers(500, b"{}"),
            answers(503, b"<html>", "Retry-After: 1\r\n"),
            answers(429, b'{"detail": "too many"}'),
            answers(200, b""),
            answers(200, b'{"turn": "one", "decision": "perhaps", "items": [1], "session": {"id": 1}}'),
        ]:
            async with Peer(behave) as peer:
                async with self.sidecar(client=self.quick(peer.url)) as s:
                    self.assertTrue(s.degraded)
                    turn = await s.turn(planned_calls=[DROP])
                    self.assertEqual((turn.decisions[0].decision, turn.degraded), ("allow", True))
                    self.assertEqual(await asyncio.to_thread(s.guardrails("enforce")(lambda: "ran")), "ran")
        async with Peer(answers(200, json.dumps(ATTACHED).encode())) as peer:
            async with self.sidecar(client=self.quick(peer.url)) as s:
                # Missing rulings count as allowed.
                self.assertEqual((s.id, (await s.turn(planned_calls=[DROP])).decisions[0].decision), ("ses_1", "allow"))
                self.assertFalse((await s.guard(DROP)).blocked)

    async def test_refused_stream_ends(self) -> None:
        async with self.sidecar() as s:
            attached, s.id = s.id, "ses_00000000000000000000000000"
            self.assertEqual([said async for said in self.stream(s)], [])
            s.id, s._lost = attached, None

    async def test_strict_session_raises_unavailable(self) -> None:
        async with Peer(Peer.hangs) as peer:
            with self.assertRaises(Unavailable):
                async with self.sidecar(client=self.quick(peer.url), strict=True):
                    self.fail("it began")

    async def test_session_goes_on_after_an_outage(self) -> None:
        async with Peer(Peer.passes_on) as between:
            client = self.patient(between.url)

            async def look() -> None:
                between.behave = Peer.hangs
                between.cut()
                s.deadline = 0.2

            async with self.sidecar(client=client, documents={"todo": TODO}) as s:
                self.assertEqual((await s.guard(DROP)).decision, "block")
                todo = await s.document("todo")
                between.behave = Peer.hangs
                between.cut()
                s.deadline = 0.2
                held = await s.turn(route="edit", planned_calls=[DROP])
                self.assertTrue(held.degraded)
                await todo.edit({"op": "append_text", "text": "x"})
                self.assertEqual((todo.text, todo.degraded), (TODO, True))
                between.behave = Peer.passes_on
                s.deadline = PATIENT
                self.assertEqual((await s.guard(DROP)).decision, "block")
                # The report of this call is lost as well.
                await s.guardrails("warn")(look)()
                between.behave = Peer.passes_on
                s.deadline = PATIENT
                # The server learns of the route with the next step.
                self.assertEqual((await s.turn(planned_calls=[EDIT])).decisions[0].rule, "plan-first")
                self.assertTrue((await todo.edit({"op": "append_text", "text": "x"})).stored)
            self.assertFalse(summary_of(s).degraded)

    async def test_long_call_without_an_answer_is_blocked(self) -> None:
        async def resets(self: Any, reader: Any, writer: Any) -> Any:
            await reader.read(65_536)

        long, ran = "x" * 300_000, []
        async with Peer(Peer.passes_on) as between:
            client = self.patient(between.url)
            async with self.sidecar(client=client) as s:

                @s.guardrails("enforce", server="files")
                async def edit_file(path: Any, text: Any) -> Any:
                    ran.append(path)

                @s.guardrails("enforce", server="files", name="edit_file")
                def edit_now(path: Any, text: Any) -> Any:
                    ran.append(path)

                @s.guardrails("enforce", server="db")
                async def drop_table(table: Any) -> Any:
                    ran.append(table)

                faults = [answers(status, b"{}") for status in (200, 204, 302, 413, 429, 503)]
                for behave in (Peer.hangs, resets, answers(200, b'{"decision": "perhaps"}'), *faults):
                    between.behave = behave
                    between.cut()
                    s.deadline = 0.5
                    for run in (edit_file("a", long), asyncio.to_thread(edit_now, "b", long)):
                        with self.assertRaises(Blocked) as blocked:
                            await run
                        self.assertEqual((blocked.exception.reason, ran), ("too_long", []))
                # A proxy that refuses long requests does not lead past the rules either.
                between.behave = answers(403, b"<html>no</html>", "Content-Type: text/html\r\n")
                between.cut()
                s.deadline = PATIENT
                for run in (drop_table("users"), asyncio.to_thread(edit_now, "b", "short")):
                    with self.assertRaises(APIError):
                        await run
                self.assertEqual(ran, [])
                # Long requests do not open the circuit breaker, which would let short calls past the rules.
                between.behave = Peer.passes_on
                between.cut()
                s.deadline = PATIENT
                with self.assertRaises(Blocked) as blocked:
                    await drop_table("users")
                self.assertEqual((blocked.exception.reason, ran), ("policy", []))
                await edit_file("c", long)
                self.assertEqual(ran, ["c"])

    async def test_long_result_sets_its_label_on_a_slow_server(self) -> None:
        pages = {"plain": "x" * 60_000, "odd": "\u2028" * 200_000, "short": "x"}

        async def is_slow_with_what_is_long(self: Any, reader: Any, writer: Any) -> Any:
            """Passes short requests on, and leaves long ones without an answer."""
            host, port = support.URL.rpartition("/")[2].split(":")
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                if length > 55_000:
                    await self.over.wait()
                body = await reader.readexactly(length)
                theirs, ours = await asyncio.open_connection(host, int(port))
                ours.write(head + body)
                answer = await theirs.readuntil(b"\r\n\r\n")
                length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                writer.write(answer + await theirs.readexactly(length))
                ours.close()

        for page in pages:
            for strict in (False, True):
                async with Peer(Peer.passes_on) as between:
                    client = self.patient(between.url)
                    async with self.sidecar(client=client, strict=strict) as s:

                        @s.guardrails("enforce", server="web")
                        async def fetch(url: Any) -> Any:
                            return pages[url]

                        @s.guardrails("enforce", server="web", name="fetch")
                        def fetch_now(url: Any) -> Any:
                            if url == "odd":
                                raise OSError(pages[url])
                            return pages[url]

                        @s.guardrails("enforce", server="mail")
                        async def send_email(to: Any) -> Any:
                            raise AssertionError("it was sent")

                        between.behave = is_slow_with_what_is_long
                        between.cut()
                        s.deadline = 2.0
                        with contextlib.suppress(OSError):
                            await (fetch(page) if strict else asyncio.to_thread(fetch_now, page))
                        s.deadline = PATIENT
                        with self.assertRaises(Blocked, msg=page) as blocked:
                            await send_email("all")
                        self.assertEqual(blocked.exception.reason, "policy")
                        between.behave = Peer.passes_on
                        between.cut()

    async def test_many_calls_and_a_busy_loop_are_judged(self) -> None:
        told = {**ATTACHED, **RULING}
        at_once, ran = answers(200, json.dumps(told).encode()), []

        class Slow:
            """Tests of a document whose server is slow."""

            def __init__(self, writer: Any) -> None:
                self.transport, self.drain, self._writer = writer.transport, writer.drain, writer

            def write(self, data: Any) -> Any:
                asyncio.get_running_loop().call_later(0.2, self._writer.write, data)

        async def slowly(self: Any, reader: Any, writer: Any) -> Any:
            await at_once(self, reader, Slow(writer))

        async def busy() -> None:
            time.sleep(2.0)

        with unittest.mock.patch.object(async_sidecar, "MOST_AT_ONCE", 1):
            async with Peer(slowly) as peer, self.sidecar(client=self.patient(peer.url), deadline=1.0) as s:

                @s.guardrails("enforce", server="db")
                async def drop_table(table: Any) -> Any:
                    ran.append(table)

                for calls in ([drop_table(str(n)) for n in range(10)], [drop_table("users"), busy()]):
                    for one in await asyncio.gather(*calls, return_exceptions=True):
                        self.assertTrue(one is None or isinstance(one, Blocked), one)
                    self.assertEqual(ran, [])

    async def test_session_is_attached_later_after_a_failed_attempt(self) -> None:
        async with Peer(answers(503, b"{}")) as between:
            client = self.patient(between.url)
            async with self.sidecar(client=client, documents={"todo": TODO}) as s:
                self.assertTrue(s.degraded)
                between.behave = Peer.passes_on
                between.cut()
                self.assertFalse((await s.search_patterns("x")).degraded)
                # The text at the beginning is known nevertheless.
                self.assertEqual((await s.document("todo")).text, TODO)
                # Not attached yet: the rules hold nevertheless, and a warning reports the missing session.
                held = await s.guard(DROP)
                self.assertEqual((held.decision, held.degraded), ("block", True))
                s._attach_after = 0.0
                self.assertEqual((await s.turn()).turn, 1)
                self.assertEqual(((await s.document("todo")).text, s.degraded), (TODO, False))
            self.assertEqual(session_of(s).turns, 1)

    async def test_ended_session_degrades_and_rules_still_hold(self) -> None:
        async with self.sidecar(tools=TOOLS) as s:
            async with self.client.sidecar(id=s.id) as other:
                await other.close()
            todo = await s.document("todo")
            self.assertFalse((await todo.put("x")).stored)
            turn = await s.turn(planned_calls=[DROP])
            self.assertTrue(turn.degraded and "closed" in turn.warnings[0], turn.warnings)
            held = await s.guard(DROP)
            self.assertEqual((held.decision, held.degraded), ("block", True))
            ran = s.guardrails("enforce", server="db", name="drop_table")(lambda: "ran")
            self.assertRaises(Blocked, ran)
            # Labels and documents of the session are out of reach: no call runs under its rules.
            with self.assertRaises(Blocked) as over:
                s.guardrails("enforce", name="harmless")(lambda: "ran")()
            self.assertEqual((over.exception.reason, "closed" in over.exception.detail), ("session_over", True))
            self.assertEqual(s.guardrails("warn", name="harmless")(lambda: "ran")(), "ran")
            self.assertEqual(str((await s.select("edit a file")).ranked[0].tool), "files.edit_file")
            self.assertTrue(s.degraded)

    async def test_wrong_use_raises_api_error(self) -> None:
        with self.assertRaises(APIError) as refused:
            async with self.sidecar(objectives=["no such objective"]):
                self.fail("it began")
        self.assertEqual((refused.exception.status, refused.exception.errors[0]["pointer"]), (400, "/objectives/0"))
        async with self.sidecar() as s:
            with self.assertRaises(APIError):
                await s.message(role="nobody")  # type: ignore[arg-type]
            # A refused step moves the session nowhere.
            with self.assertRaises(APIError):
                await s.turn(route="x" * 300)
            self.assertEqual(((await s.guard(DROP)).degraded, s.route), (False, None))
            # A report that is too large is no fault of the program, but of a tool's result.
            large = await s.message("x" * 4_000_000)
            self.assertTrue(large.degraded and "413" in large.warnings[0], large.warnings)
            self.assertEqual((await s.turn("half a character: \ud800")).degraded, False)

            @s.guardrails("enforce")
            def long() -> list[str]:
                return ["é" * 100_000]

            self.assertEqual(len(long()[0]), 100_000)
        self.assertEqual(session_of(s).messages, 1)
        for wrong in [{"modes": "careful"}, {"objectives": "guardrail"}]:
            with self.assertRaises(TypeError):
                self.sidecar(**wrong)
        with self.assertRaises(ValueError):
            self.sidecar(deadline=0)

    async def test_cancelled_request_ends_at_once(self) -> None:
        async with Peer(Peer.hangs) as peer:
            client = self.patient(peer.url)

            async def agent() -> Any:
                async with self.sidecar(client=client):
                    self.fail("it began")

            task = asyncio.ensure_future(agent())
            while not peer.accepted:
                await asyncio.sleep(0)
            task.cancel()
            async with self.soon():
                with self.assertRaises(asyncio.CancelledError):
                    await task
        async with Peer(Peer.passes_on) as between:
            started = asyncio.Event()

            async def at_work(s: AsyncSidecar) -> Any:
                @s.guardrails("enforce")
                async def wait_for_ever() -> Any:
                    started.set()
                    await asyncio.Event().wait()

                await wait_for_ever()

            async with self.sidecar(client=self.patient(between.url)) as s:
                task = asyncio.ensure_future(at_work(s))
                await started.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertFalse((await s.turn()).degraded)

    async def test_late_answer_is_dropped(self) -> None:
        """Drops an answer that arrives after its request was given up."""
        held = asyncio.Event()
        calls: list[None] = []

        async def late_once(self: Any, reader: Any, writer: Any) -> Any:
            behave = answers(200, json.dumps({**RULING, "rule": f"of {len(calls) + 1}"}).encode())
            calls.append(None)
            if len(calls) == 1:
                await held.wait()
            await behave(self, reader, writer)

        async with Peer(late_once) as peer, self.sidecar(client=self.patient(peer.url), deadline=0.2) as s:
            self.assertTrue(s.degraded)
            held.set()
            s.deadline = PATIENT
            for _ in range(2):
                self.assertEqual((await s.guard(DROP)).rule, "of 2")


class Own(Case):
    """Tests that lock or kill a server of their own."""

    async def test_wrong_key_raises_and_killed_server_degrades(self) -> None:
        create = ("keys", "create", "--name", "t", "--scope", "ingest", "--agent", f"{self.agent}*", "--json")
        server = await asyncio.to_thread(Server, create)
        self.addCleanup(server.end, signal.SIGKILL)
        key = json.loads(server.said[0])["key"]
        for wrong, agent, status in [(None, self.agent, 401), ("umbra_sk_no", self.agent, 401), (key, "another", 403)]:
            with self.assertRaises(APIError) as refused:
                async with self.sidecar(agent=agent, client=AsyncUmbra(server.url, wrong, decision_timeout=PATIENT)):
                    self.fail("it began")
            self.assertEqual(refused.exception.status, status)
            self.assertIn("key", str(refused.exception))
        client = AsyncUmbra(server.url, key, decision_timeout=PATIENT)
        async with self.sidecar(client=client, documents={"todo": TODO}, tools=TOOLS) as s:
            self.assertEqual((await s.turn(planned_calls=[DROP])).decisions[0].decision, "block")
            server.process.kill()
            await asyncio.to_thread(server.process.wait)
            s.deadline = 0.5
            await Away.loop(self, s)
        self.assertTrue(summary_of(s).degraded)

    stream = Away.stream

    async def test_unreported_end_is_reported_with_the_next_session(self) -> None:
        server = await asyncio.to_thread(Server)
        self.addCleanup(server.end, signal.SIGKILL)
        client = self.patient(server.url)
        async with self.sidecar(client=client, task="fix the date bug", tools=TOOLS) as s:
            await s.message(tool_calls=[SEARCH], results=[{"tool": SEARCH["tool"], "content": "found"}])
            server.process.kill()
            await asyncio.to_thread(server.process.wait)
        self.assertTrue(summary_of(s).degraded)
        await asyncio.to_thread(server.start, server.url)
        async with self.sidecar(client=client, task="fix the date bug") as next:
            self.assertTrue((await next.search_patterns("fix the date bug")).items)
        self.assertFalse(summary_of(next).degraded)


if __name__ == "__main__":
    unittest.main()
