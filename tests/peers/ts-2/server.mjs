// An MCP server made with the official TypeScript SDK 2.x, with sessions, that a test can steer:
// node server.mjs --port 0

import { pathToFileURL } from "node:url";

import { listed, serve, tools } from "../ts/serving.mjs";

// The SDK is installed outside the tree; the test says where.
const sdk = `${process.env.PEERS_NODE_2}/node_modules/@modelcontextprotocol`;
const { Server } = await import(pathToFileURL(`${sdk}/server/dist/index.mjs`));
const { NodeStreamableHTTPServerTransport } = await import(pathToFileURL(`${sdk}/node/dist/index.mjs`));

const caller = ({ mcpReq }) => ({
  token: mcpReq._meta?.progressToken,
  signal: mcpReq.signal,
  notify: mcpReq.notify,
  send: (method, params, options) => mcpReq.send({ method, params }, options),
});

await serve(async (options) => {
  const server = new Server({ name: "peer", version: "1" }, { capabilities: { tools: {} } });
  server.setRequestHandler("tools/list", () => ({ tools: listed }));
  server.setRequestHandler("tools/call", ({ params }, context) =>
    tools[params.name](params.arguments, caller(context)),
  );
  const transport = new NodeStreamableHTTPServerTransport(options);
  await server.connect(transport);
  return transport;
});
