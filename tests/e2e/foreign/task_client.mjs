// The client of tasks that the authors of the extension maintain, in front of a gateway over HTTP.
//
//     node task_client.mjs FOLDER URL SERVER
//
// FOLDER holds the package @modelcontextprotocol/ext-tasks. Each line of output is one outcome.

import { pathToFileURL } from "node:url";

const [folder, address, server] = process.argv.slice(2);
const { createApplicationInputHandler, resultFromTaskOutcome, withTasks } = await import(
  pathToFileURL(`${folder}/dist/client/index.js`).href
);

const VERSION = "2026-07-28";
const META = {
  "io.modelcontextprotocol/protocolVersion": VERSION,
  "io.modelcontextprotocol/clientInfo": { name: "foreign", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {
    elicitation: { form: {} },
    extensions: { "io.modelcontextprotocol/tasks": {} },
  },
};

const methods = [];
const port = {
  endpointId: "gateway",
  taskCapabilities: { generation: "v2", capabilities: {} },
  invalidated: false,
  onServerRequest: () => () => {},
  onNotification: () => () => {},
  onInvalidated: () => () => {},
  async dispatch(request, options) {
    methods.push(request.method);
    const params = { ...request.params, _meta: { ...request.params?._meta, ...META } };
    const headers = new Headers({
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": VERSION,
      "mcp-method": request.method,
    });
    const named = params.taskId ?? params.name;
    if (named !== undefined) headers.set("mcp-name", named);
    const given = Object.entries(options?.context?.headers ?? {});
    for (const [name, value] of given) headers.set(name, value);
    const id = methods.length;
    const body = JSON.stringify({ jsonrpc: "2.0", id, ...request, params });
    const answered = await fetch(address, { method: "POST", headers, body });
    const text = await answered.text();
    const message = JSON.parse(text.startsWith("{") ? text : text.split("data: ").at(-1));
    return message.error
      ? { kind: "error", error: message.error }
      : { kind: "result", result: message.result };
  },
};

const asked = [];
const onInputRequest = createApplicationInputHandler({
  elicitation: (request) => {
    asked.push(request.params.message);
    return { action: "accept", content: { confirm: true } };
  },
  sampling: () => {
    throw new Error("not asked for");
  },
  roots: () => ({ roots: [] }),
});

const session = withTasks(port, { onInputRequest });

async function call(tool, given) {
  try {
    const execution = await session.callTool(`${server}__${tool}`, given);
    const { outcome } = await execution.settle();
    const result = resultFromTaskOutcome(outcome);
    return result.content[0].text;
  } catch (error) {
    return `${error.constructor.name}: ${error.message}`;
  }
}

const outcomes = {
  greet: await call("greet", { name: "Ann" }),
  slow: await call("slow_compute", { seconds: 1, label: "one" }),
  asks: await call("confirm_delete", { filename: "a.txt" }),
  fails: await call("protocol_error_job", {}),
};
await session.close();
console.log(JSON.stringify({ outcomes, asked, methods: [...new Set(methods)] }));
