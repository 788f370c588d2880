// @ts-check
// Servers: their states with the reasons, filtered and sorted; one of them in a drawer.
import { useMemo, useState } from "preact/hooks";
import { get, part, request } from "../api.js";
import { html } from "../html.js";
import { servers } from "../live.js";
import { Diff, Proposal } from "../plan.js";
import { NewServer } from "../server_entry.js";
import { address, ago, counted, Empty, moment, Prose, State, useLoaded, withWords } from "../ui.js";
import { Server } from "./server.js";
import { Transient } from "./transient.js";

const COLUMNS = /** @type {[string, string, (server: any) => any][]} */ ([
  ["name", "Server", (server) => server.name.toLowerCase()],
  ["state", "State", (server) => [server.code ? 0 : 1, server.status]],
  ["tools", "Tools", (server) => -server.enabled_count],
  ["since", "Since", (server) => -(server.since || 0)],
]);

export function Servers({ rest, query }) {
  const [words, setWords] = useState(query.get("filter") || "");
  const [sorted, setSorted] = useState(query.get("sort") || "name");
  const found = useMemo(() => inOrder(matching(servers.value, words), sorted), [servers.value, words, sorted]);
  const here = address("servers", { filter: words.trim(), sort: sorted === "name" ? "" : sorted });
  const keep = (filter, sort) => history.replaceState(null, "", address(rest.length ? `servers/${rest.map(part).join("/")}` : "servers", { filter: filter.trim(), sort: sort === "name" ? "" : sort }));
  const sort = (key) => { setSorted(key); keep(words, key); };
  const filter = (text) => { setWords(text); keep(text, sorted); };
  return html`
    <h2>Servers</h2>
    <label>Filter <input data-search type="search" value=${words} onInput=${(e) => filter(e.target.value)} placeholder="name, state, tag or reason" /></label>
    ${servers.value.length === 0 ? html`<${Empty}>No server is configured. <code>discovery config import</code> copies those of other clients, <code>discovery add</code> adds one, and the <a href="#/marketplace">marketplace</a> has more.<//>`
      : html`<p role="status" class="note">${found.length === servers.value.length ? counted(found.length, "server") : `${found.length} of ${counted(servers.value.length, "server")}`}</p>`}
    ${found.length > 0 && html`<table class="servers">
      <thead><tr>${COLUMNS.map(([key, name]) => html`<th key=${key} class=${key === "tools" ? "number" : ""} aria-sort=${key === sorted ? "ascending" : undefined}>
        <button type="button" class="plain" onClick=${() => sort(key)}>${name}${key === sorted && html` <span aria-hidden="true">▾</span>`}</button></th>`)}
        <th>Tags</th><th>Reason</th></tr></thead>
      <tbody>${found.map((server) => html`<${Row} key=${server.name} server=${server} />`)}</tbody>
    </table>`}
    <${Demo} />
    <details class="adding" open=${query.get("add")}><summary>Add a server</summary><${NewServer} /></details>
    <${Transient} />
    ${rest[0] && html`<${Server} key=${rest[0]} name=${rest[0]} tab=${rest[1] || ""} isChanging=${rest[2] === "change"} onClose=${() => { location.hash = here; }} />`}`;
}

const DEMO = ["calendar", "files", "issues"];

/** A button that removes the servers of the demo, if they are here. */
function Demo() {
  const [isOpen, setOpen] = useState(false);
  const names = DEMO.filter((name) => servers.value.some((one) => one.name === name && one.source === "registry"));
  const [demo] = useLoaded(async (signal) => {
    const entries = await Promise.all(names.map((name) => get(`/servers/${name}/entry`, {}, signal)));
    return names.filter((name, index) => entries[index].entry.args?.[0].endsWith("demo_server.py"));
  }, [names.join()]);
  const ask = (name, query = {}) => request("DELETE", `/servers/${name}`, { query });
  return demo?.length > 0 && html`<p class="bar"><span class="note">${demo.join(", ")}: servers of the demo.</span><button type="button" onClick=${() => setOpen(true)}>Remove the demo …</button></p>
    ${isOpen && html`<${Proposal} question="Remove the demo?" verb="Remove" onClose=${() => setOpen(false)}
      load=${() => Promise.all(demo.map((name) => ask(name)))}
      save=${async (plans) => { for (const { name, digest } of plans) await ask(name, { digest }); }}
      show=${(plans) => plans.map((plan) => html`<${Diff} key=${plan.name} text=${plan.diff} />`)} />`}`;
}

function Row({ server }) {
  return html`<tr>
    <th scope="row"><a href="#/servers/${part(server.name)}">${server.name}</a></th>
    <td><${State} state=${server.status} /></td>
    <td class="number" data-label="tools">${server.enabled_count}${server.enabled_count < server.tool_count && ` / ${server.tool_count}`}${server.dropped?.length > 0 && ` (${server.dropped.length} unusable)`}</td>
    <td class="when" data-label="since">${server.since && html`<span title=${moment(server.since)}>${ago(server.since)}</span>`}</td>
    <td>${server.tags.map((tag) => html`<span class="tag" key=${tag}>${tag}</span> `)}</td>
    <td>${server.reason && html`<${Prose} text=${server.reason} />`}</td>
  </tr>`;
}

/** @param {any[]} found @param {string} words */
function matching(found, words) {
  const has = withWords(words);
  return found.filter((server) => has([server.name, server.status, server.reason, ...server.tags].join(" ")));
}

function inOrder(found, key) {
  const [, , of] = COLUMNS.find(([name]) => name === key) || COLUMNS[0];
  return found.toSorted((some, other) => compared(of(some), of(other)) || compared(some.name, other.name));
}

const compared = (some, other) => (Array.isArray(some) ? compared(some[0], other[0]) || compared(some[1], other[1]) : some < other ? -1 : some > other ? 1 : 0);
