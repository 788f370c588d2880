// @ts-check
// One server in full: its state and what to do about it, and an address for each part of it.
import { useRef, useState } from "preact/hooks";
import { all, get, part, post } from "../api.js";
import { html } from "../html.js";
import { revision, servers } from "../live.js";
import { grants, Plan } from "../plan.js";
import { ago, Confirmed, counted, Drawer, duration, Empty, Fact, moment, Problem, Prose, State, took, useAction, useLoaded, withWords } from "../ui.js";
import { Prompts, Resources } from "./server_offerings.js";
import { Configuration, Events, Export, LogIn, Review, Secrets, ServerMetrics, Stderr } from "./server_parts.js";

const TABS = /** @type {[string, string, any][]} */ ([
  ["", "State", StateTab], ["tools", "Tools", ToolsTab], ["resources", "Resources", Resources], ["prompts", "Prompts", Prompts],
  ["review", "Review", Review], ["configuration", "Configuration", Configuration], ["secrets", "Secrets", Secrets],
  ["metrics", "Metrics", ServerMetrics], ["stderr", "stderr", Stderr], ["events", "Events", Events], ["export", "Export", Export],
]);

const TRANSIENT = "transient"; // where a server for a trial is from: it is in no list, and is not switched

/** @param {{name: string, tab: string, isChanging: boolean, onClose: () => void}} given */
export function Server({ name, tab, isChanging, onClose }) {
  const [key, , Tab] = TABS.find(([one]) => one === tab) || TABS[0];
  const address = (one) => `#/servers/${part(name)}${one ? `/${one}` : ""}`;
  return html`<${Drawer} title=${name} onClose=${onClose}>
    <nav class="tabs parts" aria-label=${`Parts of ${name}`}>${TABS.map(([one, title]) => html`<a key=${one} href=${address(one)} aria-current=${one === key ? "page" : undefined}
      onClick=${(event) => { event.preventDefault(); history.replaceState(null, "", address(one)); dispatchEvent(new HashChangeEvent("hashchange")); }}>${title}</a>`)}</nav>
    <${Tab} key=${key} server=${name} isChanging=${isChanging} />
  <//>`;
}

