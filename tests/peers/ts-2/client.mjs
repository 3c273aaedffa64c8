// An MCP client made with the official TypeScript SDK 2.x that a test can steer: node client.mjs URL

import { pathToFileURL } from "node:url";

import { act, answering, capabilities, tell } from "../ts/acting.mjs";

// The SDK is installed outside the tree; the test says where.
const sdk = `${process.env.PEERS_NODE_2}/node_modules/@modelcontextprotocol`;
const { Client, StreamableHTTPClientTransport } = await import(pathToFileURL(`${sdk}/client/dist/index.mjs`));

const asker = (context) => ({
  signal: context.mcpReq.signal,
  work: (progress) => {
    const params = { progressToken: context.mcpReq._meta.progressToken, progress };
    return context.mcpReq.notify({ method: "notifications/progress", params });
  },
});

await act((url) => {
  const client = new Client({ name: "peer", version: "1" }, { capabilities });
  client.setNotificationHandler("notifications/message", ({ params }) => tell("log", params));
  for (const [method, answer] of Object.entries(answering)) {
    client.setRequestHandler(method, (request, context) => answer(asker(context)));
  }
  client.onerror = (error) => tell("trouble", { message: String(error) });
  return {
    client,
    transport: new StreamableHTTPClientTransport(new URL(url)),
    callTool: (params, options) => client.callTool(params, options),
  };
});
