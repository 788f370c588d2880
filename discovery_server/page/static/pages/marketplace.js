// @ts-check
// Marketplace: servers that others publish, and what each of them would run.
import { useEffect, useState } from "preact/hooks";
import { get, part, post, request } from "../api.js";
import { html } from "../html.js";
import { Planned } from "../install.js";
import { Plan } from "../plan.js";
import { quoted } from "../texts.js";
import { address, ago, Command, counted, Drawer, Empty, Fact, Problem, Prose, useAction, useLast, useLoaded, useSettled } from "../ui.js";

const TYPING = 400; // milliseconds; a search may ask others
const PAGE = 20;

export function Marketplace({ rest, query }) {
  const [words, setWords] = useState(query.get("q") || "");
  const [source, setSource] = useState(query.get("source") || "");
  const [synced, setSynced] = useState(0);
  const asked = useSettled(words.trim(), TYPING);
  const here = address("marketplace", { q: asked, source });
  useEffect(() => { if (!rest[0]) history.replaceState(null, "", here); }, [here]);
  const chosen = { query: asked, source, limit: PAGE };
  const [answer, error, isLoading] = useLoaded(async (signal) => ({ ...(await get("/marketplace", chosen, signal)), chosen }), [asked, source], [synced]);
  const found = useLast(answer, isLoading);
  const [sources, sourcesError] = useLoaded((signal) => get("/marketplace/sources", {}, signal), [], [found]); // a search may copy them
  return html`
    <h2>Marketplace</h2>
    <form class="row" onSubmit=${(e) => e.preventDefault()}>
      <label class="wide">Search <input data-search type="search" value=${words} maxlength="500" onInput=${(e) => setWords(e.target.value)} placeholder="what the server should do, or its name" /></label>
      <label>Source <select value=${source} onChange=${(e) => setSource(e.target.value)}>
        <option value="">every</option>${(sources?.sources || []).map((one) => html`<option key=${one.id} value=${one.id}>${one.id}</option>`)}</select></label>
    </form>
    <p class="note">${(sources?.sources || []).map((one) => `${one.id}: ${one.synced_at ? `${counted(one.entries, "entry", "entries")}, copied ${ago(one.synced_at)}` : "not copied yet"}`).join(" · ")}</p>
    <${Problem} error=${error} />
    <div aria-busy=${isLoading}>
      ${isLoading && html`<p class="note" role="status">Searching … A source without a copy here is copied first.</p>`}
      ${found && html`<${Entries} first=${found} chosen=${found.chosen} />`}
    </div>
    <${Problem} error=${sourcesError} />
    <${Installed} />
    ${sources && html`<${Sources} sources=${sources.sources} onSynced=${() => setSynced(synced + 1)} />`}
    ${rest[0] && html`<${Entry} key=${rest[0]} name=${rest[0]} onClose=${() => { location.hash = here; }} />`}`;
}

