// @ts-check
// Metrics: calls, errors and durations of servers and their tools.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, part, post } from "../api.js";
import { Timeline } from "../chart.js";
import { html } from "../html.js";
import { follow, isCall, revision, servers as known, status } from "../live.js";
import { address, ago, Confirmed, counted, Empty, moment, Name, Problem, took, useLoaded, useSettled } from "../ui.js";
import { OwnAlone } from "./logs.js";

const GATHERED = 1_000; // milliseconds in which calls are gathered before they are counted again
const FEW = 30; // tools that are shown without being asked for
const BARS = 12;
const TOP = 5; // tools
const SPANS = { 60: ["hour", 1], 720: ["12 hours", 10], 1440: ["day", 20], 10080: ["week", 120] }; // minutes: name, minutes of a span

const FEW_TOOLS = 2_000; // the tokens of more are counted on request alone, since it takes seconds

/** The tokens of tools by `server:tool`, unless there are too many, and what the ways to give tools to agents take. */
export function useTokens(isWanted = false) {
  const count = status.value?.enabled_count;
  const isCounted = count !== undefined && (isWanted || count <= FEW_TOOLS);
  const [costs] = useLoaded((signal) => (isCounted ? get("/tokens", { each: true }, signal) : null), [isCounted], [useSettled(revision.value, GATHERED)]);
  return /** @type {const} */ ([costs, isCounted]);
}

const DRAWN = 5_000; // milliseconds between two drawings of a chart while calls happen

/** Calls as they happen over the time that is chosen in the address. @param {{minutes: number, server?: string}} given */
export function Recent({ minutes, server = "" }) {
  const [callCount] = useCalls(DRAWN);
  const [, step] = SPANS[minutes];
  const [timeline, error] = useLoaded(async (signal) => (await get("/metrics", { minutes, step, server }, signal)).timeline, [minutes, server], [callCount]);
  if (error) return html`<${Problem} error=${error} />`;
  if (!timeline) return html`<div class="timeline" aria-busy="true"></div>`;
  if (!timeline.is_kept) return html`<p class="note">Calls are not kept over time: <code>log.calls</code> is <code>off</code> in the configuration.</p>`;
  return html`<${Timeline} timeline=${timeline} />`;
}

