// The TypeScript SDK 2.x client that probes for the stateless revision, for a test to steer:
//
//     node stateless_client.mjs URL
//
// The orders and lines are those of ../python/stateless_client.py.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// The SDK is installed outside the tree; the test says where.
const require = createRequire(`${process.env.PEERS_NODE}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/${name}`)));
const { Client, StreamableHTTPClientTransport } = await load("client");

const tell = (event, what = {}) => console.log(JSON.stringify({ event, ...what }));

let client;
let subscription;
const calls = new Map();

const orders = {
  async connect() {
    client = new Client({ name: "peer", version: "1" }, { versionNegotiation: { mode: "auto" } });
    client.setNotificationHandler("notifications/tools/list_changed", () =>
      tell("changed", { what: "ToolsListChanged" }),
    );
    await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
    tell("connected", { revision: client.getNegotiatedProtocolVersion() });
  },
  async list() {
    tell("listed", { tools: (await client.listTools()).tools.map((tool) => tool.name).sort() });
  },
  async call({ call, tool, arguments: given, quiet }) {
    const leaving = new AbortController();
    calls.set(call, leaving);
    const onprogress = ({ progress, total, message }) => tell("progress", { call, progress, total, message });
    try {
      const options = { onprogress: quiet ? undefined : onprogress, signal: leaving.signal };
      const result = await client.callTool({ name: tool, arguments: given }, options);
      tell("result", { call, text: result.content[0].text, failed: result.isError ?? false });
    } catch (error) {
      if (!leaving.signal.aborted) throw error;
      tell("left", { call });
    }
  },
  async leave({ call }) {
    calls.get(call).abort("enough");
  },
  async listen() {
    subscription = await client.listen({ toolsListChanged: true });
    tell("listening");
    if ((await subscription.closed) === "remote") tell("lost");
  },
  async unlisten() {
    await subscription.close();
    tell("left", { call: "listen" });
  },
  async close() {
    await client.close();
    tell("closed");
    process.exit(0);
  },
};

tell("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  orders[order.do](order).catch((error) =>
    tell("error", { call: order.call ?? order.do, code: error.code, message: error.message }),
  );
}
