// @ts-check
// Further parts of a server: differences that wait for review, its entry, secrets, metrics, stderr, events, export.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, part, post, put, remove } from "../api.js";
import { html } from "../html.js";
import { follow, isCall, reloads, revision, servers } from "../live.js";
import { newId } from "../made_calls.js";
import { Plan } from "../plan.js";
import { ChangedServer, RemovedServer } from "../server_entry.js";
import { ago, Command, Confirmed, counted, Empty, Fact, moment, Problem, Prose, shown, took, useAction, useLoaded } from "../ui.js";

const MOST_EVENTS = 200;

/** What changed in its tools since they were accepted, word by word. */
export function Review({ server }) {
  const [turn, setTurn] = useState(0);
  const path = `/review/${part(server)}`;
  const [found, error] = useLoaded((signal) => get(path, {}, signal), [server], [revision.value, turn]);
  const accept = async () => { await post(`${path}/accept`, { digest: found.digest }); setTurn(turn + 1); };
  const reviews = found?.reviews || [];
  return html`<div aria-busy=${!found && !error}>
    <${Problem} error=${error} />
    ${found && reviews.length === 0 && html`<${Empty}>Nothing waits for review: agents see its tools as you accepted them.<//>`}
    ${reviews.length > 0 && html`<div class="bar"><p>${counted(reviews.length, "definition waits", "definitions wait")} for review. Until then agents do not see what changed.</p>
      <${Confirmed} label="Accept all …" question=${`Accept all that is shown of ${server}?`} verb="Accept it" act=${accept}>
        <p>Agents read these texts from now on. If anything has changed since it was shown, nothing is accepted.</p><//></div>`}
    ${reviews.map((one) => html`<section class="review" key=${one.tool || ""} aria-label=${one.tool || "the server"}>
      <h3>${one.tool ? one.tool : "The server itself"} <span class="tag">${one.state === "pending" ? "new" : "changed"}</span> <span class="tag">${one.weight}</span></h3>
      ${one.findings.map((finding, index) => html`<p class="problem" key=${index}>▲ ${finding.message}</p>`)}
      ${one.changes.map((change, index) => html`<${Change} key=${index} change=${change} />`)}
      ${one.changes.length === 0 && html`<pre tabindex="0">${shown(one.now)}</pre>`}
    </section>`)}
  </div>`;
}

/** Before and after, side by side; what was taken out and put in is marked, and named for those who listen. */
function Change({ change }) {
  const words = change.words || [];
  const side = (kind, mark) => words.filter((word) => word.kind === "same" || word.kind === kind).map((word, index) => (word.kind === "same" ? word.text
    : mark === "ins" ? html`<ins key=${index}>${word.text}</ins>` : html`<del key=${index}>${word.text}</del>`));
  const whole = (value) => (value === null || value === undefined ? html`<span class="note">nothing</span>` : shown(value));
  return html`<h4><code>${pathText(change.path)}</code> <span class="hints">${change.weight}</span></h4>
    <div class="sides">
      <div><p class="note">Before</p><pre tabindex="0">${change.words ? side("removed", "del") : whole(change.before)}</pre></div>
      <div><p class="note">Now</p><pre tabindex="0">${change.words ? side("added", "ins") : whole(change.after)}</pre></div>
    </div>`;
}

const pathText = (path) => (Array.isArray(path) ? path.join(".") : String(path ?? "")) || "definition";

/** Its entry as it is written, with references instead of values; changed and removed here. */
export function Configuration({ server, isChanging }) {
  const [turn, setTurn] = useState(0);
  const [open, setOpen] = useState(isChanging ? "change" : "");
  const [isGone, setGone] = useState(false);
  const leaving = useRef(/** @type {any} */ (null)); // what was read last, while it is removed: its entry cannot be read then
  const [found, error] = useLoaded(async (signal) => leaving.current || get(`/servers/${part(server)}/entry`, {}, signal), [server], [revision.value, reloads.value, turn]);
  const [entry, problem] = useMemo(() => { const { problem: why = "", source, ...own } = found?.entry || {}; return [own, why]; }, [found]);
  const { reason } = servers.value.find((one) => one.name === server) || {};
  if (isGone) return html`<p role="status">${server} is removed. The secrets that were stored for it are under <a href="#/settings">Settings</a>.</p>`;
  return html`<div aria-busy=${!found && !error}>
    <${Problem} error=${error} />
    ${found && html`<dl class="facts wide">
      ${found.source && html`<${Fact} name="From">${found.source}<//>`}
      ${found.origin && html`<${Fact} name="Where"><code>${found.origin}</code><//>`}
    </dl>
    ${problem ? html`<p class="problem">${problem}</p><p class="note">What is written here takes the place of the whole entry.</p>`
    : html`<pre tabindex="0">${JSON.stringify(entry, null, 2)}</pre><p class="note">Secrets are references; their values are not shown anywhere.</p>`}
    <p class="row"><button type="button" aria-expanded=${open === "change"} onClick=${() => setOpen("change")}>Change it …</button>
      <button type="button" aria-expanded=${open === "remove"} onClick=${() => setOpen("remove")}>Remove it …</button></p>
    ${open === "change" && html`<h3>Change it</h3>${reason && html`<p class="notice"><${Prose} text=${reason} isSentence /></p>`}<${ChangedServer} server=${server} entry=${entry} onChanged=${() => setTurn(turn + 1)} />`}
    ${open === "remove" && html`<h3>Remove it</h3><${RemovedServer} server=${server} onLeaving=${(is) => { leaving.current = is ? found : null; }} onRemoved=${() => setGone(true)} />`}`}
  </div>`;
}

/** The secrets that its entry refers to, those stored for it, and variables without a value; values go in, and never come out. */
export function Secrets({ server }) {
  const [turn, setTurn] = useState(0);
  const [lacking, lackingError] = useLoaded(async (signal) => (await get(`/servers/${part(server)}/values`, {}, signal)).missing, [server], [revision.value, turn]);
  const [found, error] = useLoaded((signal) => get("/secrets", {}, signal), [], [turn]);
  const [entry, entryError] = useLoaded((signal) => get(`/servers/${part(server)}/entry`, {}, signal), [server], [revision.value]);
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const [save, isSaving, saveError, saved] = useAction(async () => {
    const stored = name.trim();
    const outcome = await store(server, stored, value, stored in (lacking || {}));
    setValue("");
    setTurn(turn + 1);
    return { name: stored, ...outcome };
  });
  const wanted = referred(entry);
  const variables = Object.keys(lacking || {}).filter((one) => !one.startsWith("secret:"));
  const names = new Set(found?.names || []);
  const own = [...names].filter((one) => one.startsWith(`${server}/`) && !wanted.includes(one));
  return html`<div aria-busy=${!(found && entry && lacking) && !error && !entryError && !lackingError}>
    <${Problem} error=${error || entryError || lackingError} />
    ${found && entry && lacking && wanted.length + own.length + variables.length === 0 && html`<${Empty}>Its entry refers to no secret, and none is stored for it.<//>`}
    <ul class="entries">${variables.map((one) => html`<li key=${one} class="bar"><code>${one}</code> <span class="state bad">▲ missing</span>
        <span class="note">for <code>${lacking[one]}</code>; it is kept encrypted</span>
        <button type="button" class="quiet" onClick=${() => setName(one)}>Give it a value</button></li>`)}
      ${wanted.map((one) => html`<li key=${one} class="bar"><code>${one}</code>
        ${found && (names.has(one) ? html`<span class="state good">● stored</span>` : html`<span class="state bad">▲ missing</span>`)}
        <button type="button" class="quiet" onClick=${() => setName(one)}>${names.has(one) ? "Set a new value" : "Give it a value"}</button></li>`)}
      ${own.map((one) => html`<li key=${one} class="bar"><code>${one}</code> <span class="note">stored; its entry does not refer to it</span></li>`)}</ul>
    <form class="row" onSubmit=${(event) => { event.preventDefault(); save(); }}>
      <label>Name <input value=${name} onInput=${(e) => setName(e.target.value)} placeholder=${variables[0] || wanted[0] || `${server}/API_KEY`} autocomplete="off" spellcheck=${false} required /></label>
      <label class="wide">Value <input type="password" value=${value} onInput=${(e) => setValue(e.target.value)} autocomplete="new-password" required /></label>
      <button disabled=${isSaving || !name.trim() || !value}>Store</button>
    </form>
    <${Problem} error=${saveError} />
    ${saved && html`<p role="status">${saved.name} is stored. ${saved.report?.success ? "The server is connected." : saved.report?.message}
      ${!saved.plan && !wanted.includes(saved.name) && html`Its entry does not refer to it yet: <code>${`\${secret:${saved.name}}`}</code>.`} <a href="#/settings">Settings</a> delete secrets.</p>`}
    ${saved?.plan && html`<${Plan} plan=${saved.plan} />`}
  </div>`;
}

/** Store a value that a server needs, and connect it. @param {string} server @param {string} name @param {string} value @param {boolean} isVariable */
async function store(server, name, value, isVariable) {
  const plan = isVariable && await put(`/servers/${part(server)}/values`, { values: { [name]: value } });
  if (!isVariable) await put(`/secrets/${name.split("/").map(part).join("/")}`, { value });
  const [report] = (await post("/refresh", { servers: [server] })).servers;
  return { plan, report };
}

/** A field for each value that a server lacks; nothing if it lacks none. */
export function MissingValues({ server }) {
  const [lacking, error] = useLoaded(async (signal) => (await get(`/servers/${part(server)}/values`, {}, signal)).missing, [server], [revision.value, servers.value]);
  return html`<${Problem} error=${error} />${Object.keys(lacking || {}).map((name) => html`<${MissingValue} key=${name} server=${server} name=${name} place=${lacking[name]} />`)}`;
}

function MissingValue({ server, name, place }) {
  const [value, setValue] = useState("");
  const [save, isSaving, error, saved] = useAction(() => store(server, name.replace(/^secret:/, ""), value, !name.startsWith("secret:")));
  return html`<form class="row" onSubmit=${(event) => { event.preventDefault(); save(); }}>
      <label class="wide">${name} <input type="password" value=${value} title=${`for ${place}; it is kept encrypted`} onInput=${(e) => setValue(e.target.value)} autocomplete="new-password" required /></label>
      <button class="main" disabled=${isSaving || !value}>${isSaving ? "Connecting …" : "Save"}</button></form>
    <${Problem} error=${error} />
    ${saved && html`<p role="status">${name} is stored. ${saved.report?.success ? "The server is connected." : saved.report?.message}</p>`}`;
}

/** Logs in to a server. No address of another's acts on the page, so the person copies that of the login.
 * @param {{server: string}} given */
export function LogIn({ server }) {
  const [target, setTarget] = useState("");
  const id = useRef("");
  const [logIn, isWaiting, error] = useAction(() => { id.current = newId(); return post(`/servers/${part(server)}/login`, { call_id: id.current }); });
  useEffect(() => { const end = follow((event) => { if (event.type === "login_address" && event.server === server) setTarget(event.address); }); return () => { end(); }; }, [server]);
  return html`<p class="bar"><button type="button" class="main" onClick=${() => { setTarget(""); logIn(); }} disabled=${isWaiting}>${isWaiting ? "Waiting for your browser …" : "Log in"}</button>
      ${isWaiting && target && html`<button type="button" onClick=${() => remove(`/calls/${part(id.current)}`).catch(() => {}) /* it has ended meanwhile */}>Cancel</button>`}</p>
    ${isWaiting && target && html`<p>Open this address in a browser on the computer of the gateway, if you trust it; the server is connected when you have agreed there.</p><${Command} text=${target} />`}
    <${Problem} error=${error?.code === "CALL_CANCELLED" ? null : error} />`;
}

/** The names in `${secret:NAME}` of an entry, in the order of the text. */
function referred(entry) {
  const found = JSON.stringify(entry?.entry ?? entry ?? {}).matchAll(/\$\{secret:([^}]+)\}/g);
  return [...new Set([...found].map((one) => one[1]))];
}

export function ServerMetrics({ server }) {
  const [turn, setTurn] = useState(0);
  const [found, error] = useLoaded((signal) => get("/metrics", { server }, signal), [server], [turn]);
  useEffect(() => {
    let timer = 0;
    const unfollow = follow((event) => { if (isCall(event) && event.server === server) timer ||= setTimeout(() => { timer = 0; setTurn((count) => count + 1); }, 1000); });
    return () => { clearTimeout(timer); unfollow(); };
  }, [server]);
  const [own] = found?.servers || [];
  return html`<div aria-busy=${!found && !error}>
    <${Problem} error=${error} />
    ${found && !own?.calls && html`<${Empty}>No call was counted yet. <a href="#/servers/${part(server)}/tools">Try one of its tools</a>.<//>`}
    ${own?.calls > 0 && html`<dl class="figures"><div><dt>Calls</dt><dd>${own.calls.toLocaleString("en")}</dd></div><div><dt>Errors</dt><dd>${own.errors.toLocaleString("en")}</dd></div>
        <div><dt>Median</dt><dd>${took(own.p50_seconds)}</dd></div><div><dt>95 %</dt><dd>${took(own.p95_seconds)}</dd></div></dl>
      <table><thead><tr><th>Tool</th><th class="number">Calls</th><th class="number">Errors</th><th class="number">p50</th><th class="number">p95</th><th>Last call</th></tr></thead>
      <tbody>${own.tools.map((tool) => html`<tr key=${tool.tool}><th scope="row"><a href="#/tools/${part(server)}/${part(tool.tool)}">${tool.tool}</a></th>
        <td class="number" data-label="calls">${tool.calls.toLocaleString("en")}</td><td class="number" data-label="errors">${tool.errors ? html`<span class="state bad">▲ ${tool.errors}</span>` : 0}</td>
        <td class="number" data-label="p50">${took(tool.p50_seconds)}</td><td class="number" data-label="p95">${took(tool.p95_seconds)}</td><td class="when">${ago(tool.last_called_at)}</td></tr>`)}</tbody></table>`}
  </div>`;
}

/** What its process wrote to stderr last. */
export function Stderr({ server }) {
  const [turn, setTurn] = useState(0);
  const [found, error] = useLoaded((signal) => get(`/servers/${part(server)}/stderr`, {}, signal), [server], [turn, servers.value]);
  return html`<div aria-busy=${!found && !error}>
    <${Problem} error=${error} />
    ${found && (found.lines.length ? html`<pre tabindex="0" class="long">${found.lines.join("\n")}</pre>` : html`<${Empty}>It wrote nothing to stderr since this gateway was started.<//>`)}
    <div class="bar"><button type="button" onClick=${() => setTurn(turn + 1)}>Read again</button>
      <a href="#/logs?${new URLSearchParams({ server, kind: "stderr" })}">Older lines in the log</a></div>
  </div>`;
}

/** @type {{at: number, event: any}[]} */
const recent = [];
follow((event) => {
  if (event.server === undefined || event.type === "call_progress") return;
  recent.unshift({ at: Date.now() / 1000, event });
  recent.length = Math.min(recent.length, MOST_EVENTS * 5);
});

/** What happened to it since the page was opened. */
export function Events({ server }) {
  const [, setTurn] = useState(0);
  useEffect(() => follow((event) => { if (event.server === server) setTurn((count) => count + 1); }), [server]);
  const own = recent.filter((one) => one.event.server === server).slice(0, MOST_EVENTS);
  return html`${own.length === 0 ? html`<${Empty}>Nothing has happened to it since this page was opened. Calls stand in <a href="#/logs?${new URLSearchParams({ server })}">its log</a>.<//>`
    : html`<table><thead><tr><th>When</th><th>What</th><th>Details</th></tr></thead><tbody>${own.map(({ at, event }) => html`<tr key=${event.sequence}>
      <td class="when">${moment(at)}</td><th scope="row">${event.type.replaceAll("_", " ")}</th><td>${details(event)}</td></tr>`)}</tbody></table>`}`;
}

function details({ type, server, sequence, ...fields }) {
  return Object.entries(fields).filter(([, value]) => value !== null && value !== "" && value !== 0)
    .map(([key, value]) => `${key.replaceAll("_", " ")}: ${key === "seconds" ? took(value) : typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
}

const CLIENTS = ["claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "codex", "gemini-cli", "discovery"];

/** Its entry as other clients write it. */
export function Export({ server }) {
  const [client, setClient] = useState(CLIENTS[0]);
  const [found, error] = useLoaded((signal) => get(`/servers/${part(server)}/entry`, { client }, signal), [server, client]);
  return html`<div aria-busy=${!found && !error}>
    <label>For <select value=${client} onChange=${(e) => setClient(e.target.value)}>${CLIENTS.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
    <${Problem} error=${error} />
    ${found && html`<p class="note">What ${found.label} has in its file (${found.format}):</p><${Command} text=${found.text} />
      ${found.command && html`<p class="note">Or as a command:</p><${Command} text=${found.command} />`}
      ${found.values.length > 0 && html`<p>It needs a value for ${found.values.map((one) => html`<code key=${one}>${one}</code> `)}; no value is written here.</p>`}
      ${found.notes.length > 0 && html`<ul class="warnings">${found.notes.map((one) => html`<li key=${one}>${one}</li>`)}</ul>`}`}
  </div>`;
}
