"""Tests the MCP proxy with the official MCP client, for mcp.sh.

Usage: mcp_client.py shadow|live UMBRA SETTINGS BASE_URL FOLDER. Prints a line for each connection; exits with 1 at the
first failed check.
"""

import asyncio
import os
import sys
from urllib.parse import urlencode

from mcp import Client, StdioServerParameters

execution, umbra, settings, base, folder = sys.argv[1:]
shadow = execution == "shadow"
task = "read the text of a file"


def stdio(profile, *options):
    args = ["--config", settings, "mcp", "--profile", profile, *options]
    return StdioServerParameters(command=umbra, args=args, env={**os.environ})


def text(result):
    return "".join(block.text for block in result.content if block.type == "text")


async def files(client, prefix, name):
    """Reads an existing file, and writes a new one."""
    listed = await client.list_tools()
    names = [tool.name for tool in listed.tools]
    assert names == sorted(names) and prefix + "write_file" in names, names
    read = await client.call_tool(prefix + "read_text_file", {"path": folder + "/a.txt"})
    assert not read.is_error and "what was there" in text(read), read
    asked = {"path": f"{folder}/{name}.txt", "content": "new"}
    wanted = {"content": f"Successfully wrote to {folder}/{name}.txt"}
    wrote = await client.call_tool(prefix + "write_file", asked, meta={"dev.umbra/stub": wanted} if shadow else None)
    assert not wrote.is_error, wrote
    there = os.path.exists(asked["path"])
    marked = "dev.umbra/shadow" in (wrote.meta or {})
    assert marked == shadow and there == (not shadow), (marked, there, wrote)
    if shadow:
        assert wrote.structured_content == wanted, wrote
        moved = await client.call_tool(
            prefix + "move_file", {"source": folder + "/a.txt", "destination": folder + "/z.txt"}
        )
        assert os.path.exists(folder + "/a.txt"), moved


async def rehearsal(client):
    """Rehearses calls of a server without contracts: the answers come from its pack."""

    async def call(tool, **arguments):
        result = await client.call_tool(tool, {key: value for key, value in arguments.items()})
        return text(result) if not result.is_error else "error: " + text(result)

    new, moved, live = f"{folder}/new.txt", f"{folder}/sub/c.txt", f"{folder}/a.txt"
    tree = await call("directory_tree", path=folder)
    assert '"a.txt"' in tree and '"b.txt"' in tree, tree
    assert await call("write_file", path=new, content="one\ntwo") == f"Successfully wrote to {new}"
    assert await call("read_text_file", path=new) == "one\ntwo"
    assert "[FILE] new.txt" in await call("list_directory", path=folder)
    diff = await call("edit_file", path=new, edits=[{"oldText": "two", "newText": "2"}])
    assert diff.startswith("```diff\n") and "+2" in diff, diff
    await call("edit_file", path=live, edits=[{"oldText": "was", "newText": "is"}])
    assert await call("read_text_file", path=live) == "what is there\n"
    assert await call("move_file", source=new, destination=moved) == f"Successfully moved {new} to {moved}"
    assert await call("read_text_file", path=moved) == "one\n2"
    assert (await call("read_text_file", path=new)).startswith("error: ENOENT")
    await call("create_directory", path=f"{folder}/made")
    assert "[DIR] made" in await call("list_directory", path=folder)


async def everything(client):
    """Tests tools, progress, resources and prompts of a server that has all of them."""
    echo = await client.call_tool("everything__echo", {"message": "hello"})
    assert not echo.is_error and "hello" in text(echo), echo
    resources = await client.list_resources()
    assert resources.resources, resources
    read = await client.read_resource(str(resources.resources[0].uri))
    assert read.contents, read
    prompts = await client.list_prompts()
    assert all(prompt.name.startswith("everything__") for prompt in prompts.prompts) and prompts.prompts, prompts
    simple = next(prompt.name for prompt in prompts.prompts if not prompt.arguments)
    assert (await client.get_prompt(simple)).messages
    steps = []

    async def progress(done, total, message):
        steps.append(done)

    operation = "everything__trigger-long-running-operation"
    done = await client.call_tool(operation, {"duration": 2, "steps": 2}, progress_callback=progress)
    assert not done.is_error and steps, (done, steps)


async def selected(client, name):
    """Tests the tools that fit the task, and others through search_tools and call_tool."""
    names = [tool.name for tool in (await client.list_tools()).tools]
    assert len(names) == 6 and names[-2:] == ["search_tools", "call_tool"], names
    assert "everything__echo" in names and "files__read_text_file" in names, names
    found = await client.call_tool("search_tools", {"query": "create a directory", "limit": 1})
    assert [tool["name"] for tool in found.structured_content["tools"]] == ["files__create_directory"], found
    made = f"{folder}/{name}"
    asked = {"name": "files__create_directory", "arguments": {"path": made}}
    called = await client.call_tool("call_tool", asked)
    assert os.path.isdir(made) == (not shadow), called


async def main():
    for mode in ["legacy", "auto"]:
        for wire, target in [("stdio", stdio), ("http", lambda profile: f"{base}/mcp/{profile}")]:
            async with Client(target("files"), mode=mode) as client:
                version = client.protocol_version
                assert version == ("2025-11-25" if mode == "legacy" else "2026-07-28"), version
                await files(client, "", f"{mode}-{wire}")
            async with Client(target("both"), mode=mode) as client:
                await files(client, "files__", f"{mode}-{wire}-both")
                await everything(client)
            few = stdio("few", "--task", task) if wire == "stdio" else f"{base}/mcp/few?" + urlencode({"task": task})
            async with Client(few, mode=mode) as client:
                await selected(client, f"{mode}-{wire}-made")
            if shadow:
                # Over HTTP, version 2026-07-28 of the protocol has no session that could be the run.
                bare = stdio("bare") if wire == "stdio" else f"{base}/mcp/bare?run=bare-{mode}"
                async with Client(bare, mode=mode) as client:
                    await rehearsal(client)
            print(f"{execution}: {wire}, {version}: held")


asyncio.run(main())
