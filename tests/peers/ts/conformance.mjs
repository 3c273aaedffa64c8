// The server that the official conformance suite talks to, made with the official TypeScript SDK 1.x.
//
// It tells its port as a JSON line, `ready`, and ends when it is killed. What it has is what
// ../python/fixtures.py has: the suite prescribes the names and the texts.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

// The SDK is installed outside the tree; the test says where.
const require = createRequire(`${process.env.PEERS_NODE}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Server } = await load("server/index.js");
const { StreamableHTTPServerTransport } = await load("server/streamableHttp.js");
const types = await load("types.js");

const PIXEL_PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const SILENCE_WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
const STEP_MS = 50; // the suite asks for this pause between two notifications
const RETRY_MS = 100;
const RECONNECTING_MS = 2000; // a client comes back before that, on a busy machine too

const text = (value) => ({ type: "text", text: value });
const image = { type: "image", data: PIXEL_PNG, mimeType: "image/png" };
const audio = { type: "audio", data: SILENCE_WAV, mimeType: "audio/wav" };
const embedded = (uri, mimeType, value) => ({ type: "resource", resource: { uri, mimeType, text: value } });

const form = (properties) => ({ type: "object", properties, required: [] });
const titled = (options) => Object.entries(options).map(([value, title]) => ({ const: value, title }));
const string = { type: "string" };
const options = ["option1", "option2", "option3"];
const user = form({ username: string, email: string });
const defaults = form({
  name: { type: "string", default: "John Doe" },
  age: { type: "integer", default: 30 },
  score: { type: "number", default: 95.5 },
  status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
  verified: { type: "boolean", default: true },
});
const enums = form({
  untitledSingle: { type: "string", enum: options },
  titledSingle: {
    type: "string",
    oneOf: titled({ value1: "First Option", value2: "Second Option", value3: "Third Option" }),
  },
  legacyEnum: {
    type: "string",
    enum: ["opt1", "opt2", "opt3"],
    enumNames: ["Option One", "Option Two", "Option Three"],
  },
  untitledMulti: { type: "array", items: { type: "string", enum: options } },
  titledMulti: {
    type: "array",
    items: { anyOf: titled({ value1: "First Choice", value2: "Second Choice", value3: "Third Choice" }) },
  },
});

const allOf2020 = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: { $anchor: "addressDef", type: "object", properties: { street: string, city: string } },
  },
  properties: {
    name: string,
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: string,
    email: string,
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
};

const log = (extra, data) =>
  extra.sendNotification({ method: "notifications/message", params: { level: "info", data } });

async function elicit(extra, message, requestedSchema) {
  const request = { method: "elicitation/create", params: { message, requestedSchema } };
  const { action, content } = await extra.sendRequest(request, types.ElicitResultSchema);
  return `action=${action}, content=${JSON.stringify(content)}`;
}

// Each gives its contents: a text, or a list of them.
const tools = {
  test_simple_text: () => "This is a simple text response for testing.",
  test_image_content: () => [image],
  test_audio_content: () => [audio],
  test_embedded_resource: () => [
    embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."),
  ],
  test_multiple_content_types: () => [
    text("Multiple content types test:"),
    image,
    embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
  ],
  json_schema_2020_12_tool: () => "unused",
  test_error_handling() {
    throw new Error("This tool intentionally returns an error for testing");
  },
  async test_tool_with_logging(given, extra) {
    await log(extra, "Tool execution started");
    await pause(STEP_MS);
    await log(extra, "Tool processing data");
    await pause(STEP_MS);
    await log(extra, "Tool execution completed");
    return "logged";
  },
  async test_tool_with_progress(given, extra) {
    const { progressToken } = extra._meta;
    for (const progress of [0, 50, 100]) {
      const params = { progressToken, progress, total: 100 };
      await extra.sendNotification({ method: "notifications/progress", params });
      await pause(STEP_MS);
    }
    return "done";
  },
  async test_reconnection(given, extra) {
    await pause(STEP_MS);
    extra.closeSSEStream?.();
    await pause(RECONNECTING_MS);
    return "reconnected";
  },
  async test_sampling({ prompt }, extra) {
    const messages = [{ role: "user", content: text(prompt) }];
    const request = { method: "sampling/createMessage", params: { messages, maxTokens: 100 } };
    const answer = await extra.sendRequest(request, types.CreateMessageResultSchema);
    return `LLM response: ${answer.content.text}`;
  },
  test_elicitation: async ({ message }, extra) => `User response: ${await elicit(extra, message, user)}`,
  test_elicitation_sep1034_defaults: async (given, extra) =>
    `Elicitation completed: ${await elicit(extra, "Please look through this", defaults)}`,
  test_elicitation_sep1330_enums: async (given, extra) =>
    `Elicitation completed: ${await elicit(extra, "Please choose", enums)}`,
};

const inputSchemas = {
  test_sampling: { type: "object", properties: { prompt: string }, required: ["prompt"] },
  test_elicitation: { type: "object", properties: { message: string }, required: ["message"] },
  json_schema_2020_12_tool: allOf2020,
};

async function callTool({ name, arguments: given }, extra) {
  try {
    const contents = await tools[name](given ?? {}, extra);
    return { content: typeof contents === "string" ? [text(contents)] : contents };
  } catch (error) {
    return { isError: true, content: [text(error.message)] };
  }
}

const resources = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: PIXEL_PNG },
  "test://watched-resource": { mimeType: "text/plain", text: "watched" },
};
const template = { uriTemplate: "test://template/{id}/data", name: "template", mimeType: "application/json" };

function readResource({ uri }) {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  if (id) {
    const made = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
    return { contents: [{ uri, mimeType: template.mimeType, text: made }] };
  }
  return { contents: [{ uri, ...resources[uri] }] };
}

// Each gives the contents of its messages.
const prompts = {
  test_simple_prompt: () => [text("This is a simple prompt for testing.")],
  test_prompt_with_arguments: ({ arg1, arg2 }) => [
    text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`),
  ],
  test_prompt_with_embedded_resource: ({ resourceUri }) => [
    embedded(resourceUri, "text/plain", "Embedded resource content for testing."),
    text("Please process the embedded resource above."),
  ],
  test_prompt_with_image: () => [image, text("Please analyze the image above.")],
};

