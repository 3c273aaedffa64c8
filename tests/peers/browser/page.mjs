// A page that is a client of the official TypeScript SDK 1.x, for ../python/browser.py to steer.
//
// `window.orders` has `initialize`, `list`, `call` and `close`; what happens is logged as JSON. Its query
// names the server: page.html?http://127.0.0.1:8808/mcp

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const tell = (event, what = {}) => console.log(JSON.stringify({ event, ...what }));

const client = new Client({ name: "page", version: "1" });
const transport = new StreamableHTTPClientTransport(new URL(location.search.slice(1)));
client.onerror = (error) => tell("trouble", { message: String(error) });

window.orders = {
  async initialize() {
    await client.connect(transport);
    tell("initialized", { session: transport.sessionId, revision: transport.protocolVersion });
  },
  async list() {
    tell("listed", { tools: (await client.listTools()).tools.map((tool) => tool.name).sort() });
  },
  async call({ call, tool, arguments: given }) {
    const onprogress = ({ progress }) => tell("progress", { call, progress });
    const result = await client.callTool({ name: tool, arguments: given }, undefined, { onprogress });
    tell("result", { call, text: result.content[0].text, meta: result._meta ?? {} });
  },
  async close() {
    await transport.terminateSession();
    await client.close();
    tell("closed");
  },
};
tell("ready");
