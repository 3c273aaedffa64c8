// The client that the official conformance suite looks at, made with the official TypeScript SDK 1.x:
//
//     node conformance-client.mjs URL
//
// The suite says in its environment which scenario it plays.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The SDK is installed outside the tree; the test says where.
const require = createRequire(`${process.env.PEERS_NODE}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { ElicitRequestSchema } = await load("types.js");

const calls = {
  tools_call: { name: "add_numbers", arguments: { a: 5, b: 3 } },
  "sse-retry": { name: "test_reconnection", arguments: {} },
  "elicitation-sep1034-client-defaults": { name: "test_client_elicitation_defaults", arguments: {} },
};

const capabilities = { elicitation: { form: { applyDefaults: true } } };
const client = new Client({ name: "peer", version: "1" }, { capabilities });
client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: {} }));

await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
if (client.getServerCapabilities().tools) await client.listTools();
const call = calls[process.env.MCP_CONFORMANCE_SCENARIO];
if (call) await client.callTool(call);
await client.close();
