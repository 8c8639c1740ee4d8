"""Tests of the fake sidecar, which users' tests have in place of a server."""

import asyncio
import inspect
import unittest
from typing import Any

from support import DROP, EDIT, TODO, TOOLS, Case, session_of, setUpModule, summary_of

from umbra_shadow import APIError, AsyncFakeSidecar, AsyncSidecar, Blocked, Conflict, NotUpdated, models

__all__ = ["setUpModule"]


class Fake(Case):
    def mail_is_off(self, at: Any) -> Any:
        return ("block", "mail is off") if at.calls("send_*") else None

    async def test_fake_has_the_methods_of_the_sidecar(self) -> None:
        names = [name for name in vars(AsyncSidecar) if not name.startswith("_")]
        self.assertGreater(len(names), 10)
        for name in [*names, "__aenter__", "__aexit__"]:
            real, fake = getattr(AsyncSidecar, name), getattr(AsyncFakeSidecar, name)
            self.assertEqual(callable(real), callable(fake), name)
            if callable(real):
                self.assertEqual(inspect.signature(real), inspect.signature(fake), name)
        self.assertIn("calls under guardrails", inspect.getdoc(AsyncFakeSidecar.interventions) or "")
        known, faked = (inspect.signature(kind.__init__).parameters for kind in (AsyncSidecar, AsyncFakeSidecar))
        self.assertEqual(set(faked) - set(known), {"rules"})
        self.assertEqual({name: faked[name] for name in known}, dict(known))

    async def test_names_are_equated_as_the_server_does(self) -> None:
        spellings = [
            *("db.drop_table", "mcp__db__drop_table", "db__drop_table", "db_drop_table", "db/dropTable", "dbDropTable"),
            *("mcp_db_drop_table", "DB.Drop-Table", "drop_table", "dropTable", "other.drop_table", "db.drop_tables"),
            *(
                "mcp__gateway__db__drop_table",
                "drop",
                "db",
                "xdb.drop_table",
                "table_drop",
                "db.drop_table ",
                "dr\u200bop",
            ),
        ]
        tools = [{"server": "db", "name": name} for name in spellings]

        def no_drop(at: Any) -> Any:
            return ("block", "tables stay") if at.calls("db.drop_table") else None

        for shown in (TOOLS, []):
            async with self.sidecar(tools=shown) as real, AsyncFakeSidecar(tools=shown, rules=[no_drop]) as fake:
                for tool in [*spellings, *tools]:
                    decisions: list[object] = []
                    for s in (real, fake):
                        try:
                            decisions.append((await s.guard({"tool": tool})).decision)
                        except APIError as refused:
                            decisions.append(refused.status)
                    self.assertEqual(decisions[0], decisions[1], tool)

    async def test_misspelt_steps_members_and_verdicts_are_told(self) -> None:
        async with AsyncFakeSidecar(rules=[lambda at: ("block",)]) as s:  # type: ignore[list-item, return-value]
            with self.assertRaisesRegex(ValueError, "no step 'trun' of a session: turn is meant"):
                s.script("trun", decision="block")  # type: ignore[arg-type]
            with self.assertRaisesRegex(ValueError, "no step 'mesage' of a session: message is meant"):
                s.asked("mesage")  # type: ignore[arg-type]
            with self.assertRaisesRegex(ValueError, "no member 'directves' of the .* turn: directives is meant"):
                s.script("turn", decision="block", directves=["Stop."])
            with self.assertRaisesRegex(ValueError, "no member 'xyz' of .*; the members are .*needs_approval"):
                s.script("guard", xyz=True)
            with self.assertRaisesRegex(TypeError, "returns allow, warn or block"):
                await s.turn("go")

    async def test_any_session_is_resumed(self) -> None:
        async with AsyncFakeSidecar(id="ses_of_another_program", close=False) as s:
            self.assertEqual((s.id, s.degraded, (await s.turn("go on")).turn), ("ses_of_another_program", False, 1))
        self.assertEqual(s.asked("close"), [])

    async def test_wrong_requests_are_refused_as_the_server_does(self) -> None:
        wrong: list[dict[str, Any]] = [
            {"arguments": {}},
            {"tool": ""},
            {"type": "function", "function": {"arguments": "{}"}},
        ]
        async with AsyncFakeSidecar() as s:
            for call in wrong:
                for ask in (s.guard(call), s.turn(planned_calls=[call]), s.message(tool_calls=[call])):
                    with self.assertRaisesRegex(ValueError, "a call needs its tool"):
                        await ask
            with self.assertRaisesRegex(ValueError, "a result needs its tool"):
                await s.message(results=[{"content": "x"}])
        with self.assertRaises(APIError) as refused:
            async with AsyncFakeSidecar(objectives=["nothing"]):  # type: ignore[list-item]
                self.fail("it began")
        self.assertEqual((refused.exception.status, refused.exception.errors[0]["pointer"]), (400, "/objectives/0"))

        def wrong_rule(at: Any) -> Any:
            return "deny"

        async with AsyncFakeSidecar(rules=[wrong_rule]) as s:
            with self.assertRaisesRegex(TypeError, "the rule wrong_rule returns allow, warn or block"):
                await s.guard(DROP)

    async def test_agent_loop_is_tested_without_a_server(self) -> None:
        def plan_first(at: Any) -> Any:
            if at.subject in ("turn", "call") and at.route == "edit" and not at.updated("todo", "Plan"):
                return models.DocumentDue(
                    document="todo",
                    section="Plan",
                    rule="plan_first",
                    needs="updated",
                    verdict="block",
                    reason="plan first",
                )

        def web_taints(at: Any) -> Any:
            return {"taints": ["untrusted"]} if at.calls("web.*") else None

        def no_mail_after_web(at: Any) -> Any:
            return ("block", "the web was read") if at.calls("send_*") and "untrusted" in at.taints else None

        async def agent(session: AsyncFakeSidecar) -> Any:
            async with session as s:

                @s.guardrails("enforce", server="web")
                async def fetch(url: Any) -> Any:
                    return "page"

                @s.guardrails("enforce", server="mail")
                def send_email(to: Any) -> Any:
                    self.fail("it was sent")

                turn = await s.turn("edit a file", route="edit", planned_calls=[EDIT])
                todo = await s.document("todo")
                if turn.blocked:
                    with self.assertRaises(NotUpdated):
                        await s.ensure_updated("todo", section="Plan")
                    await todo.edit(
                        {"op": "append_item", "section": "plan", "text": "edit"},
                        {"op": "set_state", "section": "plan", "item": {"text": "find"}, "state": "done"},
                    )
                    await s.ensure_updated("todo", section="Plan")
                await fetch("x")
                with self.assertRaises(Blocked) as blocked:
                    await asyncio.to_thread(send_email, "a@example.com")
                self.assertEqual(
                    (blocked.exception.rule, blocked.exception.detail), ("no_mail_after_web", "the web was read")
                )
                await s.message("done")
                return turn, todo.text, [str(one.tool) for one in (await s.select("edit a file")).ranked]

        fake = AsyncFakeSidecar(
            task="fix the bug", documents={"todo": TODO}, tools=TOOLS, rules=[plan_first, web_taints, no_mail_after_web]
        )
        turn, todo, ranked = await agent(fake)
        self.assertEqual([due.rule for due in turn.documents_due], ["plan_first"])
        self.assertEqual((turn.decisions[0].rule, turn.decisions[0].blocked), ("plan_first", True))
        self.assertIn("- [x] find the bug\n- [ ] edit\n", todo)
        self.assertEqual(ranked[0], "files.edit_file")
        self.assertEqual([one.step for one in fake.requests][:3], ["attach", "turn", "document"])
        self.assertEqual(fake.asked("message")[-1]["content"], "done")
        self.assertEqual(fake.asked("message")[0]["tool_calls"][0]["arguments"], {"url": "x"})
        self.assertEqual((summary_of(fake).patterns, session_of(fake).state, fake.outcome), (1, "closed", "succeeded"))

    async def test_answers_are_scripted_and_the_fake_goes_away_and_returns(self) -> None:
        async with AsyncFakeSidecar("a", task="rename the column", rules=[self.mail_is_off]) as s:
            s.script("turn", directives=["Stop."], decision="block")
            s.script("turn", directives=["Go."])
            turns = [await s.turn(), await s.turn(), await s.turn()]
            self.assertEqual([one.directives for one in turns], [["Stop."], ["Go."], []])
            self.assertTrue(turns[0].blocked)
            self.assertTrue((await s.record_pattern(tools=["alter_table"])).new)
            self.assertEqual(getattr((await s.record_pattern(tools=["alter_table"])).pattern, "successes", 0), 2)
            self.assertEqual((await s.turn("rename a column")).patterns[0].uses, 2)
            s.is_away = True
            for _ in range(5):
                self.assertTrue((await s.guard({"tool": "send_email"})).degraded)
            s.is_away = False
            self.assertEqual((await s.guard({"tool": "send_email"})).rule, "mail_is_off")
            self.assertEqual((await s.guard(message="hello")).decision, "allow")
        away = AsyncFakeSidecar()
        away.is_away = True
        async with away as s:
            self.assertTrue(s.degraded)
            s.is_away = False
            self.assertEqual(((await s.turn()).turn, s.degraded), (1, False))

    async def test_documents_and_stream_are_like_those_of_the_server(self) -> None:
        async with AsyncFakeSidecar(documents={"todo": TODO}) as s:
            mine, theirs = await s.document("todo"), await s.document("todo.md")
            await theirs.edit({"op": "replace_section", "section": "Plan", "body": "- [ ] one\n- two\n"})
            with self.assertRaises(Conflict):
                await mine.put("x")
            await mine.read()
            self.assertEqual((mine.open_items, [one.text for one in mine.sections[1].items]), (1, ["one", "two"]))
            edits: list[tuple[Any, str]] = [
                ({"op": "add_section", "title": "Risks", "body": "None."}, "## Risks\n\nNone.\n"),
                ({"op": "append_text", "section": "Notes", "text": "More."}, "Nothing yet.\n\nMore.\n"),
                ({"op": "replace_item", "section": "plan", "item": {"index": 1}, "text": "other"}, "- [ ] other\n"),
                ({"op": "remove_item", "section": "plan", "item": {"text": "two"}}, "- [ ] other\n\n## Notes"),
                ({"op": "append_text", "text": "The end."}, "\n\nThe end.\n"),
            ]
            for edit, part in edits:
                self.assertIn(part, str((await mine.edit(edit)).text))
            for wrong in [("nowhere", {"index": 1}), ("plan", {"text": "no such"})]:
                with self.assertRaises(APIError):
                    await mine.edit({"op": "set_state", "section": wrong[0], "item": wrong[1], "state": "done"})
            with self.assertRaisesRegex(NotImplementedError, "lacks the edit set_key of the server"):
                await mine.edit({"op": "set_key", "key": "a", "value": 1})
            async with self.sidecar(documents={"todo": TODO}) as real:
                words = "`apend_item` is not one of the known values.*append_item"
                for todo in (mine, await real.document("todo")):
                    with self.assertRaisesRegex(APIError, words) as refused:
                        await todo.edit({"op": "append_text", "text": "x"}, {"op": "apend_item", "text": "y"})
                    fault = refused.exception
                    self.assertEqual((fault.status, fault.errors[0]["pointer"]), (400, "/edits/1/op"))
            notes = await s.document("notes")
            self.assertEqual((notes.exists, (await notes.put("# N\n")).version), (False, 1))
            said = asyncio.ensure_future(self.all_said(s))
            await s.turn()
            await s.message("x")
            await s.close()
            self.assertEqual(await said, ["turn", "message", "close"])

    async def all_said(self, s: Any) -> Any:
        return [one.event async for one in s.stream(after=0)]


if __name__ == "__main__":
    unittest.main()
