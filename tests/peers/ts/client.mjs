// An MCP client made with the official TypeScript SDK that a test can steer: node client.mjs URL
//
// The same lines as ../python/client.py: orders on stdin (`initialize`, `list`, `call`, `cancel`, `answer`,
// `work`, `close`), and what happens on stdout (`initialized`, `listed`, `progress`, `result`, `error`, `log`,
// `asked`), and `withdrawn` when the server takes back a question. A URL that ends in `/sse` is spoken to by
// HTTP+SSE of 2024-11-05.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// The SDK is installed outside the tree; the test says where.
const require = createRequire(`${process.env.PEERS_NODE}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { SSEClientTransport } = await load("client/sse.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const types = await load("types.js");

const tell = (event, what = {}) => console.log(JSON.stringify({ event, ...what }));

const capabilities = { sampling: {}, elicitation: { form: {} }, roots: {} };
const client = new Client({ name: "peer", version: "1" }, { capabilities });
const Transport = process.argv[2].endsWith("/sse") ? SSEClientTransport : StreamableHTTPClientTransport;
const transport = new Transport(new URL(process.argv[2]));

const questions = [];
const calls = new Map();

// The answer that the test gives to a question of the server.
function ask(kind, extra) {
  return new Promise((answer) => {
    questions.push({ answer, extra });
    const number = questions.length;
    extra.signal.addEventListener("abort", () => tell("withdrawn", { number }));
    tell("asked", { number, kind });
  });
}

const orders = {
  async initialize() {
    await client.connect(transport);
    tell("initialized", { server: client.getServerVersion().name, revision: transport.protocolVersion });
  },
  async list() {
    tell("listed", { tools: (await client.listTools()).tools.map((tool) => tool.name).sort() });
  },
  async call({ call, tool, arguments: given }) {
    const onprogress = ({ progress, total, message }) => tell("progress", { call, progress, total, message });
    const aborting = new AbortController();
    calls.set(call, aborting);
    const options = { onprogress, signal: aborting.signal };
    const result = await client.callTool({ name: tool, arguments: given }, undefined, options);
    tell("result", { call, text: result.content[0].text, meta: result._meta ?? {} });
  },
  async cancel({ call }) {
    calls.get(call).abort("enough");
  },
  async answer({ number, text }) {
    questions[number - 1].answer(text);
  },
  async work({ number, progress }) {
    const { extra } = questions[number - 1];
    const params = { progressToken: extra._meta.progressToken, progress };
    await extra.sendNotification({ method: "notifications/progress", params });
  },
  async close() {
    await transport.terminateSession?.();
    await client.close();
    tell("closed");
    process.exit(0);
  },
};

client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => tell("log", params));
client.setRequestHandler(types.CreateMessageRequestSchema, async (request, extra) => {
  const content = { type: "text", text: await ask("sampling", extra) };
  return { role: "assistant", content, model: "test" };
});
client.setRequestHandler(types.ElicitRequestSchema, async (request, extra) => {
  return { action: "accept", content: { text: await ask("elicitation", extra) } };
});
client.setRequestHandler(types.ListRootsRequestSchema, async (request, extra) => {
  return { roots: [{ uri: "file:///root", name: await ask("roots", extra) }] };
});
client.onerror = (error) => tell("trouble", { message: String(error) });

tell("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  orders[order.do](order).catch((error) =>
    tell("error", { call: order.call, code: error.code, message: error.message, data: error.data }),
  );
}