const promptArguments = {
  test_prompt_with_arguments: ["arg1", "arg2"],
  test_prompt_with_embedded_resource: ["resourceUri"],
};
const listedPrompts = Object.keys(prompts).map((name) => ({
  name,
  description: name,
  arguments: (promptArguments[name] ?? []).map((argument) => ({ name: argument, required: true })),
}));

function getPrompt({ name, arguments: given }) {
  return { messages: prompts[name](given).map((content) => ({ role: "user", content })) };
}

function createFixtures() {
  const capabilities = {
    tools: {},
    resources: { subscribe: true },
    prompts: {},
    logging: {},
    completions: {},
  };
  const server = new Server({ name: "conformance", version: "1" }, { capabilities });
  const answer = (schema, make) => server.setRequestHandler(schema, ({ params }, extra) => make(params, extra));

  const listedTools = Object.keys(tools).map((name) => ({
    name,
    description: name,
    inputSchema: inputSchemas[name] ?? { type: "object" },
  }));
  answer(types.ListToolsRequestSchema, () => ({ tools: listedTools }));
  answer(types.CallToolRequestSchema, callTool);

  const listedResources = Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri, mimeType }));
  answer(types.ListResourcesRequestSchema, () => ({ resources: listedResources }));
  answer(types.ListResourceTemplatesRequestSchema, () => ({ resourceTemplates: [template] }));
  answer(types.ReadResourceRequestSchema, readResource);
  answer(types.SubscribeRequestSchema, () => ({}));
  answer(types.UnsubscribeRequestSchema, () => ({}));

  answer(types.ListPromptsRequestSchema, () => ({ prompts: listedPrompts }));
  answer(types.GetPromptRequestSchema, getPrompt);
  answer(types.CompleteRequestSchema, () => ({ completion: { values: ["test"] } }));
  return server;
}

// Keeps every event of one session. An id names its stream and its place in it.
class SessionEvents {
  streams = new Map();

  async storeEvent(stream, message) {
    if (!this.streams.has(stream)) this.streams.set(stream, []);
    const place = this.streams.get(stream).push(message);
    return `${stream}/${place}`;
  }

  async replayEventsAfter(id, { send }) {
    const [stream, place] = id.split("/");
    const missed = [...this.streams.get(stream)].slice(Number(place));
    for (const [number, message] of missed.entries()) {
      const isPriming = Object.keys(message).length === 0;
      if (!isPriming) await send(`${stream}/${Number(place) + number + 1}`, message);
    }
    return stream;
  }
}

const sessions = new Map();

async function openSession() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
    eventStore: new SessionEvents(),
    retryInterval: RETRY_MS,
    enableDnsRebindingProtection: true,
    allowedHosts: [`127.0.0.1:${http.address().port}`],
  });
  await createFixtures().connect(transport);
  return transport;
}

async function handle(request, response) {
  const id = request.headers["mcp-session-id"];
  const transport = id === undefined ? await openSession() : sessions.get(id);
  if (transport === undefined) {
    const error = { code: -32001, message: "Session not found" };
    response.writeHead(404, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", error, id: null }));
    return;
  }
  await transport.handleRequest(request, response);
}

const http = createServer((request, response) => {
  handle(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  });
});
http.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ event: "ready", port: http.address().port })));
