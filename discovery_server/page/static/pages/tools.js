// @ts-check
// Tools: all of them by server with filters and a switch, and one in full: its schema, its verdict, and a call.
import { useMemo, useState } from "preact/hooks";
import { all, get, part } from "../api.js";
import { html } from "../html.js";
import { reloads, revision } from "../live.js";
import { visible } from "../texts.js";
import { ToolSwitch } from "../tool_switch.js";
import { TryTool } from "../try_tool.js";
import { address, counted, Drawer, Empty, Problem, useLoaded, useSettled, withWords } from "../ui.js";
import { useTokens } from "./metrics.js";

const SHOWN = 100; // rows; more are a filter away
const SETTLED = 500; // milliseconds
const MOST_TAGS = 12; // chips
const STATES = /** @type {[string, string, (tool: any) => boolean][]} */ ([
  ["", "All", () => true], ["enabled", "Enabled", (tool) => tool.enabled], ["disabled", "Disabled", (tool) => !tool.enabled],
]);

/** The last list: it is shown while the gateway is away. @type {any[] | null} */
let last = null;

export function Tools({ rest, query }) {
  const [words, setWords] = useState("");
  const state = query.get("state") || "";
  const tag = query.get("tag") || "";
  // While servers start, the catalog changes with each of them.
  const known = useSettled(`${revision.value} ${reloads.value}`, SETTLED);
  const [loaded, error] = useLoaded(() => all("/tools", "tools", { all: true }).then(withTexts), [], [known]);
  const tools = last = loaded || last;
  const isFitting = (STATES.find(([key]) => key === state) || STATES[0])[2];
  const found = useMemo(() => matching(tools || [], words).filter((tool) => isFitting(tool) && (!tag || tool.tags.includes(tag))), [tools, words, state, tag]);
  const tags = useMemo(() => commonTags(tools || []), [tools]);
  const here = address("tools", { state, tag });
  const [costs] = useTokens();
  return html`
    <h2>Tools</h2>
    <label>Filter <input data-search type="search" value=${words} onInput=${(e) => setWords(e.target.value)} placeholder="server, name or words" /></label>
    ${tools?.length > 0 && html`<div class="chips" role="group" aria-label="State and tag">
      ${STATES.map(([key, name, has]) => html`<a key=${key} href=${address("tools", { state: key, tag })} aria-current=${key === state ? "true" : undefined}>${name} ${tools.filter(has).length.toLocaleString("en")}</a>`)}
      ${tags.map((one) => html`<a key=${`tag ${one}`} href=${address("tools", { state, tag: one === tag ? "" : one })} aria-current=${one === tag ? "true" : undefined}>#${one}</a>`)}</div>`}
    <${Problem} error=${error} />
    <p role="status" class="note">${tools && html`${found.length.toLocaleString("en")} of ${counted(tools.length, "tool")}${found.length > SHOWN ? `; the first ${SHOWN}` : ""}`}</p>
    ${tools?.length === 0 && html`<${Empty}>No server has a tool yet. <a href="#/servers">Servers</a> says why, and adds others.<//>`}
    ${!tools && !error && html`<div aria-busy="true"></div>`}
    ${found.length > 0 && html`<table class="found">
      <thead><tr><th>Tool</th><th>What it does</th><th>Tags</th><th class="number">Tokens</th><th>Agents may call it</th></tr></thead>
      <tbody>${found.slice(0, SHOWN).map((tool, index) => html`
        ${tool.server !== found[index - 1]?.server && html`<tr key=${tool.server} class="grouping"><th colspan="5" scope="rowgroup"><a href="#/servers/${part(tool.server)}">${tool.server}</a></th></tr>`}
        <tr key=${`${tool.server}:${tool.tool}`} class=${tool.enabled ? "" : "off"}>
        <th scope="row"><a href="#/tools/${part(tool.server)}/${part(tool.tool)}" title=${`${tool.server}:${tool.tool}`}>${tool.tool}</a></th>
        <td>${tool.summary}${!tool.enabled && html` <span class="note">Disabled: ${tool.reason.replace(/ ?\([^()]*:\d+:\d+\)/, "")}</span>`}</td>
        <td class="tags">${tool.tags.map((one) => html`<span class="tag" key=${one}>${one}</span> `)}</td>
        <td class="number" data-label="tokens">${costs?.tools[`${tool.server}:${tool.tool}`]?.toLocaleString("en") ?? "–"}</td>
        <td><${ToolSwitch} tool=${tool} /></td></tr>`)}</tbody>
    </table>`}
    ${rest.length === 2 && html`<${Tool} key=${rest.join(":")} server=${rest[0]} tool=${rest[1]} started=${query.get("arguments")} onClose=${() => { location.hash = here; }} />`}`;
}

/** The tags of most tools. @param {any[]} tools */
function commonTags(tools) {
  const counts = new Map();
  for (const tag of tools.flatMap((tool) => tool.tags)) counts.set(tag, (counts.get(tag) || 0) + 1);
  return [...counts].sort(([, one], [, other]) => other - one).slice(0, MOST_TAGS).map(([tag]) => tag);
}

/** The tools with what is searched for words, put together once: thousands are searched with each key.
 * @param {any[]} tools */
function withTexts(tools) {
  return tools.map((tool) => ({ ...tool, text: `${tool.server}:${tool.tool} ${tool.summary} ${tool.tags.join(" ")}` }));
}

/** @param {any[]} tools @param {string} words */
function matching(tools, words) {
  const has = withWords(words);
  return tools.filter((tool) => has(tool.text));
}

/** @param {{server: string, tool: string, started: string | null, onClose: () => void}} given `started`: arguments to begin with, as JSON */
function Tool({ server, tool, started, onClose }) {
  const path = `/servers/${part(server)}/tools/${part(tool)}`;
  const [details, error] = useLoaded((signal) => get(path, { why: true }, signal), [path], [revision.value, reloads.value]);
  return html`<${Drawer} title=${`${server}:${tool}`} onClose=${onClose}>
    <${Problem} error=${error} />
    ${details && html`<p class="description">${visible(details.description)}</p>
      <${TryTool} key=${details.fingerprint} server=${server} tool=${tool} path=${path} schema=${details.input_schema} started=${started} />`}
    ${details && html`<p class="row">Agents may call it <${ToolSwitch} tool=${{ server, tool, enabled: details.why.enabled }} /></p><${Verdict} why=${details.why} />`}
    ${details && html`<details><summary>Signature and schema of its arguments</summary><p><code>${details.signature}</code></p><pre tabindex="0">${JSON.stringify(details.input_schema, null, 2)}</pre></details>`}
  <//>`;
}

function Verdict({ why }) {
  return html`<h3>${why.enabled ? "Enabled" : "Disabled"}: ${why.reason}</h3>
    ${why.rules.length === 0 ? html`<${Empty}>No rule is about it.<//>` : html`<table>
      <thead><tr><th>Rule</th><th>Patterns</th><th>What it did</th><th>Where</th></tr></thead>
      <tbody>${why.rules.map((rule) => html`<tr key=${rule.index} class=${rule.decided ? "decided" : ""}>
        <td>${rule.index + 1}</td><td>${rule.patterns.join(", ")}</td>
        <td>${rule.decided ? (rule.enabled ? "decides: enabled" : "decides: disabled") : rule.matched ? "matches" : "does not match"}${rule.tags.length ? `; tags ${rule.tags.join(", ")}` : ""}</td>
        <td><code>${rule.origin}</code></td></tr>`)}</tbody></table>`}`;
}
