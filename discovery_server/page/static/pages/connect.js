// @ts-check
// Connect: the MCP clients of this machine, each with the change of its file shown before it is made, and undone.
import { useState } from "preact/hooks";
import { get, part, post, put } from "../api.js";
import { html } from "../html.js";
import { reloads, revision } from "../live.js";
import { Diff, Proposal } from "../plan.js";
import { Command, counted, Empty, Problem, Prose, useLoaded } from "../ui.js";

const LINKS = { cursor: "Cursor", vscode: "VS Code" };

export function Connect() {
  const [changes, setChanges] = useState(0);
  const [found, error] = useLoaded((signal) => get("/clients", {}, signal), [], [changes, revision.value]);
  const [views] = useLoaded((signal) => get("/views", {}, signal), [], [revision.value]);
  const [view, setView] = useState("");
  const names = (views?.views || []).map((one) => one.name);
  const clients = (found?.clients || []).filter((one) => one.scope === "user");
  return html`<h2>Connect</h2>
    <p class="lead-text">A connected client starts this gateway by itself, and finds every enabled tool through it. Comments and order of its file stay, and the change can be undone.</p>
    <${Problem} error=${error} />
    <section aria-labelledby="clients" aria-busy=${!found && !error}>
      <h3 id="clients">Clients on this machine</h3>
      ${names.length > 0 && html`<label>What they see <select value=${view} onChange=${(e) => setView(e.target.value)}><option value="">everything</option>${names.map((name) => html`<option key=${name} value=${name}>the view ${name}</option>`)}</select></label>`}
      ${found && clients.length === 0 && html`<${Empty}>No MCP client was found on this machine.<//>`}
      <ul class="entries">${clients.map((one) => html`<li key=${one.client}><${Client} client=${one} view=${view} onChange=${() => setChanges((count) => count + 1)} /></li>`)}</ul>
    </section>
    <${Hosts} clients=${clients} />
    <section aria-labelledby="elsewhere"><h3 id="elsewhere">Other ways</h3>
      ${found && html`<p class="bar">${Object.entries(LINKS).map(([id, name]) => html`<a key=${id} href=${found.links[id]}>Open ${name} with the entry</a>`)}</p>`}
      <p class="note">The command line does the same, also for a file of a project:</p>
      <${Command} text="discovery connect CLIENT" />
    </section>`;
}

const MODES = { auto: "what suits it", meta: "the meta-tools", direct: "the tools of the servers", dynamic: "a search, and the tools that it has found" };

/** Which tools each client gets and why, and the setting that decides it. */
function Hosts({ clients }) {
  const [found, error, isLoading] = useLoaded((signal) => get("/hosts", {}, signal), [], [revision.value, reloads.value]);
  const [wanted, setWanted] = useState("");
  const titles = (found?.hosts || []).map((one) => one.title);
  const others = clients.filter((one) => !titles.includes(one.label)).map((one) => one.label).join(", ");
  return html`<section aria-labelledby="hosts" aria-busy=${isLoading}><h3 id="hosts">Which tools each client gets</h3>
    <${Problem} error=${error} />
    ${found && html`<label>A client gets <select value=${wanted || found.mode} onChange=${(e) => setWanted(e.target.value)}>${Object.entries(MODES).map(([mode, text]) => html`<option key=${mode} value=${mode}>${text} (${mode})</option>`)}</select></label>
      <table><thead><tr><th>Client</th><th>What it gets now</th><th>How it finds a tool</th></tr></thead>
        <tbody>${found.hosts.map((one) => html`<tr key=${one.client}><th scope="row">${one.title}${!one.client && others && html` <span class="note">here: ${others}</span>`}</th>
          <td data-label="gets"><${Prose} text=${one.gets} /></td><td data-label="it"><${Prose} text=${one.reason} /></td></tr>`)}</tbody></table>`}
    ${wanted && html`<${Proposal} question=${`Give each client ${MODES[wanted]}?`} verb="Save" onClose=${() => setWanted("")}
      load=${(signal) => put("/hosts", { mode: wanted }, signal)} save=${({ digest }) => put("/hosts", { mode: wanted, digest })}
      show=${(plan) => html`<p class="note">This is written to <code>${plan.path}</code>. Clients that are connected are notified.</p>
        ${plan.diff ? html`<${Diff} text=${plan.diff} />` : html`<p>Nothing has to be changed.</p>`}`} />`}
  </section>`;
}

const STATES = { bad: ["▲", "cannot be read"], good: ["●", "connected"], off: ["○", "not connected"] };

function Client({ client, view, onChange }) {
  const [isOpen, setOpen] = useState(false);
  const kind = client.problem ? "bad" : client.connected ? "good" : "off";
  const [mark, state] = STATES[kind];
  const verb = client.connected ? "Disconnect" : "Connect";
  const path = `/clients/${part(client.client)}`;
  const body = client.connected ? { action: "undo" } : { action: "connect", view };
  return html`<div class="bar"><strong>${client.label}</strong> <span class="state ${kind}"><span aria-hidden="true">${mark}</span> ${state}</span>
      <span class="note">${client.servers > 0 && `${counted(client.servers, "server")} of its own`}</span>
      ${!client.problem && html`<button type="button" onClick=${() => setOpen(true)} aria-label=${`${verb} ${client.label} …`}>${verb} …</button>`}
      ${!client.problem && client.servers > 0 && html`<${UseServers} label=${client.label} of=${fileOf(client)} />`}</div>
    <p class="note"><code>${client.path}</code> ${client.problem}</p>
    ${isOpen && html`<${Proposal} question=${`${verb} ${client.label}?`} verb=${verb} onClose=${() => setOpen(false)}
      load=${(signal) => put(path, body, signal)} save=${async ({ digest }) => { await put(path, { ...body, digest }); onChange(); }}
      show=${(plan) => html`<p class="note"><code>${plan.path}</code> ${effectOf(plan, client)}</p>
        ${plan.diff ? html`<${Diff} text=${plan.diff} />` : html`<p>Nothing has to be changed.</p>`}
        <p class="note">Restart ${client.label} afterwards, or reload its servers.</p>`} />`}`;
}

/** What becomes of the file of a client. */
function effectOf(plan, { connected }) {
  if (!connected) return "gets this entry. The file of now is kept, for an undo.";
  if (plan.deleted) return "was not there before, so it is removed.";
  return plan.restored ? "is then as it was before." : "was changed by others since, so only the entry is taken out.";
}

export const fileOf = ({ path, client }) => ({ path, client });

/** A button that adds the servers of a client's file, or of the demo, which are shown first.
 * @param {{label: string, of: {path?: string, client?: string, demo?: boolean}, isMain?: boolean}} given */
export function UseServers({ label, of: body, isMain = false }) {
  const [isOpen, setOpen] = useState(false);
  const question = `Use the servers of ${label}?`;
  return html`<button type="button" class=${isMain ? "main" : ""} onClick=${() => setOpen(true)} aria-label=${`Use the servers of ${label} …`}>Use its servers …</button>
    ${isOpen && html`<${Proposal} question=${question} verb="Use them" onClose=${() => setOpen(false)}
      load=${(signal) => post("/servers/sync", body, signal)} save=${({ digest }) => post("/servers/sync", { ...body, digest })}
      show=${(plan) => html`
        <p class="note">${plan.plans.length > 0 ? html`They are added here and approved${body.demo ? ", until you remove them." : html`; <code>${plan.path}</code> stays as it is. Secrets in it are stored encrypted.`}` : "There is nothing to add."}</p>
        ${plan.plans.map((one) => html`<${Diff} key=${one.name} text=${one.diff} />`)}
        <${LeftOut} of=${[...plan.skipped, ...plan.errors]} />`} />`}`;
}

function LeftOut({ of }) {
  return of.length > 0 && html`<p>Left out:</p><ul>${of.map(({ name, reason }) => html`<li key=${name}><strong>${name}</strong>: <${Prose} text=${reason} /></li>`)}</ul>`;
}
