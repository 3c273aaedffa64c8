// An MCP client made with the official TypeScript SDK that a test can steer: node client.mjs URL
//
// The same lines as ../python/client.py: orders on stdin (`initialize`, `list`, `call`, `close`), and what
// happens on stdout (`initialized`, `listed`, `progress`, `result`, `error`, `log`).

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// The SDK is installed outside the tree; the test says where.
const require = createRequire(`${process.env.PEERS_NODE}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { LoggingMessageNotificationSchema } = await load("types.js");

const tell = (event, what = {}) => console.log(JSON.stringify({ event, ...what }));

const client = new Client({ name: "peer", version: "1" });
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]));

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
    const result = await client.callTool({ name: tool, arguments: given }, undefined, { onprogress });
    tell("result", { call, text: result.content[0].text, meta: result._meta ?? {} });
  },
  async close() {
    await transport.terminateSession();
    await client.close();
    tell("closed");
    process.exit(0);
  },
};

client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => tell("log", params));
client.onerror = (error) => tell("trouble", { message: String(error) });

tell("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  orders[order.do](order).catch((error) =>
    tell("error", { call: order.call, code: error.code, message: error.message, data: error.data }),
  );
}