export function Metrics({ query }) {
  const [callCount, recount] = useCalls();
  const asked = Number(query.get("minutes"));
  const minutes = asked in SPANS ? asked : 60;
  const [metrics, error] = useLoaded((signal) => get("/metrics", {}, signal), [], [callCount]);
  const servers = metrics?.servers || [];
  const toolCount = servers.reduce((sum, one) => sum + one.tools.length, 0);
  const [toggled, setToggled] = useState(/** @type {Record<string, boolean>} */ ({}));
  const isOpen = (name) => toggled[name] ?? toolCount <= FEW;
  const reset = (server) => async () => { await post("/metrics/reset", server === null ? {} : { server }); recount(); };
  const since = Math.min(...servers.map((one) => one.since).filter(Boolean));
  return html`
    <h2>Metrics</h2>
    <${OwnAlone} what="Figures" />
    <${Problem} error=${error} />
    <div aria-busy=${!metrics && !error}>
    ${metrics && servers.length === 0 && html`<${Empty}>No call was counted yet. A tool can be tried under <a href="#/tools">Tools</a>.<//>`}
    ${servers.length > 0 && html`
      <section aria-labelledby="over-time">
        <div class="bar"><h3 id="over-time">Over time</h3>
          <div class="choices" role="group" aria-label="Time">${Object.entries(SPANS).map(([value, [name]]) => html`<a key=${value} href=${address("metrics", { minutes: value })} aria-current=${Number(value) === minutes ? "true" : undefined}>${name}</a>`)}</div></div>
        <${Recent} minutes=${minutes} />
      </section>
      <section aria-labelledby="by-server"><h3 id="by-server">By server</h3>
      <${Bars} servers=${servers} />
      ${toolCount > 0 && html`<${TopTools} servers=${servers} />`}
      <div class="bar">
        <p class="note">Counted since ${moment(since)}. p50 is the median, p95 what 95 % of calls stay below; both are at most 7 % off.</p>
        ${servers.some((one) => one.errors) && html`<${Confirmed} label="Reset all errors …" question="Count the errors of every server from zero?" verb="Reset" act=${reset(null)}>
          <p>Calls and durations stay; the log keeps its entries.</p><//>`}
      </div>
      <table>
        <thead><tr><th>Server and tool</th><th class="number">Calls</th><th class="number">Errors</th><th class="number">Mean</th><th class="number">p50</th><th class="number">p95</th><th>Last call</th></tr></thead>
        <tbody>${servers.map((one) => html`
          <tr key=${one.server} class="group">
            <th scope="row">${!one.server ? serverName(one) : html`<button type="button" class="plain" aria-expanded=${isOpen(one.server)} onClick=${() => setToggled({ ...toggled, [one.server]: !isOpen(one.server) })}>
              <span aria-hidden="true">${isOpen(one.server) ? "▾" : "▸"}</span> ${one.server}</button>`}</th>
            <${Numbers} of=${one} reset=${reset(one.server)} />
          </tr>
          ${one.server && isOpen(one.server) && one.tools.map((tool) => html`<tr key=${`${one.server}:${tool.tool}`}>
            <th scope="row" class="inner"><a href="#/logs?${new URLSearchParams({ server: one.server, tool: tool.tool })}" title="its entries in the log"><${Name} text=${tool.tool} /></a></th>
            <${Numbers} of=${tool} /></tr>`)}`)}</tbody>
      </table></section>`}
    </div>`;
}

/** The tools that are called most, fail most, take longest and have the longest definitions, and servers whose tools nobody calls. */
function TopTools({ servers }) {
  const [costs] = useTokens();
  const tools = servers.flatMap((one) => one.tools.map((tool) => ({ ...tool, name: `${one.server}:${tool.tool}` }))).filter((tool) => tool.server);
  const calls = new Map(tools.map((tool) => [tool.name, tool.calls]));
  const sized = Object.entries(costs?.tools || {}).map(([name, tokens]) => ({ name, tokens, server: name.slice(0, name.indexOf(":")), tool: name.slice(name.indexOf(":") + 1), calls: calls.get(name) || 0 }));
  const list = (title, of, key, text) => of.some((tool) => tool[key]) && html`<div><h4>${title}</h4><ol class="top">${of.filter((tool) => tool[key]).sort((one, other) => other[key] - one[key]).slice(0, TOP).map((tool) => html`<li key=${tool.name}>
    <a href=${tool.calls ? address("logs", { server: tool.server, tool: tool.tool }) : `#/tools/${part(tool.server)}/${part(tool.tool)}`}><${Name} text=${tool.name} /></a> <span class="note">${text(tool)}</span></li>`)}</ol></div>`;
  return html`<div class="tops">${list("Most called", tools, "calls", (tool) => counted(tool.calls, "call"))}${list("Fail most", tools, "errors", (tool) => counted(tool.errors, "error"))}
    ${list("Slowest", tools, "p95_seconds", (tool) => `p95 ${took(tool.p95_seconds)}`)}${list("Longest definitions", sized, "tokens", (tool) => `${counted(tool.tokens, "token")}, ${tool.calls ? counted(tool.calls, "call") : "never called"}`)}
    <${Unused} servers=${servers} sized=${sized} /></div>`;
}

/** Servers with tools that were never called: each costs its place in every search, and its tokens where definitions are listed. */
function Unused({ servers, sized }) {
  const called = new Map(servers.map((one) => [one.server, one.tools.length]));
  const unused = known.value.filter((one) => one.enabled_count > (called.get(one.name) || 0))
    .map((one) => ({ name: one.name, count: one.enabled_count - (called.get(one.name) || 0), of: one.enabled_count, tokens: sized.filter((tool) => tool.server === one.name && !tool.calls).reduce((sum, tool) => sum + tool.tokens, 0) }))
    .sort((one, other) => other.tokens - one.tokens || other.count - one.count).slice(0, TOP);
  return unused.length > 0 && html`<div><h4>Never called</h4><ol class="top">${unused.map((one) => html`<li key=${one.name}>
    <a href="#/servers/${part(one.name)}/tools">${one.name}</a> <span class="note">${one.count === one.of ? `none of ${counted(one.of, "tool")} was called` : `${one.count} of ${counted(one.of, "tool")} never`}${one.tokens > 0 && `, ${counted(one.tokens, "token")}`}</span></li>`)}</ol></div>`;
}

/** Grows as calls end, and when it is called: `[count, grow]`. @param {number} [gathered] milliseconds in which calls are gathered, the first ones less */
function useCalls(gathered = GATHERED) {
  const [count, setCount] = useState(0);
  const grow = () => setCount((now) => now + 1);
  const pause = useRef(GATHERED);
  useEffect(() => {
    let timer = 0;
    const unfollow = follow((event) => {
      if (isCall(event)) timer ||= setTimeout(() => { timer = 0; pause.current = gathered; grow(); }, pause.current);
    });
    return () => { clearTimeout(timer); unfollow(); };
  }, []);
  return /** @type {const} */ ([count, grow]);
}

function Numbers({ of, reset }) {
  return html`
    <td class="number" data-label="calls">${of.calls.toLocaleString("en")}</td>
    <td class="number" data-label="errors">${of.errors ? html`<span class="state bad"><span aria-hidden="true">▲</span> ${of.errors.toLocaleString("en")}</span>` : 0}
      ${reset && of.errors > 0 && html` <${Confirmed} label="Reset …" question=${`Count the errors of ${serverName(of)} from zero?`} verb="Reset" act=${reset}><p>Calls and durations stay; the log keeps its entries.</p><//>`}</td>
    <td class="number" data-label="mean">${took(of.mean_seconds)}</td>
    <td class="number" data-label="p50">${took(of.p50_seconds)}</td>
    <td class="number" data-label="p95">${took(of.p95_seconds)}</td>
    <td data-label="last call">${ago(of.last_called_at)}</td>`;
}

/** Calls by server as bars, failed ones in another colour; the table below has the same figures. */
function Bars({ servers }) {
  const shown = [...servers].sort((one, other) => other.calls - one.calls).slice(0, BARS);
  const most = Math.max(1, ...shown.map((one) => one.calls));
  const text = shown.map((one) => `${serverName(one)} ${counted(one.calls, "call")}, ${counted(one.errors, "error")}`).join("; ");
  return html`<figure class="bars" role="img" aria-label=${`Calls by server: ${text}. The table below has all figures.`}>
    <figcaption aria-hidden="true">Calls by server${servers.length > BARS ? `, the ${BARS} with most` : ""}: <span class="key-calls">■</span> calls, <span class="failed">■</span> of them errors</figcaption>
    ${shown.map((one) => html`<div key=${one.server} aria-hidden="true"><span>${serverName(one)}</span>
      <svg viewBox="0 0 1000 10" preserveAspectRatio="none">
        <rect width=${(1000 * one.calls) / most} height="10" />
        <rect class="failed" x=${(1000 * Math.max(0, one.calls - one.errors)) / most} width=${(1000 * Math.min(one.errors, one.calls)) / most} height="10" />
      </svg><span class="number">${one.calls.toLocaleString("en")}</span></div>`)}
  </figure>`;
}

const serverName = (one) => one.server || "unknown or disabled tools";
