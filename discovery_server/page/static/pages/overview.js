// @ts-check
// Overview: what needs attention first, each with what mends it.
import { useState } from "preact/hooks";
import { get, part, post } from "../api.js";
import { html } from "../html.js";
import { CALL_KINDS, calls, hasProblem, hasUnusable, reloads, revision, running, servers, status } from "../live.js";
import { questions } from "../made_calls.js";
import { counted, Empty, moment, Name, Outcome, Problem, Prose, State, took, useAction, useLoaded } from "../ui.js";
import { Approvals, UNTRUSTED } from "../trust.js";
import { fileOf, UseServers } from "./connect.js";
import { Caller, Running, toolOf, Waiting } from "./logs.js";
import { Recent, useTokens } from "./metrics.js";
import { LogIn, MissingValues } from "./server_parts.js";

const OWN = ["discovery.yaml", "registry"]; // where entries stand that can be changed here
const NO_SERVERS = "CONFIG_NO_SERVERS";
const MOST_CALLS = 20;
const FEW_SERVERS = 2_000; // the queue of more is some megabytes

export function Overview() {
  const [logged] = useLoaded((signal) => get("/logs", { kind: CALL_KINDS, limit: MOST_CALLS }, signal), []);
  const ill = servers.value.filter((server) => server.code);
  const lossy = servers.value.filter(hasUnusable);
  const held = servers.value.filter((server) => server.withheld_count > 0);
  const [asked, askedError] = useLoaded((signal) => get("/requests", { state: "waiting" }, signal), [], [revision.value, servers.value]);
  const requests = asked?.requests || [];
  const [hooks, hooksError] = useLoaded((signal) => get("/webhooks", {}, signal), [], [reloads.value, revision.value]);
  const isSmall = servers.value.length <= FEW_SERVERS;
  const [queue, queueError] = useLoaded((signal) => (isSmall ? get("/fleet", {}, signal) : null), [isSmall], [revision.value]);
  const dead = (queue?.jobs || []).filter((job) => job.state === "dead");
  const undelivered = (hooks?.webhooks || []).filter((one) => one.problem || one.disabled_at || one.dead > 0);
  const known = status.value;
  const last = [...new Map([...calls.value, ...[...(logged?.entries || [])].reverse()].map((call) => [call.id, call])).values()].slice(0, MOST_CALLS);
  const [configuration, error] = useLoaded((signal) => get("/configuration", {}, signal), [], [reloads.value, revision.value]);
  // A mistake in the entry of a server stands below that server.
  const problems = (configuration?.problems || []).filter(({ path = "" }) => !ill.some(({ name }) => path.startsWith(`servers.${name}.`)));
  const notices = (known?.notices || []).filter((one) => one.code !== NO_SERVERS); // the first visit says that, and more
  const asking = running.value.filter((call) => call.question !== null && !questions.value.some((one) => one.server === call.server && one.tool === call.tool));
  const isQuiet = [ill, lossy, held, requests, undelivered, dead, questions.value, asking, problems, notices].every((one) => one.length === 0);
  if (known?.server_count === 0 && isQuiet && !error && !askedError) return html`<${FirstContact} />`;
  return html`
    <h2>Overview</h2>
    <dl class="figures">
      <${Figure} name="Servers" value=${servers.value.length} note=${`${servers.value.filter(hasProblem).length} with problems`} />
      <${Figure} name="Tools" value=${known?.tool_count} note=${known && `${known.enabled_count} enabled`} />
      <${Figure} name="Calls since this page was opened" value=${calls.value.length} note=${failures()} />
      ${known?.enabled_count !== 0 && html`<${Spared} />`}
    </dl>
    <${Problem} error=${error || askedError || hooksError || queueError} />
    <section aria-labelledby="attention">
      <h3 id="attention">Needs attention</h3>
      ${isQuiet && html`<${Empty}>Nothing. Every server answers, and the configuration is valid.<//>`}
      <ul class="attention">
        ${problems.map((one) => html`<li key=${`${one.file}${one.line}${one.message}`}><${Prose} text=${one.message} /> <code>${one.code}</code>
          <p>${[one.file, one.line, one.column].filter(Boolean).join(":")}${one.hint && html` · <${Prose} text=${one.hint} />`}</p></li>`)}
        ${notices.map((notice) => html`<li key=${notice.message}><${Prose} text=${notice.message} /> <code>${notice.code}</code></li>`)}
        ${held.map((server) => html`<li key=${`held ${server.name}`}><a href="#/servers/${part(server.name)}/review">${server.name}</a>:
          ${counted(server.withheld_count, "definition waits", "definitions wait")} for your review</li>`)}
        ${requests.length > 0 && html`<li key="requests"><a href="#/settings">${counted(requests.length, "request of an agent waits", "requests of agents wait")}</a>:
          ${requests.map((one) => `${one.action} ${one.name}`).join(", ")}</li>`}
        ${questions.value.map((one) => html`<li key=${`question ${one.question_id}`}><a href=${toolOf(one)}>${one.server}:${one.tool}</a> has a question for you</li>`)}
        ${asking.map((call) => html`<li key=${`asking ${call.began_at}`}><a href=${toolOf(call)}>${call.server}:${call.tool}</a> <${Waiting} call=${call} /></li>`)}
        ${dead.length > 0 && html`<li key="dead"><a href="#/fleet">${counted(queue.counts.dead, "server is", "servers are")} tried by no worker any more</a>: ${dead.map((job) => job.server).join(", ")}</li>`}
        ${undelivered.map((one) => html`<li key=${`webhook ${one.name}`}>Webhook ${one.name}${one.disabled_at && " is disabled, as its receiver said that it is gone"}${one.dead > 0 && `, ${counted(one.dead, "delivery", "deliveries")} given up`}:
          <p><${Prose} text=${`${one.problem || one.failure}; mend that, then \`discovery webhooks retry ${one.name}\``} /></p></li>`)}
        ${lossy.map((server) => html`<li key=${`lost ${server.name}`}><a href="#/servers/${part(server.name)}">${server.name}</a>:
          ${counted(server.dropped.length, "tool")} of it cannot be used</li>`)}
        ${ill.filter((server) => server.status !== UNTRUSTED).map((server) => html`<li key=${server.name}>
          <a href="#/servers/${encodeURIComponent(server.name)}">${server.name}</a> <${State} state=${server.status} />
          <p><${Prose} text=${server.reason} isSentence /></p>${server.hint && !SHOWN_HERE.test(server.hint) && html`<p class="hint"><${Prose} text=${server.hint} isSentence /></p>`}
          <${Mend} server=${server} /></li>`)}
      </ul>
      <${Approvals} />
    </section>
    <${Running} />
    <section aria-labelledby="hour">
      <h3 id="hour">The last hour</h3>
      <${Recent} minutes=${60} />
    </section>
    <section aria-labelledby="calls">
      <h3 id="calls">Last calls</h3>
      ${last.length === 0 ? html`<${Empty}>No call yet. <a href="#/tools">Try a tool</a>.<//>` : html`<table>
        <thead><tr><th>When</th><th>Tool</th><th>Client</th><th>Outcome</th><th class="number">Time</th></tr></thead>
        <tbody>${last.map((call) => html`<tr key=${call.id}>
          <td class="when">${moment(call.at)}</td><td><a href=${toolOf(call)}><${Name} text=${`${call.server}:${call.tool}`} /></a></td><td class="word"><${Caller} call=${call} /></td><td><${Outcome} outcome=${call.outcome} /></td>
          <td class="number">${took(call.seconds)}</td></tr>`)}</tbody></table>`}
    </section>`;
}

/** What to do while there is no server: use those of a client, add one, or find one. */
function FirstContact() {
  const [found, error] = useLoaded((signal) => get("/clients", {}, signal), []);
  const clients = (found?.clients || []).filter((one) => one.servers > 0);
  return html`<h2>Welcome</h2>
    <p class="lead-text">There is no server yet. Add the servers that your agents should use; then connect the agents, which find every tool through this gateway.</p>
    <${Problem} error=${error} />
    ${clients.length > 0 && html`<section aria-labelledby="own"><h3 id="own">Use what a client of yours has</h3>
      <ul class="entries">${clients.map((one) => html`<li key=${one.path}><strong>${one.label}</strong> has ${counted(one.servers, "server")} <span class="note"><code>${one.path}</code></span>
        <p class="bar"><${UseServers} label=${one.label} of=${fileOf(one)} isMain=${one === clients[0]} /></p></li>`)}</ul></section>`}
    <div class="pair">
      <section aria-labelledby="try"><h3 id="try">Try it with the demo</h3><p>Three invented servers, a calendar, files and issues, with 30 tools that change nothing.</p>
        <p class="bar"><${UseServers} label="the demo" of=${{ demo: true }} isMain=${found && clients.length === 0} /></p></section>
      <section aria-labelledby="add"><h3 id="add">Add a server</h3><p>A program on this machine or an address; a block of another client can be pasted.</p><p><a href="#/servers?add=1">Add a server</a></p></section>
      <section aria-labelledby="find"><h3 id="find">Find a server</h3><p>The marketplace has thousands, and shows what would run before it runs.</p><p><a href="#/marketplace">Open the marketplace</a></p></section>
      <section aria-labelledby="connect"><h3 id="connect">Connect a client</h3><p>Claude, Cursor, VS Code and others then start this gateway by themselves.</p><p><a href="#/connect">Connect a client</a></p></section>
    </div>`;
}

const LAST_LINES = 4; // of its output that are shown at once

const SHOWN_HERE = /^`discovery (health|secrets set|login)\b/; // a hint that names what stands below the server

/** What mends a server, as far as it can be done here. */
function Mend({ server }) {
  const path = `#/servers/${part(server.name)}`;
  const [retry, isTrying, error, report] = useAction(async () => (await post("/refresh", { servers: [server.name] })).servers[0]);
  const output = server.stderr ? server.stderr.trimEnd().split("\n") : [];
  return html`${output.length > 0 && html`<pre tabindex="0">${output.slice(-LAST_LINES).join("\n")}</pre>`}
    ${server.status === "needs_config" && html`<${MissingValues} server=${server.name} />`}
    ${server.status === "needs_auth" && html`<${LogIn} server=${server.name} />`}
    <p class="bar"><button type="button" onClick=${retry} disabled=${isTrying}>${isTrying ? "Trying …" : "Try again"}</button>
    ${OWN.includes(server.source) && html`<a href=${`${path}/configuration/change`}>Change its entry</a>`}
    ${output.length > LAST_LINES && html`<a href=${`${path}/stderr`}>All that it wrote</a>`}
    <span role="status">${report && !report.success && "Tried just now; no change."}</span></p>
    <${Problem} error=${error} />`;
}

