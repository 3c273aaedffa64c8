// What every steered client in TypeScript's SDKs shares: telling, the questions it is asked, and obeying orders.
//
// Orders and lines are those of ../python/acting.py, and `withdrawn` when the server takes back a question.

import { createInterface } from "node:readline";

export const tell = (event, what = {}) => console.log(JSON.stringify({ event, ...what }));

export const capabilities = { sampling: {}, elicitation: { form: {} }, roots: {} };

const questions = [];
const standing = new Map(); // answers by kind

// The answer that the test gives to a question of the server; `asker` has its `signal` and can `work(progress)`.
function ask(kind, asker) {
  if (standing.has(kind)) return standing.get(kind);
  return new Promise((answer) => {
    questions.push({ answer, asker });
    const number = questions.length;
    asker.signal.addEventListener("abort", () => tell("withdrawn", { number }));
    tell("asked", { number, kind });
  });
}

// What a client answers, by method; it gets the asker.
export const answering = {
  "sampling/createMessage": async (asker) => {
    const content = { type: "text", text: await ask("sampling", asker) };
    return { role: "assistant", content, model: "test" };
  },
  "elicitation/create": async (asker) => {
    const text = await ask("elicitation", asker);
    return { action: "accept", content: { text, name: text } };
  },
  "roots/list": async (asker) => ({ roots: [{ uri: "file:///root", name: await ask("roots", asker) }] }),
};

// `open(url)` gives a new `{ client, transport, callTool(params, options) }`, not yet connected.
export async function act(open) {
  let url = process.argv[2];
  let session = open(url);
  const calls = new Map();

  const orders = {
    async initialize() {
      const { client, transport } = session;
      await client.connect(transport);
      tell("initialized", { server: client.getServerVersion().name, revision: transport.protocolVersion });
    },
    async list() {
      tell("listed", { tools: (await session.client.listTools()).tools.map((tool) => tool.name).sort() });
    },
    async call({ call, tool, arguments: given }) {
      const onprogress = ({ progress, total, message }) => tell("progress", { call, progress, total, message });
      const aborting = new AbortController();
      calls.set(call, aborting);
      const options = { onprogress, signal: aborting.signal };
      const result = await session.callTool({ name: tool, arguments: given }, options);
      const text = result.content.map((part) => part.text ?? "").join("\n");
      tell("result", { call, text, failed: result.isError ?? false, meta: result._meta ?? {} });
    },
    async cancel({ call }) {
      calls.get(call).abort("enough");
    },
    async answer({ number, kind, text }) {
      if (kind) standing.set(kind, text);
      else questions[number - 1].answer(text);
    },
    async work({ number, progress }) {
      await questions[number - 1].asker.work(progress);
    },
    async renew({ url: next }) {
      await end();
      url = next ?? url;
      session = open(url);
      questions.length = 0;
      standing.clear();
      tell("ready");
    },
    async close() {
      await end();
      tell("closed");
      process.exit(0);
    },
  };

  async function end() {
    await session.transport.terminateSession?.();
    await session.client.close();
  }

  tell("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    orders[order.do](order).catch((error) =>
      tell("error", { call: order.call, code: error.code, message: error.message, data: error.data }),
    );
  }
}