function StateTab({ server: name }) {
  const path = `/servers/${part(name)}`;
  const [turned, setTurned] = useState(0);
  const [health, error] = useLoaded((signal) => get(path, { health: true }, signal), [name], [revision.value, servers.value, turned]);
  const again = () => setTurned((count) => count + 1);
  const [turn, isTurning, turnError, turnedTo] = useAction(async () => { const answer = await post(path, { action: health.wanted ? "disable" : "enable" }); again(); return answer; });
  const before = useRef(/** @type {string | null} */ (null)); // the reason before the last try
  const tried = (ask) => async () => {
    before.current = health.reason;
    try { return await ask(); } finally { again(); }
  };
  const [refresh, isListing, listError, report] = useAction(tried(async () => (await post("/refresh", { servers: [name] })).servers[0]));
  const [check, isChecking, checkError, answer] = useAction(tried(() => post(path, { action: "ping" })));
  return html`<div aria-busy=${!health && !error}>
    <${Problem} error=${error} />
    ${health && html`
      <p class="lead"><${State} state=${health.status} />${health.since && html` <span class="note" title=${moment(health.since)}>for ${duration(Date.now() / 1000 - health.since)}</span>`}</p>
      ${health.reason && html`<p><${Prose} text=${health.reason} isSentence /></p>`}
      ${health.hint && html`<p class="hint"><${Prose} text=${health.hint} isSentence /></p>`}
      ${isNextStepShown(health) && html`<p>Next step: <code>${health.next_step}</code></p>`}
      ${health.status === "needs_auth" && html`<${LogIn} server=${name} />`}
      <div class="bar">
        ${health.source !== TRANSIENT && html`<button type="button" onClick=${turn} disabled=${isTurning}>${health.wanted ? "Disable" : "Enable"}</button>`}
        ${health.wanted && html`
          ${health.source !== TRANSIENT && html`<button type="button" onClick=${refresh} disabled=${isListing}>${isListing ? "Connecting …" : health.is_well ? "List its tools again" : "Connect"}</button>`}
          <button type="button" onClick=${check} disabled=${isChecking}>${isChecking ? "Checking …" : "Check"}</button>
          ${health.session?.pid && html`<${Confirmed} label="Restart …" question=${`Restart ${name}?`} verb="Restart it" act=${async () => { await post(path, { action: "restart" }); again(); }}>
            <p>Calls that run now end first. What the server keeps in memory is lost.</p><//>`}`}
        ${health.status === "needs_config" && html`<a href="#${path}/secrets">Give its values</a>`}
        ${health.code && health.source !== TRANSIENT && html`<a href="#${path}/configuration/change">Change its entry</a>`}
        <a href="#/logs?${new URLSearchParams({ server: name })}">Its log</a>
      </div>
      <${Problem} error=${turnError} />
      ${turnedTo?.copy && html`<p role="status">It is a server of your own now.</p><${Plan} plan=${turnedTo.copy} />`}
      ${listError && html`<${Failed} health=${health} before=${before.current} message=${listError.message}><${Problem} error=${listError} /><//>`}
      ${checkError && html`<${Failed} health=${health} before=${before.current} message=${checkError.message}><${Problem} error=${checkError} /><//>`}
      ${report && (report.success ? html`<p role="status">It has ${counted(report.tool_count, "tool")}.</p>`
    : html`<${Failed} health=${health} before=${before.current} message=${report.message}><p role="status">${report.message}</p><//>`)}
      ${answer && (answer.status === "healthy" ? html`<p role="status">It answered within ${took(answer.latency_ms / 1000)}.</p>`
    : html`<${Failed} health=${health} before=${before.current} message=${answer.error}><p role="status">It did not answer: ${answer.error}</p><//>`)}
      <dl class="facts wide">
        <${Fact} name="Tools">${health.enabled_count.toLocaleString("en")}${health.enabled_count < health.tool_count && ` of ${health.tool_count} enabled`}${health.withheld_count > 0 && html`; <a href="#/servers/${part(name)}/review">${health.withheld_count} wait for review</a>`}<//>
        <${Fact} name="Listed">${ago(health.listed_at)}${health.is_stale && "; these are the last known tools"}<//>
        ${health.next_try && html`<${Fact} name="Next try">${moment(health.next_try)}<//>`}
        <${Fact} name="From">${health.source}${health.package && html` <code>${health.package}</code>`}<//>
        ${health.sandbox && html`<${Fact} name="Sandbox">${grants(health.sandbox)}<//>`}
        ${health.session && html`
          ${health.session.pid && html`<${Fact} name="Process">${health.session.pid}<//>`}
          ${health.session.protocol_version && html`<${Fact} name="Protocol">${health.session.protocol_version}<//>`}
          <${Fact} name="Messages">${Object.entries(health.session.counters).filter(([, count]) => count).map(([key, count]) => `${count.toLocaleString("en")} ${key.replaceAll("_", " ")}`).join(", ") || "none yet"}<//>`}
      </dl>
      ${health.dropped.length > 0 && html`<h3>Tools that cannot be used</h3><ul>${health.dropped.map((one) => html`<li key=${one.tool}>${one.tool}: ${one.reason}</li>`)}</ul>`}
      ${health.session?.invalid_output.length > 0 && html`<h3>Output that is not MCP</h3><pre tabindex="0">${health.session.invalid_output.join("\n")}</pre>`}
      ${(health.stderr || health.session?.stderr) && html`<h3>Last lines of stderr</h3><pre tabindex="0">${health.stderr || health.session.stderr}</pre>`}`}
  </div>`;
}

/** A failed try; where its reason stands above already, only that it was tried.
 * @param {{health: any, before: string | null, message: string, children: any}} given */
function Failed({ health, before, message, children }) {
  const { reason } = health;
  const isAbove = Boolean(reason && message) && (reason.includes(message) || message.includes(reason));
  if (!isAbove) return children;
  return html`<p role="status">${reason === before ? "Tried just now; no change." : "Tried just now; it failed for the reason above."}</p>`;
}

/** A hint names what to do, and this drawer is what these commands show. @param {any} health */
function isNextStepShown({ hint, next_step: step }) {
  return Boolean(step) && !hint && !/^discovery (health|refresh|review) /.test(step);
}

function ToolsTab({ server }) {
  const [words, setWords] = useState("");
  const [tools, error] = useLoaded(() => all(`/servers/${part(server)}/tools`, "tools", { all: true }), [server], [revision.value]);
  const has = withWords(words);
  const found = (tools || []).filter((tool) => has(`${tool.tool} ${tool.summary} ${tool.tags.join(" ")}`));
  return html`<div aria-busy=${!tools && !error}>
    <${Problem} error=${error} />
    ${tools?.length === 0 && html`<${Empty}>It has no tools.<//>`}
    ${tools?.length > 8 && html`<label>Filter <input type="search" value=${words} onInput=${(e) => setWords(e.target.value)} /></label>`}
    <ul class="tools">${found.slice(0, 300).map((tool) => html`<li key=${tool.tool} class=${tool.enabled ? "" : "off"}>
      <a href="#/tools/${part(server)}/${part(tool.tool)}">${tool.tool}</a> ${!tool.enabled && html`<span class="state off">○ disabled: ${tool.reason}</span>`}
      <p>${tool.summary}</p></li>`)}</ul>
    ${found.length > 300 && html`<p class="note">${found.length - 300} more; filter them.</p>`}</div>`;
}
