// @ts-check
// Fleet: the refresh queue of workers, what is due, who works on what, and what failed.
import { useState } from "preact/hooks";
import { get, part, post } from "../api.js";
import { html } from "../html.js";
import { revision } from "../live.js";
import { visible } from "../texts.js";
import { ago, counted, duration, Empty, Problem, Prose, useAction, useLoaded } from "../ui.js";

export function Fleet() {
  const [looks, setLooks] = useState(0);
  const again = () => setLooks((count) => count + 1);
  const [found, error, isLoading] = useLoaded((signal) => get("/fleet", { limit: 500 }, signal), [looks, revision.value]);
  const jobs = found?.jobs || [];
  const failed = jobs.filter((job) => job.state === "dead" || job.state === "error");
  // Times are those of the registry's clock, not of this machine's.
  const since = (at) => ago(at && at + Date.now() / 1000 - found.now);
  const recent = found?.recent_activity || [];
  const total = Object.values(found?.counts || {}).reduce((sum, count) => sum + count, 0);
  const held = jobs.filter((job) => job.state === "processing");
  return html`
    <div class="bar"><h2>Fleet</h2><button type="button" onClick=${again}>Refresh</button></div>
    <p class="note">Workers (<code>discovery fleet worker</code>) list the tools of servers for all gateways with this registry. This is their queue.</p>
    <${Problem} error=${error} />
    ${found && jobs.length === 0 && html`<${Empty}>The queue is empty. <code>discovery fleet worker</code> fills it with the configured servers.<//>`}
    ${jobs.length > 0 && html`
      <dl class="figures" aria-busy=${isLoading}>
        ${Object.entries(found.counts).map(([state, count]) => html`<div key=${state}><dt>${state}</dt><dd>${count.toLocaleString("en")}</dd></div>`)}
        <div><dt>oldest due</dt><dd>${found.oldest_due ? duration(found.oldest_due.seconds) : "none"}</dd>${found.oldest_due && html`<dd class="note">${found.oldest_due.server}</dd>`}</div>
        <div><dt>embeddings</dt><dd>${found.embedding_count.toLocaleString("en")}</dd></div>
      </dl>
      <section aria-labelledby="failed"><h3 id="failed">Failed</h3>
        ${failed.length === 0 && html`<${Empty}>None.<//>`}
        <ul class="attention">${failed.map((job) => html`<li key=${job.server}><${Failed} job=${job} onDone=${again} /></li>`)}</ul></section>
      <section aria-labelledby="held"><h3 id="held">Being listed now</h3>
        ${held.length === 0 && html`<${Empty}>None.<//>`}
        <ul>${held.map((job) => html`<li key=${job.server}>${name(job)} by <code>${visible(job.worker)}</code>, begun ${since(job.claimed_at)}</li>`)}</ul></section>
      <section aria-labelledby="recent"><h3 id="recent">Recent activity</h3>
        ${recent.length === 0 && html`<p>None.</p>`}
        <ul>${recent.map((job) => html`<li key=${job.server}>${name(job)} <span class="note">${done(job)} ${since(Math.max(job.listed_at || 0, job.claimed_at || 0, job.failing_since || 0))}</span></li>`)}</ul>
        <p class="note">Newest servers: ${found.recent_registrations.join(", ")}</p></section>
      <section aria-labelledby="queue"><h3 id="queue">${counted(total, "server")}</h3><table>
        <thead><tr><th>Server</th><th>State</th><th class="number">Tools</th><th>Listed</th><th>Tries since then</th><th>Again</th></tr></thead>
        <tbody>${jobs.map((job) => html`<tr key=${job.server}><td>${name(job)}</td><td>${job.state}</td>
          <td class="number" data-label="tools">${job.tool_count ?? ""}</td><td data-label="listed">${since(job.listed_at)}</td><td data-label="tries since then">${job.attempts}</td>
          <td><${Ask} job=${job} verb="refresh" label="List now" onDone=${again} /></td></tr>`)}</tbody></table>
        ${found.next_cursor && html`<p class="note">The first 500 are shown; <code>discovery fleet status --all</code> has all.</p>`}</section>`}`;
}

const name = (job) => html`<a href="#/servers/${part(job.server)}">${job.server}</a>`;

/** What its last claim came to. */
function done(job) {
  if (job.state === "processing") return "is being listed, begun";
  if (job.failing_since) return `failing (${job.state}), first`;
  if (job.error) return `failed (${job.state}),`;
  return job.listed_at ? `${counted(job.tool_count ?? 0, "tool")} listed,` : `${job.state},`;
}

/** A button that has workers take a server up. */
function Ask({ job, verb, label, onDone }) {
  const [ask, isAsking, error, isAsked] = useAction(async () => {
    const { servers } = await post("/fleet", { action: verb, servers: [job.server] });
    onDone();
    return servers.length > 0 ? "asked for" : "not possible now";
  });
  return html`<button type="button" onClick=${ask} disabled=${isAsking} aria-label="${label}: ${job.server}">${isAsking ? "Asking …" : label}</button>
    <span class="note" role="status"> ${isAsked}</span><${Problem} error=${error} />`;
}

function Failed({ job, onDone }) {
  return html`${name(job)} <strong>${job.state}</strong> <span class="note">${job.attempts === 0 ? "waits to be tried again" : `after ${counted(job.attempts, "attempt")}`}</span>
    <p><${Prose} text=${visible(job.error?.message || "")} /></p>
    ${job.attempts > 0 && html`<p><${Ask} job=${job} verb="retry" label="Try again" onDone=${onDone} /></p>`}`;
}
