// An MCP server made with the official TypeScript SDK 1.x that a test can steer: node server.mjs --port 0

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

import { listed, serve, tools } from "./serving.mjs";

// The SDK is installed outside the tree; the test says where.
const require = createRequire(`${process.env.PEERS_NODE}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Server } = await load("server/index.js");
const { StreamableHTTPServerTransport } = await load("server/streamableHttp.js");
const types = await load("types.js");

const answers = {
  "sampling/createMessage": types.CreateMessageResultSchema,
  "elicitation/create": types.ElicitResultSchema,
  "roots/list": types.ListRootsResultSchema,
  ping: types.EmptyResultSchema,
};
const caller = (extra) => ({
  token: extra._meta?.progressToken,
  signal: extra.signal,
  notify: extra.sendNotification,
  send: (method, params, options) => extra.sendRequest({ method, params }, answers[method], options),
});

await serve(async (options) => {
  const server = new Server({ name: "peer", version: "1" }, { capabilities: { tools: {} } });
  server.setRequestHandler(types.ListToolsRequestSchema, () => ({ tools: listed }));
  server.setRequestHandler(types.CallToolRequestSchema, ({ params }, extra) =>
    tools[params.name](params.arguments, caller(extra)),
  );
  const transport = new StreamableHTTPServerTransport(options);
  await server.connect(transport);
  return transport;
});
