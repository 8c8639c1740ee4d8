"""Stories of the adapter for clients of the Model Context Protocol."""

import unittest
from typing import Any

from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult
from stories import EFFECTS, SERVERS, Calls, Context, Stories, Told

from umbra_shadow import Umbra
from umbra_shadow.adapters.mcp import guarded


class MCP(Stories, unittest.IsolatedAsyncioTestCase):
    is_in_process = False
    is_pausing = False
    is_told_tools = True

    def server(self) -> MCPServer:
        server, ran = MCPServer("desk"), self.tools.run

        @server.tool()
        def refund(payment: str, amount: float) -> dict[str, str]:
            return ran("refund", payment=payment, amount=amount)

        @server.tool()
        def lookup(city: str) -> str:
            return ran("lookup", city=city)

        @server.tool()
        def list_refunds() -> dict[str, Any]:
            return ran("list_refunds")

        @server.tool()
        def search_code(query: str) -> dict[str, list[str]]:
            return ran("search_code", query=query)

        @server.tool()
        def edit_file(path: str, text: str) -> str:
            return ran("edit_file", path=path, text=text)

        @server.tool()
        def break_down() -> str:
            try:
                return ran("break_down")
            except RuntimeError as error:
                # Of other exceptions the server tells no client.
                raise ToolError(str(error)) from error

        return server

    async def play(self, umbra: Umbra, calls: Calls, **settings: Any) -> Told:
        results: list[CallToolResult] = []
        async with Client(self.server()) as client:
            session = guarded(client, umbra, **{"effects": EFFECTS, "server": SERVERS, **settings}).session
            self.assertEqual(len((await session.list_tools()).tools), 6)
            for name, arguments in calls:
                meta: Any = {"key": Context().key, "word": Context().word}
                results.append(await session.call_tool(name, arguments, meta=meta))
        self.results = results
        return Told(["\n".join(one.text for one in result.content) for result in results], "done")

    async def test_block(self) -> None:
        """A client that is not open yet is opened by the block of the guarded one."""
        async with guarded(Client(self.server()), self.umbra, effects=EFFECTS, server=SERVERS) as client:
            result = await client.call_tool("lookup", {"city": "Rome"})
            self.assertFalse(result.is_error, result)
        self.assertEqual(self.tools.ran, [("lookup", {"city": "Rome"})])
        with self.assertRaises(RuntimeError):
            await client.list_tools()

    def test_unguardable(self) -> None:
        """What is no session is refused at once."""
        with self.assertRaisesRegex(TypeError, "guarded takes a ClientSession or a Client, not str"):
            guarded("x", self.umbra)

    async def test_forms(self) -> None:
        """Refusals and stubs have the forms that the server's own proxy gives them."""
        calls: Calls = [("refund", {"payment": "p1", "amount": 5000.0}), ("break_down", {})]
        await self.play(self.umbra, calls)
        self.assertEqual([one.is_error for one in self.results], [True, True])
        self.rehearse()
        await self.play(self.umbra, [("refund", {"payment": "p1", "amount": 50.0})])
        (stub,) = self.results
        self.assertEqual((stub.is_error, stub.structured_content["status"]), (False, "refunded"))
        self.assertEqual(stub.meta["dev.umbra/shadow"]["contract"], "shop.refund@1")