/** The entries of a search, page by page. */
function Entries({ first, chosen }) {
  const isEverything = !chosen.query;
  const [further, setFurther] = useState(/** @type {{of: any, pages: any[]}} */ ({ of: null, pages: [] }));
  const pages = [first, ...(further.of === first ? further.pages : [])];
  const last = pages[pages.length - 1];
  const [more, isLoading, error] = useAction(async () => {
    const next = await get("/marketplace", { ...chosen, cursor: last.next_cursor });
    setFurther({ of: first, pages: [...pages.slice(1), next] });
  });
  const entries = pages.flatMap((page) => page.servers);
  return html`
    ${first.problems.map((problem) => html`<p class="notice" key=${problem.message}><${Prose} text=${problem.message} /> <code>${problem.code}</code></p>`)}
    <section aria-label="Entries">
    ${entries.length === 0 && html`<${Empty}>${isEverything ? "No source has an entry here. “Update the catalog” copies them." : "No entry fits. Fewer or other words may find one."}<//>`}
    ${isEverything && entries[0]?.updated_at && html`<p class="note">Recently updated</p>`}
    <ul class="entries">${entries.map((entry) => html`<li key=${entry.id}>
      <p><a href=${address(`marketplace/${part(entry.name)}`, { q: chosen.query, source: chosen.source })}>${entry.title || entry.name}</a>
        ${entry.title && html` <span class="note">${entry.name}</span>`} <span class="note">${entry.version}</span>
        ${entry.is_reviewed && html` <span class="tag">reviewed</span>`}
        ${entry.status !== "active" && html` <span class="state bad">▲ ${entry.status}</span>`}</p>
      <p class="summary">${entry.description}</p>
      <p class="note">${[offers(entry).join(", "), entry.publisher && `by ${entry.publisher}`, origins(entry)].filter(Boolean).join(" · ")}</p>
    </li>`)}</ul>
    ${last.next_cursor && html`<button type="button" onClick=${more} disabled=${isLoading}>${isLoading ? "Reading …" : "More"}</button>`}
    <${Problem} error=${error} /></section>`;
}

/** In which forms an entry is offered. */
function offers(entry) {
  return [...new Set([...entry.packages.map((one) => one.type), ...(entry.remotes.length ? ["remote"] : [])])];
}

/** Which sources have an entry, but for those that its form names. */
function origins(entry) {
  const names = entry.sources.map((one) => one.id).filter((id) => !offers(entry).includes(id));
  return names.length > 0 && `from ${names.join(", ")}`;
}

function Sources({ sources, onSynced }) {
  const [sync, isSyncing, error] = useAction(async () => { await post("/marketplace/sync", {}); onSynced(); });
  const problems = sources.flatMap((one) => one.problems.map((problem) => ({ ...problem, source: one.id })));
  return html`<section aria-labelledby="sources">
    <h3 id="sources">Sources</h3>
    ${sources.length === 0 ? html`<${Empty}>No source is configured, in <code>marketplace.sources</code>.<//>` : html`<table>
      <thead><tr><th>Source</th><th>Type</th><th class="number">Entries</th><th>Copied</th><th>State</th></tr></thead>
      <tbody>${sources.map((one) => html`<tr key=${one.id}>
        <th scope="row">${one.id}</th><td>${one.type}</td>
        <td class="number" data-label="entries">${one.entries.toLocaleString("en")}</td>
        <td data-label="copied">${ago(one.synced_at)}</td>
        <td>${one.is_syncing ? "◐ being copied" : one.problems.length ? html`<span class="state bad">▲ ${counted(one.problems.length, "problem")}</span>` : one.is_complete ? html`<span class="state good">● complete</span>` : "○ not complete"}</td></tr>`)}</tbody></table>`}
    ${problems.map((one) => html`<p class="notice" key=${`${one.source} ${one.message}`}>${one.source}: <${Prose} text=${[one.message, one.hint].filter(Boolean).join("; ")} /> <code>${one.code}</code></p>`)}
    <p><button type="button" onClick=${sync} disabled=${isSyncing}>${isSyncing ? "Copying …" : "Update the catalog"}</button></p>
    <${Problem} error=${error} />
  </section>`;
}

function Entry({ name, onClose }) {
  const [details, error, isLoading] = useLoaded((signal) => get("/marketplace/entry", { name }, signal), [name]);
  return html`<${Drawer} title=${name} onClose=${onClose}>
    <${Problem} error=${error} />
    <div aria-busy=${isLoading}>${isLoading && html`<p class="note" role="status">Asking its source, and what it would run …</p>`}</div>
    ${details && html`<${Details} details=${details} />`}
  <//>`;
}

