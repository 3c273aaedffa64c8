"""What the official conformance suite asks a server to have since 2026-07-28, for `mcp` 2.3.

There, a server that needs something of its client answers with what it needs and a state, and is asked again
with both. The suite prescribes the names; the state is sealed by the SDK.
"""

from __future__ import annotations

from typing import Annotated, Any

from fixtures import text
from mcp import types
from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity
from mcp.server.mcpserver.prompts.base import Prompt
from mcp.shared.exceptions import MCPError
from pydantic import Field

Answer = str | types.InputRequiredResult
Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]


def state_security() -> RequestStateSecurity:
    """A fixed key, so that a second server with the same fixtures takes the states of the first."""
    return RequestStateSecurity(keys=[b"a key that only tests know, and long enough"])


def ask_user(field: str, kind: str = "string") -> types.ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    params = types.ElicitRequestFormParams(message=f"Please give: {field}", requestedSchema=schema)
    return types.ElicitRequest(params=params)


def ask_model(prompt: str) -> types.CreateMessageRequest:
    messages = [types.SamplingMessage(role="user", content=text(prompt))]
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=messages, maxTokens=50)
    )


def need(state: str | None = None, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(inputRequests=requests, requestState=state)


def given(ctx: Context, name: str) -> Any:
    """The answer to the request of this name, or None."""
    return (ctx.input_responses or {}).get(name)


def given_field(ctx: Context, name: str, field: str) -> Any:
    """What the user gave for it, or None if the user gave nothing that could be used."""
    answer = given(ctx, name)
    is_given = isinstance(answer, types.ElicitResult) and answer.content
    return answer.content.get(field) if is_given else None


def add_fixtures_2026(server: MCPServer) -> None:
    _add_one_round(server)
    _add_rounds(server)
    _add_capabilities_and_headers(server)
    _add_changes(server)


def _add_one_round(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    async def test_input_required_result_elicitation(ctx: Context) -> Answer:
        """Needs a name."""
        name = given_field(ctx, "user_name", "name")
        return f"Hello, {name}!" if name else need(user_name=ask_user("name"))

    @server.tool(structured_output=False)
    async def test_input_required_result_sampling(ctx: Context) -> Answer:
        """Needs the client's model."""
        answer = given(ctx, "capital_question")
        if answer is None:
            return need(capital_question=ask_model("What is the capital of France?"))
        return f"The model said: {answer.content.text}"

    @server.tool(structured_output=False)
    async def test_input_required_result_list_roots(ctx: Context) -> Answer:
        """Needs the client's roots."""
        answer = given(ctx, "client_roots")
        if answer is None:
            return need(client_roots=types.ListRootsRequest())
        return f"{len(answer.roots)} roots"

    @server.tool(structured_output=False)
    async def test_streaming_elicitation(ctx: Context) -> Answer:
        """Needs a confirmation, and must not ask for it by a request of its own."""
        return need(confirm=ask_user("ok", "boolean"))

    @server.prompt()
    async def test_input_required_result_prompt(ctx: Context) -> Any:
        """A text that needs a context."""
        context = given_field(ctx, "user_context", "context")
        if context is None:
            return need(user_context=ask_user("context"))
        return [{"role": "user", "content": text(f"Use this context: {context}")}]


def _add_rounds(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    async def test_input_required_result_request_state(ctx: Context) -> Answer:
        """Needs a confirmation and its state back."""
        if given(ctx, "confirm") and ctx.request_state == "nonce":
            return "state-ok"
        return need("nonce", confirm=ask_user("ok", "boolean"))

    @server.tool(structured_output=False)
    async def test_input_required_result_tampered_state(ctx: Context) -> Answer:
        """Needs its state back as it was."""
        return "state-ok" if ctx.request_state else need("nonce", confirm=ask_user("ok", "boolean"))

    @server.tool(structured_output=False)
    async def test_input_required_result_multiple_inputs(ctx: Context) -> Answer:
        """Needs three things at once."""
        requests = {
            "user_name": ask_user("name"),
            "greeting": ask_model("Greet"),
            "client_roots": types.ListRootsRequest(),
        }
        has_all = all(given(ctx, name) for name in requests)
        return "all there" if has_all else need("nonce", **requests)

    @server.tool(structured_output=False)
    async def test_input_required_result_multi_round(ctx: Context) -> Answer:
        """Needs a name, then a color; the state carries the name."""
        if name := given_field(ctx, "step1", "name"):
            return need(f"name:{name}", step2=ask_user("color"))
        if color := given_field(ctx, "step2", "color"):
            return f"{(ctx.request_state or '').removeprefix('name:')} likes {color}"
        return need("begun", step1=ask_user("name"))


def _add_capabilities_and_headers(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    async def test_input_required_result_capabilities(ctx: Context) -> types.InputRequiredResult:
        """Needs only what the client can give."""
        able = ctx.client_capabilities
        requests: dict[str, Any] = {}
        if able is None or able.sampling:
            requests["sample"] = ask_model("Say hello")
        if able is None or able.elicitation:
            requests["ask"] = ask_user("name")
        return need("nonce", **requests)

    @server.tool(structured_output=False)
    async def test_missing_capability(ctx: Context) -> str:
        """Refuses a client that has no model."""
        able = ctx.session.client_capabilities
        if able is None or able.sampling is None:
            raise MCPError(
                code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                message="sampling is needed",
                data={"requiredCapabilities": {"sampling": {}}},
            )
        return "able"

    @server.tool(structured_output=False)
    async def test_logging_tool(ctx: Context) -> str:
        """Logs, which nobody may see who did not ask for it."""
        await ctx.info("a log line")
        return "logged"

    @server.tool(structured_output=False)
    def test_x_mcp_header(region: Region = "") -> str:
        """Has an argument that a header repeats."""
        return f"region={region}"


def _add_changes(server: MCPServer) -> None:
    def passing() -> str:
        """Comes and goes."""
        return "passing"

    @server.tool(structured_output=False)
    async def test_trigger_tool_change(ctx: Context) -> str:
        """Changes which tools there are."""
        server.add_tool(passing, name="passing_tool")
        server.remove_tool("passing_tool")
        await ctx.notify_tools_changed()
        return "changed"

    @server.tool(structured_output=False)
    async def test_trigger_prompt_change(ctx: Context) -> str:
        """Changes which prompts there are."""
        server.add_prompt(Prompt.from_function(passing, name="passing_prompt"))
        server.remove_prompt("passing_prompt")
        await ctx.notify_prompts_changed()
        return "changed"
