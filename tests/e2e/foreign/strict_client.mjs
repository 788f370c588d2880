// A client of the TypeScript SDK, which refuses a whole list or result for one member that is not valid.
//
//     node strict_client.mjs CLIENT STDIO SERVER COMMAND ARGUMENT ...
//
// CLIENT and STDIO are the modules of the SDK that have a client and its transport. Lists all there is,
// calls each tool of SERVER, and prints one JSON object: what was listed, and what was refused.

import { pathToFileURL } from "node:url";

const [clientModule, stdioModule, server, command, ...args] = process.argv.slice(2);
const { Client } = await import(pathToFileURL(clientModule).href);
const { StdioClientTransport } = await import(pathToFileURL(stdioModule).href);

const client = new Client({ name: "strict", version: "1" });
const env = { ...process.env };
await client.connect(new StdioClientTransport({ command, args, env, stderr: "ignore" }));

const refused = {};
async function tried(what, ask) {
  try {
    return await ask();
  } catch (error) {
    refused[what] = String(error).slice(0, 500);
    return {};
  }
}

const { tools = [] } = await tried("tools/list", () => client.listTools());
const { resources = [] } = await tried("resources/list", () => client.listResources());
await tried("resources/templates/list", () => client.listResourceTemplates());
const { prompts = [] } = await tried("prompts/list", () => client.listPrompts());
const failed = [];
for (const { name } of tools.filter((one) => one.name.startsWith(`${server}__`))) {
  const result = await tried(name, () => client.callTool({ name, arguments: {} }));
  if (result.isError) failed.push(name);
}
for (const { uri } of resources) await tried(uri, () => client.readResource({ uri }));
const prompt = await tried("prompts/get", () => client.getPrompt({ name: "p", arguments: {} }));
const ref = { type: "ref/prompt", name: "p" };
await tried("completion", () => client.complete({ ref, argument: { name: "a", value: "" } }));
await client.close();
const seen = { tools: tools.length, resources: resources.length, prompts: prompts.length };
console.log(JSON.stringify({ refused, failed, ...seen, messages: prompt.messages?.length }));
