// The same as page.mjs with the TypeScript SDK 2.x, which asks for the stateless revision first; it has
// `connect` in the place of `initialize`, and `leave` lets go of a call.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const tell = (event, what = {}) => console.log(JSON.stringify({ event, ...what }));

const client = new Client({ name: "page", version: "1" }, { versionNegotiation: { mode: "auto" } });
const transport = new StreamableHTTPClientTransport(new URL(location.search.slice(1)));
const calls = new Map();

window.orders = {
  async connect() {
    await client.connect(transport);
    tell("connected", { revision: client.getNegotiatedProtocolVersion() });
  },
  async call({ call, tool, arguments: given }) {
    const leaving = new AbortController();
    calls.set(call, leaving);
    const onprogress = ({ progress }) => tell("progress", { call, progress });
    const options = { onprogress, signal: leaving.signal };
    const result = await client.callTool({ name: tool, arguments: given }, options);
    tell("result", { call, text: result.content[0].text });
  },
  async leave({ call }) {
    calls.get(call).abort("enough");
  },
};
tell("ready");
