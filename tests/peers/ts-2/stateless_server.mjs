// `createMcpHandler` of the TypeScript SDK 2.x on Node, for both eras, that a test can steer:
//
//     node stateless_server.mjs --port 0 [--modern-only]
//
// The tools, lines and orders are those of ../python/stateless_server.py.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// The SDK is installed outside the tree; the test says where.
const require = createRequire(`${process.env.PEERS_NODE}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/${name}`)));
const { Server, InMemoryServerEventBus, createMcpHandler } = await load("server");
const { toNodeHandler } = await load("node");

const tell = (event, what = {}) => console.log(JSON.stringify({ event, ...what }));
const flags = process.argv.slice(2);

const gates = new Map();
const gate = (label) => {
  if (!gates.has(label)) {
    let open;
    gates.set(label, { opened: new Promise((resolve) => (open = resolve)), open: () => open() });
  }
  return gates.get(label);
};
const text = (value, isError = false) => ({ content: [{ type: "text", text: value }], isError });

const tools = {
  async count({ steps, hold_at, label = "" }, { signal, notify, _meta }) {
    tell("execution", { label });
    signal.addEventListener("abort", () => tell("cancelled", { label }));
    for (let step = 1; step <= steps; step++) {
      const progressToken = _meta?.progressToken;
      const params = { progressToken, progress: step, total: steps, message: `step ${step}` };
      if (progressToken !== undefined) await notify({ method: "notifications/progress", params });
      if (step === hold_at) await gate(label).opened;
    }
    return text(`counted to ${steps}`);
  },
  async route({ region, text: said }) {
    return text(`${said} in ${region}`);
  },
  async fail() {
    return text("as it should", true);
  },
};
const string = { type: "string" };
const schemas = {
  count: { properties: { steps: { type: "integer" }, hold_at: { type: "integer" }, label: string } },
  route: { properties: { region: { ...string, "x-mcp-header": "Region" }, text: string } },
  fail: {},
};
const listed = Object.keys(tools).map((name) => ({ name, inputSchema: { type: "object", ...schemas[name] } }));

class Bus extends InMemoryServerEventBus {
  subscribe(listener) {
    const unsubscribe = super.subscribe(listener);
    tell("listening");
    return () => {
      tell("unlistened");
      unsubscribe();
    };
  }
}

function build() {
  const capabilities = { tools: { listChanged: true } };
  const server = new Server({ name: "peer", version: "1" }, { capabilities });
  server.setRequestHandler("tools/list", () => ({ tools: listed }));
  server.setRequestHandler("tools/call", ({ params }, context) =>
    tools[params.name](params.arguments ?? {}, context.mcpReq),
  );
  return server;
}

const bus = new Bus();
const onerror = (error) => tell("trouble", { message: String(error) });
const legacy = flags.includes("--modern-only") ? "reject" : "stateless";
const handle = toNodeHandler(createMcpHandler(build, { bus, legacy, onerror }));

const http = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : undefined;
  if (body) tell("received", { method: body.method ?? "response" });
  await handle(request, response, body);
});
http.listen(Number(flags[flags.indexOf("--port") + 1]), "127.0.0.1", () =>
  tell("ready", { port: http.address().port }),
);

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  if (order.do === "release") gate(order.label ?? "").open();
  if (order.do === "change") bus.publish({ kind: "tools_list_changed" });
}