function Figure({ name, value, note }) {
  return html`<div><dt>${name}</dt><dd>${value === undefined ? "…" : value.toLocaleString("en")}</dd>${note && html`<dd class="note">${note}</dd>`}</div>`;
}

/** The tokens that definitions of all tools would take, less those of the meta-tools and a search. */
function Spared() {
  const [isWanted, want] = useState(false);
  const [costs, isCounted] = useTokens(isWanted);
  const [all, meta] = costs?.ways || [];
  if (!isCounted) return html`<div><dt>Tokens saved</dt><dd><button type="button" onClick=${() => want(true)}>Count them</button></dd></div>`;
  const note = all && html`<details><summary>of ${all.definition_tokens.toLocaleString("en")}</summary>
    The definitions of all tools, less those of the meta-tools (${meta.definition_tokens.toLocaleString("en")}) and what finds one tool
    (${meta.answer_tokens.toLocaleString("en")}, the mean of ${counted(costs.requests, "drafted request")}). Tokens are estimated.</details>`;
  return html`<${Figure} name="Tokens saved" value=${all && Math.max(0, all.definition_tokens - meta.definition_tokens - meta.answer_tokens)} note=${note} />`;
}

function failures() {
  return counted(calls.value.filter((call) => call.outcome !== "ok").length, "failure");
}
