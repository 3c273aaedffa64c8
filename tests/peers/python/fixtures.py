"""What the official conformance suite asks a server to have, for `mcp` 1.30 and 2.3.

The suite prescribes the names and the texts; what it leaves open is as short as it can be. Fields have the
names that the wire uses, because both releases take those.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from mcp import types

try:
    from mcp.server.mcpserver import Context, MCPServer
except ModuleNotFoundError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer

PIXEL_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE_WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
STEP_S = 0.05  # the suite asks for this pause between two notifications
RECONNECTING_S = 2.0  # a client comes back before that, on a busy machine too

ALL_OF_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def form(**properties: Any) -> dict[str, Any]:
    """The schema of a form whose fields may all be left out."""
    return {"type": "object", "properties": properties, "required": []}


def titled(**options: str) -> list[dict[str, str]]:
    return [{"const": const, "title": title} for const, title in options.items()]


USER = form(username={"type": "string"}, email={"type": "string"})
DEFAULTS = form(
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
OPTIONS = ["option1", "option2", "option3"]
FIRST_OPTION = titled(value1="First Option", value2="Second Option", value3="Third Option")
FIRST_CHOICE = titled(value1="First Choice", value2="Second Choice", value3="Third Choice")
ENUMS = form(
    untitledSingle={"type": "string", "enum": OPTIONS},
    titledSingle={"type": "string", "oneOf": FIRST_OPTION},
    legacyEnum={
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti={"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    titledMulti={"type": "array", "items": {"anyOf": FIRST_CHOICE}},
)


def text(value: str) -> types.TextContent:
    return types.TextContent(type="text", text=value)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PIXEL_PNG, mimeType="image/png")


def embedded(uri: str, mime_type: str, value: str) -> types.EmbeddedResource:
    resource = types.TextResourceContents(uri=uri, mimeType=mime_type, text=value)
    return types.EmbeddedResource(type="resource", resource=resource)


def add_fixtures(server: MCPServer) -> None:
    """Everything that a revision with sessions is asked for, and that later ones share."""
    _add_contents(server)
    _add_notifying(server)
    _add_asking(server)
    _add_resources(server)
    _add_prompts(server)


def _add_contents(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    def test_simple_text() -> str:
        """Answers with a text."""
        return "This is a simple text response for testing."

    @server.tool(structured_output=False)
    def test_image_content() -> list[types.ImageContent]:
        """Answers with an image."""
        return [image()]

    @server.tool(structured_output=False)
    def test_audio_content() -> list[types.AudioContent]:
        """Answers with a sound."""
        return [types.AudioContent(type="audio", data=SILENCE_WAV, mimeType="audio/wav")]

    @server.tool(structured_output=False)
    def test_embedded_resource() -> list[types.EmbeddedResource]:
        """Answers with a resource."""
        return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]

    @server.tool(structured_output=False)
    def test_multiple_content_types() -> list[Any]:
        """Answers with a text, an image and a resource."""
        resource = embedded(
            "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
        )
        return [text("Multiple content types test:"), image(), resource]

    @server.tool(structured_output=False)
    def test_error_handling() -> str:
        """Fails."""
        raise ValueError("This tool intentionally returns an error for testing")

    @server.tool(structured_output=False)
    def json_schema_2020_12_tool() -> str:
        """Has a schema with every keyword that could get lost."""
        return "unused"

    server._tool_manager._tools["json_schema_2020_12_tool"].parameters = ALL_OF_2020_12


def _add_notifying(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    async def test_tool_with_logging(ctx: Context) -> str:
        """Logs while it works."""
        await ctx.info("Tool execution started")
        await asyncio.sleep(STEP_S)
        await ctx.info("Tool processing data")
        await asyncio.sleep(STEP_S)
        await ctx.info("Tool execution completed")
        return "logged"

    @server.tool(structured_output=False)
    async def test_tool_with_progress(ctx: Context) -> str:
        """Tells its progress while it works."""
        for progress in (0, 50, 100):
            await ctx.report_progress(progress, 100)
            await asyncio.sleep(STEP_S)
        return "done"

    @server.tool(structured_output=False)
    async def test_reconnection(ctx: Context) -> str:
        """Closes its stream, and answers to the client that comes back."""
        await asyncio.sleep(STEP_S)
        await ctx.close_sse_stream()
        await asyncio.sleep(RECONNECTING_S)
        return "reconnected"


def _add_asking(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    async def test_sampling(prompt: str, ctx: Context) -> str:
        """Asks the client's model."""
        messages = [types.SamplingMessage(role="user", content=text(prompt))]
        answer = await ctx.session.create_message(messages, max_tokens=100, related_request_id=ctx.request_id)
        return f"LLM response: {answer.content.text}"

    async def elicit(ctx: Context, message: str, schema: dict[str, Any]) -> str:
        answer = await ctx.session.elicit_form(message, schema, ctx.request_id)
        return f"action={answer.action}, content={json.dumps(answer.content)}"

    @server.tool(structured_output=False)
    async def test_elicitation(message: str, ctx: Context) -> str:
        """Asks the user."""
        return "User response: " + await elicit(ctx, message, USER)

    @server.tool(structured_output=False)
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        """Asks with a default for every kind of field."""
        return "Elicitation completed: " + await elicit(ctx, "Please look through this", DEFAULTS)

    @server.tool(structured_output=False)
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        """Asks with every form that a choice can have."""
        return "Elicitation completed: " + await elicit(ctx, "Please choose", ENUMS)


def _add_resources(server: MCPServer) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """An image."""
        return base64.b64decode(PIXEL_PNG)

    @server.resource("test://watched-resource", mime_type="text/plain")
    def watched() -> str:
        """A text that can be subscribed to."""
        return "watched"

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:
        """A text that is made from its address."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _add_prompts(server: MCPServer) -> None:
    def messages(*contents: Any) -> list[dict[str, Any]]:
        return [{"role": "user", "content": content} for content in contents]

    @server.prompt()
    def test_simple_prompt() -> list[dict[str, Any]]:
        """A text."""
        return messages(text("This is a simple prompt for testing."))

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> list[dict[str, Any]]:
        """A text that is made from arguments."""
        return messages(text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[dict[str, Any]]:
        """A resource and a text."""
        resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
        return messages(resource, text("Please process the embedded resource above."))

    @server.prompt()
    def test_prompt_with_image() -> list[dict[str, Any]]:
        """An image and a text."""
        return messages(image(), text("Please analyze the image above."))

    @server.completion()
    async def complete(ref: object, argument: object, context: object) -> types.Completion:
        return types.Completion(values=["test"])
