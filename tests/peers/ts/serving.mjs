// What every steered server in TypeScript's SDKs shares: its tools, its sessions over HTTP, and the test's orders.
//
// Lines and orders are those of ../python/server.py with --asking; flags are `--released`, `--destructive`, and
// `--graceful`: SIGTERM lets what is open end.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

export const tell = (event, what = {}) => console.log(JSON.stringify({ event, ...what }));
const flags = process.argv.slice(2);
const isReleased = flags.includes("--released");

const gates = new Map();
const gate = (label) => {
  if (!gates.has(label)) {
    let open;
    gates.set(label, { opened: new Promise((resolve) => (open = resolve)), open: () => open() });
  }
  return gates.get(label);
};
const waitOpened = (label) => (isReleased ? undefined : gate(label).opened);

const text = (value) => ({ content: [{ type: "text", text: JSON.stringify(value) }] });

const begin = async (caller, label) => {
  const run = randomUUID();
  tell("execution", { run, label });
  caller.signal.addEventListener("abort", () => tell("cancelled", { label }));
  return run;
};
const report = (caller, progress, message) =>
  caller.notify({
    method: "notifications/progress",
    params: { progressToken: caller.token, progress, message },
  });

const sampling = async (caller, label, signal) => {
  const messages = [{ role: "user", content: { type: "text", text: label } }];
  const onprogress = ({ progress }) => tell("answer_progress", { label, progress });
  const params = { messages, maxTokens: 10 };
  const answer = await caller.send("sampling/createMessage", params, { onprogress, signal });
  return answer.content.text;
};
const questions = {
  sampling,
  async elicitation(caller, label) {
    const requestedSchema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
    return (await caller.send("elicitation/create", { message: label, requestedSchema })).content.text;
  },
  async roots(caller) {
    return (await caller.send("roots/list")).roots[0].name;
  },
  async ping(caller) {
    await caller.send("ping");
    return "pong";
  },
};

// A tool gets its arguments and its caller: `token`, `signal`, `notify(notification)`, `send(method, params, options)`.
export const tools = {
  async count({ steps, hold_at, label = "" }, caller) {
    const run = await begin(caller, label);
    let sum = 0;
    for (let step = 1; step <= steps; step++) {
      sum += step;
      await report(caller, step, run);
      if (step === hold_at) await waitOpened(label);
    }
    return text({ run, sum });
  },
  async echo({ text: said }) {
    return { content: [{ type: "text", text: said }] };
  },
  async ask({ kind, label, waits }, caller) {
    const run = await begin(caller, label);
    await report(caller, 0, run);
    if (waits === "before") await waitOpened(label);
    const answer = await questions[kind](caller, label);
    tell("answered", { label, answer });
    if (waits === "after") await waitOpened(label);
    return text({ run, answer });
  },
  async withdraw({ label }, caller) {
    const run = await begin(caller, label);
    await report(caller, 0, run);
    const withdrawing = new AbortController();
    const asking = sampling(caller, label, withdrawing.signal).catch(() => null);
    await waitOpened(label);
    withdrawing.abort("withdrawn");
    return text({ run, answer: await asking });
  },
};
const inputSchema = { type: "object" };
const annotations = flags.includes("--destructive") ? { destructiveHint: true } : undefined;
export const listed = Object.keys(tools).map((name) => ({
  name,
  inputSchema,
  ...(name === "count" && { annotations }),
}));

const sessions = new Map();

// A session of our own: its transport is known by its id from the `initialize` on until its DELETE.
async function open(openSession) {
  const transport = await openSession({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
  });
  return transport;
}

async function handle(request, response, openSession) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : undefined;
  if (body) tell("received", { method: body.method ?? "response" });
  if (request.method === "DELETE") tell("received", { method: "DELETE" });
  const id = request.headers["mcp-session-id"];
  const transport = id === undefined ? await open(openSession) : sessions.get(id);
  if (transport === undefined) {
    response.writeHead(404).end();
    return;
  }
  await transport.handleRequest(request, response, body);
}

async function evict() {
  const ended = [...sessions.values()];
  sessions.clear();
  for (const transport of ended) await transport.close();
  tell("evicted", { sessions: ended.length });
}

// `openSession(options)` gives a transport, made with these options, that a server is connected to.
export async function serve(openSession) {
  const http = createServer((request, response) => {
    handle(request, response, openSession).catch((error) => {
      tell("trouble", { message: String(error) });
      response.destroy();
    });
  });
  http.listen(Number(flags[flags.indexOf("--port") + 1]), "127.0.0.1", () =>
    tell("ready", { port: http.address().port }),
  );
  if (flags.includes("--graceful")) process.on("SIGTERM", () => http.close(() => process.exit(0)));
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    if (order.do === "release") gate(order.label ?? "").open();
    if (order.do === "evict") await evict();
  }
}
