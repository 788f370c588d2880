// @ts-check
// Tools: all of them with a filter, and one in full: its schema, its verdict, and a call.
import { useMemo, useState } from "preact/hooks";
import { all, get, part } from "../api.js";
import { html } from "../html.js";
import { revision } from "../live.js";
import { visible } from "../texts.js";
import { TryTool } from "../try_tool.js";
import { Drawer, Empty, Name, Problem, useLoaded, useSettled, withWords } from "../ui.js";

const SHOWN = 100; // rows; more are a filter away
const SETTLED = 500; // milliseconds

/** The last list: it is shown while the gateway is away. @type {any[] | null} */
let last = null;

export function Tools({ rest }) {
  const [words, setWords] = useState("");
  // While servers start, the catalog changes with each of them.
  const known = useSettled(revision.value, SETTLED);
  const [loaded, error] = useLoaded(() => all("/tools", "tools", { all: true }).then(withTexts), [], [known]);
  const tools = last = loaded || last;
  const found = useMemo(() => matching(tools || [], words), [tools, words]);
  return html`
    <h2>Tools</h2>
    <label>Filter <input data-search type="search" value=${words} onInput=${(e) => setWords(e.target.value)} placeholder="server, name or words" /></label>
    <${Problem} error=${error} />
    <p role="status">${tools && html`${found.length.toLocaleString("en")} of ${tools.length.toLocaleString("en")} tools${found.length > SHOWN ? `; the first ${SHOWN}` : ""}`}</p>
    ${tools?.length === 0 && html`<${Empty}>No server has a tool yet. Under <a href="#/servers">Servers</a> stands why, and others are added there.<//>`}
    ${found.length > 0 && html`<table class="found">
      <thead><tr><th>Tool</th><th>What it does</th><th>Tags</th></tr></thead>
      <tbody>${found.slice(0, SHOWN).map((tool) => html`<tr key=${`${tool.server}:${tool.tool}`} class=${tool.enabled ? "" : "off"}>
        <th scope="row"><a href="#/tools/${part(tool.server)}/${part(tool.tool)}"><${Name} text=${`${tool.server}:${tool.tool}`} /></a></th>
        <td>${tool.summary}${!tool.enabled && html` <span class="state off">○ disabled: ${tool.reason}</span>`}</td>
        <td class="tags">${tool.tags.join(", ")}</td></tr>`)}</tbody>
    </table>`}
    ${rest.length === 2 && html`<${Tool} key=${rest.join(":")} server=${rest[0]} tool=${rest[1]} />`}`;
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

function Tool({ server, tool }) {
  const path = `/servers/${part(server)}/tools/${part(tool)}`;
  const [details, error] = useLoaded((signal) => get(path, { why: true }, signal), [path], [revision.value]);
  return html`<${Drawer} title=${`${server}:${tool}`} onClose=${() => { location.hash = "#/tools"; }}>
    <${Problem} error=${error} />
    ${details && html`<p class="description">${visible(details.description)}</p>
      <${TryTool} key=${details.fingerprint} server=${server} tool=${tool} path=${path} schema=${details.input_schema} />`}
    ${details && html`<${Verdict} why=${details.why} />`}
    ${details && html`<details><summary>Schema of its arguments</summary><pre tabindex="0">${JSON.stringify(details.input_schema, null, 2)}</pre></details>`}
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
