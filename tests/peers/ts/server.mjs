// An MCP server made with the official TypeScript SDK that a test can steer: node server.mjs --port 0
//
// The same tools and lines as ../python/server.py has with --asking; flags are `--released` and `--destructive`.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// The SDK is installed outside the tree; the test says where.
const require = createRequire(`${process.env.PEERS_NODE}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Server } = await load("server/index.js");
const { StreamableHTTPServerTransport } = await load("server/streamableHttp.js");
const types = await load("types.js");

const tell = (event, what = {}) => console.log(JSON.stringify({ event, ...what }));
const flags = process.argv.slice(2);
const isReleased = flags.includes("--released");

const gates = new Map();
const gate = (label) => {
  if (!gates.has(label)) {
    let open;
    gates.set(label, { opened: new Promise((resolve) => (open = resolve)), open: () => open() });
  }
  return gates.get(label);
};
const waitOpened = (label) => (isReleased ? undefined : gate(label).opened);

const text = (value) => ({ content: [{ type: "text", text: JSON.stringify(value) }] });

const begin = async (extra, label) => {
  const run = randomUUID();
  tell("execution", { run, label });
  extra.signal.addEventListener("abort", () => tell("cancelled", { label }));
  return run;
};
const report = (extra, progress, message) =>
  extra.sendNotification({
    method: "notifications/progress",
    params: { progressToken: extra._meta.progressToken, progress, message },
  });

const sampling = async (extra, label, signal) => {
  const messages = [{ role: "user", content: { type: "text", text: label } }];
  const request = { method: "sampling/createMessage", params: { messages, maxTokens: 10 } };
  const onprogress = ({ progress }) => tell("answer_progress", { label, progress });
  const answer = await extra.sendRequest(request, types.CreateMessageResultSchema, { onprogress, signal });
  return answer.content.text;
};
const questions = {
  sampling,
  async elicitation(extra, label) {
    const requestedSchema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
    const request = { method: "elicitation/create", params: { message: label, requestedSchema } };
    return (await extra.sendRequest(request, types.ElicitResultSchema)).content.text;
  },
  async roots(extra) {
    return (await extra.sendRequest({ method: "roots/list" }, types.ListRootsResultSchema)).roots[0].name;
  },
  async ping(extra) {
    await extra.sendRequest({ method: "ping" }, types.EmptyResultSchema);
    return "pong";
  },
};

const tools = {
  async count({ steps, hold_at, label = "" }, extra) {
    const run = await begin(extra, label);
    let sum = 0;
    for (let step = 1; step <= steps; step++) {
      sum += step;
      await report(extra, step, run);
      if (step === hold_at) await waitOpened(label);
    }
    return text({ run, sum });
  },
  async ask({ kind, label, waits }, extra) {
    const run = await begin(extra, label);
    await report(extra, 0, run);
    if (waits === "before") await waitOpened(label);
    const answer = await questions[kind](extra, label);
    tell("answered", { label, answer });
    if (waits === "after") await waitOpened(label);
    return text({ run, answer });
  },
  async withdraw({ label }, extra) {
    const run = await begin(extra, label);
    await report(extra, 0, run);
    const withdrawing = new AbortController();
    const asking = sampling(extra, label, withdrawing.signal).catch(() => null);
    await waitOpened(label);
    withdrawing.abort("withdrawn");
    return text({ run, answer: await asking });
  },
};
const inputSchema = { type: "object" };
const annotations = flags.includes("--destructive") ? { destructiveHint: true } : undefined;
const listed = Object.keys(tools).map((name) => ({ name, inputSchema, ...(name === "count" && { annotations }) }));

const sessions = new Map();

async function openSession() {
  const server = new Server({ name: "peer", version: "1" }, { capabilities: { tools: {} } });
  server.setRequestHandler(types.ListToolsRequestSchema, () => ({ tools: listed }));
  server.setRequestHandler(types.CallToolRequestSchema, ({ params }, extra) =>
    tools[params.name](params.arguments, extra),
  );
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  await server.connect(transport);
  return transport;
}

async function handle(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : undefined;
  if (body) tell("received", { method: body.method ?? "response" });
  const id = request.headers["mcp-session-id"];
  const transport = id === undefined ? await openSession() : sessions.get(id);
  if (transport === undefined) {
    response.writeHead(404).end();
    return;
  }
  await transport.handleRequest(request, response, body);
}

const http = createServer((request, response) => {
  handle(request, response).catch((error) => {
    tell("trouble", { message: String(error) });
    response.destroy();
  });
});
http.listen(Number(flags[flags.indexOf("--port") + 1]), "127.0.0.1", () =>
  tell("ready", { port: http.address().port }),
);

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  if (order.do === "release") gate(order.label ?? "").open();
}
