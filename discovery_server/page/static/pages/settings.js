// @ts-check
// Settings: what agents ask for, the configuration in force, and the names of secrets.
import { useState } from "preact/hooks";
import { all, get, part, post, put, remove } from "../api.js";
import { html } from "../html.js";
import { Planned } from "../install.js";
import { reloads, revision } from "../live.js";
import { Plan } from "../plan.js";
import { address, ago, Command, Confirmed, counted, Empty, Problem, Prose, useAction, useLoaded } from "../ui.js";

export function Settings() {
  return html`<h2>Settings</h2><${Requests} /><${Configuration} /><${Secrets} />
    <${AccessTokens} /><${Audiences} />`;
}

function Requests() {
  const [version, setVersion] = useState(0);
  const [found, error, isLoading] = useLoaded((signal) => get("/requests", {}, signal), [], [version, revision.value]);
  const again = () => setVersion((count) => count + 1);
  const requests = [...(found?.requests || [])].reverse();
  const waiting = requests.filter((one) => one.state === "waiting");
  const decided = requests.filter((one) => one.state !== "waiting");
  return html`<section aria-labelledby="requests" aria-busy=${isLoading}>
    <div class="bar"><h3 id="requests">Requests of agents</h3><button type="button" onClick=${again}>Refresh</button></div>
    <${Problem} error=${error} />
    ${found && waiting.length === 0 && html`<${Empty}>No request is waiting. An agent that needs a server which is missing or switched off asks here.<//>`}
    <ul class="entries">${waiting.map((one) => html`<li key=${one.id}><${Request} request=${one} onDecided=${again} /></li>`)}</ul>
    ${decided.length > 0 && html`<details><summary>${counted(decided.length, "decided request")}</summary><ul class="entries">${decided.map((one) => html`<li key=${one.id}>
      ${one.action} ${one.name}: <strong>${one.state}</strong> ${ago(one.decided_at)}<p class="note">${one.outcome}</p></li>`)}</ul></details>`}
  </section>`;
}

function Request({ request, onDecided }) {
  const [reason, setReason] = useState("");
  const [isOpen, setOpen] = useState(false);
  const path = `/requests/${part(request.id)}`;
  const accept = async (choice) => { const answer = await post(path, { action: "accept", ...choice }); if (choice.digest) onDecided(); return answer; };
  return html`
    <p><strong>${request.action} ${request.name}</strong> <span class="note">asked ${ago(request.created_at)}${request.client && ` by ${request.client}`}</span></p>
    <p>${deed(request)}</p>
    ${Object.keys(request.arguments).length > 0 && html`<p class="note">What the agent gave with it:</p><pre tabindex="0">${JSON.stringify(request.arguments, null, 2)}</pre>`}
    ${isOpen && html`<${Planned} act=${accept} verb="Accept" show=${(form) => html`<${Plan} plan=${form} />`} done=${() => "Accepted."} />`}
    <div class="bar">
      ${!isOpen && html`<button type="button" onClick=${() => setOpen(true)}>Accept …</button>`}
      <${Confirmed} label="Decline …" question=${`Decline: ${request.action} ${request.name}?`} verb="Decline" act=${async () => { await post(path, { action: "decline", reason }); onDecided(); }}>
        <p>It is not asked for again within a day.</p>
        <label>Reason, for the agent <input value=${reason} maxlength="500" onInput=${(e) => setReason(e.target.value)} /></label><//>
    </div>`;
}

/** What is done if a request is accepted. */
function deed({ action, name, arguments: given }) {
  const isWritten = Boolean(given.command || given.url);
  switch (action) {
    case "activate": return `Switches the server ${name} on.`;
    case "deactivate": return `Switches the server ${name} off.`;
    case "uninstall": return `Removes the server ${name} from the configuration; its secrets stay.`;
    case "sync": return "Reads the sources of servers again, and registers what they have.";
    default: return isWritten
      ? `Adds the server ${name}, which ${given.url ? "is at the address below" : "runs the program below on this machine"}. The agent wrote it; it was not checked.`
      : `Installs ${name} of the marketplace.`;
  }
}

function Configuration() {
  const [reads, setReads] = useState(0);
  const [found, error, isLoading] = useLoaded((signal) => get("/configuration", {}, signal), [], [reads, reloads.value, revision.value]);
  const [reload, isReloading, reloadError, read] = useAction(async () => {
    const { problems } = await post("/reload");
    setReads((count) => count + 1);
    return problems.length ? "Read, with problems." : "Read.";
  });
  return html`<section aria-labelledby="configuration" aria-busy=${isLoading}>
    <h3 id="configuration">Configuration</h3>
    <${Problem} error=${error} />
    ${found && html`
      <div class="bar"><p>${found.path ? html`<code>${found.path}</code>` : "There is no file; these are the defaults."}</p>
        <button type="button" onClick=${reload} disabled=${isReloading}>${isReloading ? "Reading …" : "Reload"}</button>
        <span role="status">${read}</span></div>
      <${Problem} error=${reloadError} />
      <${Problems} title="Problems" kind="bad" problems=${reloadError?.form?.problems || found.problems} />
      <${Problems} title="Warnings" kind="off" problems=${found.warnings} />
      <details><summary>Effective configuration (secrets are redacted)</summary><pre tabindex="0">${JSON.stringify(found.configuration, null, 2)}</pre></details>`}
  </section>`;
}

function Problems({ title, kind, problems }) {
  if (!problems.length) return null;
  return html`<h4>${title}</h4><ul class="tools">${problems.map((one, index) => html`<li key=${index}>
    <span class="state ${kind}"><span aria-hidden="true">▲</span> ${one.severity}</span> <${Prose} text=${[one.subject, one.message].filter(Boolean).join(": ")} /> <code>${one.code}</code>
    <p>${place(one)}</p>${one.hint && html`<p><${Prose} text=${one.hint} /></p>`}
    ${one.excerpt && html`<pre>${one.excerpt}</pre>`}</li>`)}</ul>`;
}

const place = (one) => [one.file, one.line && `line ${one.line}`, one.column && `column ${one.column}`].filter(Boolean).join(", ");

function Secrets() {
  const [version, setVersion] = useState(0);
  const [found, error, isLoading] = useLoaded((signal) => get("/secrets", {}, signal), [], [version]);
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const again = () => setVersion((count) => count + 1);
  const [store, isStoring, storeError, stored] = useAction(async () => {
    await put(`/secrets/${part(name.trim())}`, { value });
    setName("");
    setValue("");
    again();
    return name.trim();
  });
  return html`<section aria-labelledby="secrets" aria-busy=${isLoading}>
    <h3 id="secrets">Secrets</h3>
    <p class="note">The configuration refers to them as <code>${"${secret:NAME}"}</code>. Values are stored and never shown.</p>
    <${Problem} error=${error} />
    ${found && found.names.length === 0 && html`<${Empty}>No secret is stored yet.<//>`}
    <ul class="entries">${(found?.names || []).map((one) => html`<li key=${one} class="bar"><code>${one}</code>
      <${Confirmed} label="Delete …" question=${`Delete the secret ${one}?`} verb="Delete it" act=${async () => { await remove(`/secrets/${part(one)}`); again(); }}>
        <p>Servers that refer to it will not start any more. It cannot be restored.</p><//></li>`)}</ul>
    <form class="row" onSubmit=${(event) => { event.preventDefault(); store(); }}>
      <label>Name <input value=${name} required maxlength="200" autocomplete="off" spellcheck=${false} onInput=${(e) => setName(e.target.value)} placeholder="SERVER/NAME" /></label>
      <label>Value <input type="password" value=${value} required autocomplete="new-password" onInput=${(e) => setValue(e.target.value)} /></label>
      <button disabled=${isStoring}>${isStoring ? "Storing …" : "Store"}</button>
      <span role="status">${stored && `${stored} is stored.`}</span>
    </form>
    <${Problem} error=${storeError} />
  </section>`;
}

const DAY = 86_400; // seconds
const LIFETIMES = [["30", "30 days"], ["90", "90 days"], ["365", "a year"], ["", "no end"]];

/** Tokens of clients over HTTP: made, limited and revoked. */
function AccessTokens() {
  const [turn, setTurn] = useState(0);
  const again = () => setTurn((count) => count + 1);
  const [found, error, isLoading] = useLoaded((signal) => get("/access-tokens", {}, signal), [], [turn]);
  const [views] = useLoaded((signal) => get("/views", {}, signal), [], [revision.value]);
  const [fields, setFields] = useState({ name: "", view: "", servers: "", days: "90" });
  const field = (name) => ({ value: fields[name], onInput: (event) => setFields({ ...fields, [name]: event.target.value }) });
  const [create, isCreating, createError, created] = useAction(async () => {
    const servers = fields.servers.split(/[\s,]+/).filter(Boolean);
    const body = { name: fields.name.trim(), view: fields.view || null, servers, seconds: fields.days ? Number(fields.days) * DAY : null };
    const answer = await post("/access-tokens", body);
    setFields({ ...fields, name: "", servers: "" });
    again();
    return answer;
  });
  return html`<section aria-labelledby="tokens" aria-busy=${isLoading}>
    <h3 id="tokens">Access tokens</h3>
    <p class="note">Each client over HTTP has its own, limited to what it may see. A revoked token stops working within seconds.</p>
    <${Problem} error=${error} />
    ${found?.tokens.length === 0 && html`<${Empty}>There is no token yet.<//>`}
    <ul class="entries">${(found?.tokens || []).map((one) => html`<li key=${one.id} class="bar"><strong>${one.name || one.id}</strong>
      <span class="note">${limitsOf(one)}; ${one.is_damaged ? "damaged" : one.is_expired ? "expired" : one.expires_at ? `until ${new Date(one.expires_at * 1000).toLocaleDateString()}` : "no end"}</span>
      <${Confirmed} label="Revoke …" question=${`Revoke the token ${one.name || one.id}?`} verb="Revoke" act=${async () => { await remove(`/access-tokens/${part(one.id)}`); again(); }}>
        <p>Clients that use it are refused from now on.</p><//></li>`)}</ul>
    <form class="row" onSubmit=${(event) => { event.preventDefault(); create(); }}>
      <label>For the client <input ...${field("name")} required maxlength="64" autocomplete="off" spellcheck=${false} placeholder="laptop" /></label>
      <label>View <select ...${field("view")}><option value="">everything</option>${(views?.views || []).map(({ name }) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>
      <label>Servers <input ...${field("servers")} autocomplete="off" spellcheck=${false} placeholder="all, or git* time" /></label>
      <label>Valid for <select ...${field("days")}>${LIFETIMES.map(([days, name]) => html`<option key=${days} value=${days}>${name}</option>`)}</select></label>
      <button disabled=${isCreating || !fields.name.trim()}>${isCreating ? "Creating …" : "Create"}</button>
    </form>
    <${Problem} error=${createError} />
    ${created && html`<div role="status"><p>The token ${created.token.name} is shown this once:</p><${Command} text=${created.value} /></div>`}
  </section>`;
}

/** What a token shows. @param {any} token */
function limitsOf({ view, servers, tools, principals, scopes }) {
  const parts = [view && `view ${view}`, servers.length > 0 && `servers ${servers.join(", ")}`, tools.length > 0 && `tools ${tools.join(", ")}`, principals.length > 0 && principals.join(", ")];
  return `${parts.filter(Boolean).join("; ") || "everything"} (${scopes.join(", ")})`;
}

/** Which servers each view and each team sees; a request can be tried as a client of it. */
function Audiences() {
  const [found, error] = useLoaded((signal) => get("/views", {}, signal), [], [revision.value, reloads.value]);
  const [servers] = useLoaded(() => all("/servers", "servers"), [], [revision.value, reloads.value]);
  const admits = ({ visible_to: reservations }, name) => reservations.every((one) => one.principals.includes(name));
  const teams = (found?.principals || []).map((name) => ({ name, as: { principal: name }, servers: (servers || []).filter((one) => admits(one, name)).map((one) => one.name) }));
  const views = (found?.views || []).map((one) => ({ ...one, as: { view: one.name } }));
  return html`<section aria-labelledby="audiences" aria-busy=${!found && !error}>
    <h3 id="audiences">Who sees what</h3>
    <p class="note">A view is a selection that clients are given; <code>visibleTo</code> reserves servers and tools for teams and users, who have a token with that name. What is hidden from a client cannot be found or called by it.</p>
    <${Problem} error=${error} />
    ${found && views.length + teams.length === 0 && html`<${Empty}>Every client sees everything. <code>views</code> and <code>visibleTo</code> in the configuration limit that.<//>`}
    ${views.length + teams.length > 0 && html`<table><thead><tr><th>View or team</th><th>Servers</th><th>Try it</th></tr></thead>
      <tbody>${[...views, ...teams].map((one) => html`<tr key=${one.name}><th scope="row">${one.name}</th><td>${one.servers.join(", ") || "none"}</td>
        <td><a href=${address("search", one.as)}>Try a request as ${one.name}</a></td></tr>`)}</tbody></table>`}
  </section>`;
}
