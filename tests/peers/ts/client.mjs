// An MCP client made with the official TypeScript SDK 1.x that a test can steer: node client.mjs URL
//
// A URL that ends in `/sse` is spoken to by HTTP+SSE of 2024-11-05.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

import { act, answering, capabilities, tell } from "./acting.mjs";

// The SDK is installed outside the tree; the test says where.
const require = createRequire(`${process.env.PEERS_NODE}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { SSEClientTransport } = await load("client/sse.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const types = await load("types.js");

const asked = {
  "sampling/createMessage": types.CreateMessageRequestSchema,
  "elicitation/create": types.ElicitRequestSchema,
  "roots/list": types.ListRootsRequestSchema,
};
const asker = (extra) => ({
  signal: extra.signal,
  work: (progress) => {
    const params = { progressToken: extra._meta.progressToken, progress };
    return extra.sendNotification({ method: "notifications/progress", params });
  },
});

await act((url) => {
  const client = new Client({ name: "peer", version: "1" }, { capabilities });
  client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => tell("log", params));
  for (const [method, answer] of Object.entries(answering)) {
    client.setRequestHandler(asked[method], (request, extra) => answer(asker(extra)));
  }
  client.onerror = (error) => tell("trouble", { message: String(error) });
  return {
    client,
    transport: new (url.endsWith("/sse") ? SSEClientTransport : StreamableHTTPClientTransport)(new URL(url)),
    callTool: (params, options) => client.callTool(params, undefined, options),
  };
});