function Details({ details }) {
  const { server, plan, obstacle } = details;
  const warnings = [...new Set([...details.warnings.map((one) => one.message), ...(plan?.warnings || [])])];
  const needed = details.prerequisites;
  return html`
    <p class="description">${server.description}</p>
    <dl class="facts">
      <${Fact} name="Version">${server.version}${server.updated_at && `, ${new Date(server.updated_at).toLocaleDateString()}`}<//>
      <${Fact} name="Publisher">${server.publisher || "unknown"}<//>
      <${Fact} name="Sources">${server.sources.map((one) => `${one.id} (${one.trust})`).join(", ")}<//>
      ${server.repository && html`<${Fact} name="Repository"><code>${server.repository}</code><//>`}
      ${server.website && html`<${Fact} name="Website"><code>${server.website}</code><//>`}
      ${server.status !== "active" && html`<${Fact} name="Status"><span class="state bad">▲ ${server.status}</span> ${server.status_message}<//>`}
    </dl>
    ${warnings.length > 0 && html`<h3>Warnings</h3><ul class="warnings">${warnings.map((text) => html`<li key=${text}><${Prose} text=${text} /></li>`)}</ul>`}
    ${details.problems.map((one) => html`<p class="notice" key=${one.message}><${Prose} text=${one.message} /> <code>${one.code}</code></p>`)}
    <h3>What it would run</h3>
    <${Problem} error=${obstacle} />
    ${plan && html`<${Plan} plan=${{ ...plan, warnings: [], prerequisites: [] }} /><${Inputs} plan=${plan} />`}
    ${!plan && !obstacle && html`<${Empty}>Nothing: it offers neither a package nor an address.<//>`}
    ${needed.length > 0 && html`<h3>It needs</h3><ul>${needed.map((one) => html`<li key=${one.program}>
      <span class="state ${one.is_usable ? "good" : "bad"}">${one.is_usable ? "●" : "▲"} ${one.program}</span> ${one.is_usable ? one.version : html`<${Prose} text=${one.problem} /> <${Prose} text=${one.hint} />`}</li>`)}</ul>`}
    ${server.refused.length > 0 && html`<h3>Refused</h3><ul>${server.refused.map((one) => html`<li key=${one.identifier}>${one.type} ${one.identifier}: <${Prose} text=${one.reason} /></li>`)}</ul>`}
    ${server.tools?.length > 0 && html`<h3>Its tools, as published</h3><ul class="tools">${server.tools.map((tool) => html`<li key=${tool.name}>${tool.name}<p>${tool.description}</p></li>`)}</ul>`}
    ${plan && html`<${Install} entry=${server} />`}
    ${!plan && html`<p>In a terminal:</p><${Command} text=${`discovery marketplace install ${quoted(server.name)}`} />`}`;
}

function Inputs({ plan }) {
  return plan.inputs.length > 0 && html`<h3>It asks for</h3><ul class="tools">${plan.inputs.map((one) => html`<li key=${one.name}>
    <code>${one.name}</code> ${plan.missing.includes(one.name) && html`<span class="state bad">▲ required</span>`} ${one.secret && html`<span class="tag">secret</span>`}
    <p>${one.description}${one.choices.length > 0 && ` One of ${one.choices.join(", ")}.`}${one.default && ` Else ${one.default}.`}</p></li>`)}</ul>`;
}

/** The entry is installed here, or with the command in a terminal; both show what would run, and ask. */
function Install({ entry }) {
  const { name } = entry;
  const [isOpen, setOpen] = useState(false);
  const [as, setAs] = useState("");
  const [offer, setOffer] = useState("");
  const [hasNetwork, setNetwork] = useState(true);
  const kinds = offers(entry);
  const extra = { name, network: hasNetwork, ...(as && { as }), ...(offer && { offer }) };
  return html`<section aria-labelledby="install"><h3 id="install">Install it</h3>
    ${!isOpen && html`<div class="bar"><button type="button" class="strong" onClick=${() => setOpen(true)}>Install …</button>
      <span class="note">It shows what would run, and asks.</span></div>`}
    ${isOpen && html`
      <div class="row">
        <label>As <input value=${as} maxlength="200" autocomplete="off" spellcheck=${false} placeholder="a short form of its name" onInput=${(e) => setAs(e.target.value)} /></label>
        ${kinds.length > 1 && html`<label>From <select value=${offer} onChange=${(e) => setOffer(e.target.value)}><option value="">the first that runs</option>${kinds.map((kind) => html`<option key=${kind} value=${kind}>${kind}</option>`)}</select></label>`}
        <label class="check"><input type="checkbox" checked=${hasNetwork} onChange=${(e) => setNetwork(e.target.checked)} /> its sandbox has the network</label>
      </div>
      <${Planned} act=${(choice) => post("/install", choice)} extra=${extra} verb="Install"
        show=${(form) => html`<${Plan} plan=${form} />`}
        done=${(answer) => html`<p><span class="state good">● Installed</span> as <a href=${`#/servers/${part(answer.name)}`}>${answer.name}</a>. Its tools are found from now on.</p>`} />`}
    <p class="note">Or in a terminal:</p><${Command} text=${`discovery marketplace install ${quoted(name)}`} />
  </section>`;
}

/** The servers that were installed, with what is newer; sources are asked on request only. */
function Installed() {
  const [looks, setLooks] = useState(0); // a change while one is under way begins another
  const look = () => setLooks((count) => count + 1);
  const [found, error, isLoading] = useLoaded(async (signal) => (looks > 0 ? (await get("/marketplace/updates", {}, signal)).servers : null), [], [looks]);
  const isLooking = looks > 0 && isLoading;
  const [open, setOpen] = useState("");
  return html`<section aria-labelledby="installed"><h3 id="installed">Installed servers</h3>
    <p><button type="button" onClick=${look} disabled=${isLooking}>${isLooking ? "Asking their sources …" : "Look for updates"}</button></p>
    <${Problem} error=${error} />
    ${found?.length === 0 && html`<${Empty}>None was installed from the marketplace.<//>`}
    <ul class="entries">${(found || []).map((one) => html`<li key=${one.name}>
      <p><a href=${`#/servers/${part(one.name)}`}>${one.name}</a> <span class="note">${one.version}</span> ${one.differences.length > 0 && one.available && html`<span class="tag">${one.available}</span>`}</p>
      <${Differences} of=${one} />
      <${Problem} error=${one.problem} />
      <div class="row">
        ${one.differences.length > 0 && html`<button type="button" onClick=${() => setOpen(`update ${one.name}`)}>Update …</button>`}
        <button type="button" onClick=${() => setOpen(`rollback ${one.name}`)}>Go back …</button>
        <button type="button" onClick=${() => setOpen(`uninstall ${one.name}`)}>Uninstall …</button></div>
      ${open.endsWith(` ${one.name}`) && html`<${Change} key=${open} verb=${open.split(" ")[0]} server=${one.name} onDone=${look} />`}
    </li>`)}</ul>
  </section>`;
}

function Differences({ of }) {
  return of.differences.length > 0 && html`<ul class="tools">${of.differences.map((one) => html`<li key=${one.what}>${one.what}: <del>${one.before ?? "nothing"}</del> → <ins>${one.after ?? "nothing"}</ins></li>`)}</ul>`;
}

const VERBS = { update: "Update", rollback: "Go back", uninstall: "Uninstall" };

/** An update, a step back or a removal of an installed server, as it was shown. */
function Change({ verb, server, onDone }) {
  const path = `/servers/${part(server)}`;
  const act = async ({ digest, ...choice }) => {
    const answer = verb === "uninstall" ? await request("DELETE", path, { query: { digest } })
      : await post(`${path}/${verb}`, { ...(verb === "update" && choice), digest });
    if (digest) onDone();
    return answer;
  };
  const show = (form) => {
    if (verb === "uninstall") return html`<${Plan} plan=${form} /><p>${form.kept_secrets.length > 0 && `Its secrets stay: ${form.kept_secrets.join(", ")}.`}</p>`;
    if (verb === "rollback") return form.available ? html`<p>${form.version} → ${form.available}</p><pre tabindex="0">${form.url || form.command.map(quoted).join(" ")}</pre>` : html`<${Empty}>There is no earlier version here.<//>`;
    return html`<${Differences} of=${form} />${form.plan && html`<${Plan} plan=${form.plan} />`}`;
  };
  const blocked = (form) => ((verb === "rollback" && !form.available) || (verb === "update" && !form.plan) ? "There is nothing to change." : "");
  return html`<${Planned} act=${act} verb=${VERBS[verb]} show=${show} blocked=${blocked}
    done=${() => html`<p><span class="state good">● Done</span></p>`} />`;
}
