// @ts-check
// Logs: what was called, as it happens, and one entry in full.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, part, remove } from "../api.js";
import { isObject } from "../forms/schema_check.js";
import { html } from "../html.js";
import { follow, isCall, reconnections, running, servers, status } from "../live.js";
import { questions } from "../made_calls.js";
import { address, Confirmed, counted, Drawer, duration, Empty, Fact, moment, Name, Outcome, Problem, shown, took, useAction, useLoaded, useSettled } from "../ui.js";

// Calls first: what servers write and notify would bury them.
const KINDS = [["", "Calls"], ["stderr", "Output of servers"], ["notification", "Notifications"], ["every", "Everything"]];
const CALLS = ["call", "resource-read", "prompt-get", "question"];
const OUTCOMES = [["", "Any outcome"], ["ok", "Succeeded"], ["error", "Failed"], ["cancelled", "Cancelled"]];
const MOST_CHIPS = 12; // servers; more are chosen from a list
const SPANS = [["15 minutes", 900], ["hour", 3_600], ["day", 86_400]];
const PAGE = 100;
const TYPING = 250; // milliseconds
const GATHERED = 400; // milliseconds in which calls are gathered before the log is read again
const FOLDED = 2; // seconds between lines that a server wrote at once
const MOST_EXPORTED = 100; // pages, which the browser holds in memory
const FILTERS = ["server", "tool", "status", "kind", "text", "span"];

export function Logs({ rest, query }) {
  const [chosen, setChosen] = useState(() => filtersOf(query));
  useEffect(() => setChosen(filtersOf(query)), [query]); // a link or Back opens another address of the log
  const settled = useSettled(chosen, TYPING);
  const choose = (name) => (event) => setChosen({ ...chosen, [name]: event.target.value });
  const [isPaused, setPaused] = useState(false);
  const [log, missed, older] = useLog(settled, isPaused);
  const here = address("logs", settled);
  useEffect(() => { if (!rest[0]) history.replaceState(null, "", here); }, [here]);
  const names = [...new Set([...servers.value.map((server) => server.name), ...(chosen.server ? [chosen.server] : [])])];
  const chip = (name, value, text) => html`<button type="button" key=${`${name} ${value}`} aria-pressed=${value === chosen[name] ? "true" : "false"} onClick=${() => setChosen({ ...chosen, [name]: value })}>${text}</button>`;
  return html`
    <h2>Logs</h2>
    <${OwnAlone} what="Calls" />
    <form class="row filters" onSubmit=${(e) => e.preventDefault()}>
      <label class="wide">Text <input data-search type="search" value=${chosen.text} maxlength="200" onInput=${choose("text")} placeholder="in client, tool, arguments or result" /></label>
      ${names.length > MOST_CHIPS && html`<label>Server <select value=${chosen.server} onChange=${choose("server")}><option value="">every</option>${names.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>`}
      <label>Tool <input value=${chosen.tool} onInput=${choose("tool")} placeholder="its whole name" /></label>
      <label>Last <select value=${chosen.span} onChange=${choose("span")}><option value="">all</option>${SPANS.map(([name, seconds]) => html`<option key=${name} value=${seconds}>${name}</option>`)}</select></label>
    </form>
    <div class="chips" role="group" aria-label="Outcome">${OUTCOMES.map(([status, text]) => chip("status", status, text))}</div>
    ${names.length > 1 && names.length <= MOST_CHIPS && html`<div class="chips" role="group" aria-label="Server">${chip("server", "", "Every server")}${names.map((name) => chip("server", name, name))}</div>`}
    <div class="bar">
      <div class="tabs" role="group" aria-label="Kind">${KINDS.map(([kind, name]) => html`<button type="button" key=${kind} aria-pressed=${kind === chosen.kind ? "true" : "false"} onClick=${() => setChosen({ ...chosen, kind })}>${name}</button>`)}</div>
      <button type="button" aria-pressed=${isPaused} onClick=${() => setPaused(!isPaused)}>${isPaused ? "Resume" : "Pause"}</button>
      <${Confirmed} label="Clear …" question="Delete the whole log?" verb="Delete it" act=${async () => { await remove("/logs"); log.clear(); }}>
        <p>Every entry of this configuration is deleted, whatever the filters show, and cannot be restored. Metrics are kept.</p><//>
      <${Export} chosen=${chosen} />
      <span role="status">${isPaused ? `Paused; ${counted(missed, "further call")}` : log.entries && `${counted(log.entries.length, "entry", "entries")}${log.hasOlder ? ", and older ones" : ""}`}</span>
    </div>
    <${Problem} error=${log.error} />
    <${Running} />
    ${log.entries?.length === 0 && running.value.length === 0 && html`<${Empty}>${Object.values(settled).some(Boolean) ? "No entry fits these filters." : html`Nothing was called yet. A tool can be tried under <a href="#/tools">Tools</a>. If calls stay away: <code>log.calls</code> in the configuration may be <code>off</code>.`}<//>`}
    <div aria-busy=${!log.entries && !log.error}>
    ${log.entries?.length > 0 && html`<table>
      <thead><tr><th>When</th><th>What</th><th>Outcome</th><th class="number">Time</th><th>Client</th></tr></thead>
      <tbody>${folded(log.entries).map(({ entry, lines }) => html`<tr key=${entry.id}>
        <td class="when">${moment(entry.at)}</td>
        <th scope="row"><a href=${address(`logs/${entry.id}`, settled)}><${Name} text=${nameOf(entry)} /></a>${entry.outcome && html`<div><span class="excerpt line">${argumentsOf(entry)}</span></div>`}${entry.kind !== "call" && html` <span class="tag">${entry.kind}</span>`}
          ${lines.length > 1 ? html`<details><summary>${counted(lines.length, "line")}: <span class="excerpt line">${lines[0]}</span></summary><pre tabindex="0">${lines.join("\n")}</pre></details>`
          : !entry.outcome && entry.result && html`<span class="excerpt">${excerptOf(entry.result)}</span>`}</th>
        <td><${Outcome} outcome=${entry.outcome} /></td>
        <td class="number">${entry.outcome && took(entry.seconds)}</td>
        <td class="word">${entry.outcome && html`<${Caller} call=${entry} />`}</td></tr>`)}</tbody></table>`}
    </div>
    ${log.hasOlder && html`<${Older} load=${older} />`}
    ${rest[0] && html`<${Entry} key=${rest[0]} id=${Number(rest[0])} known=${log.entries} onClose=${() => { location.hash = here; }} />`}`;
}

/** A note that other machines have their own, if they share the registry. */
export const OwnAlone = ({ what }) => status.value?.is_shared && html`<p class="note">${what} of this machine alone; others that share the registry have their own.</p>`;

/** The calls of all processes that run, with the time since each began. */
export function Running() {
  const [now, setNow] = useState(Date.now());
  const isAny = running.value.length > 0;
  useEffect(() => {
    if (!isAny) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isAny]);
  return isAny && html`<section class="whole" aria-labelledby="running"><h3 id="running">Running now</h3><table>
    <thead><tr><th>What</th><th>Client</th><th class="number">Running for</th></tr></thead>
    <tbody>${running.value.map((call) => html`<tr key=${`${call.began_at} ${call.tool}`}>
      <th scope="row"><a href=${toolOf(call)}><${Name} text=${nameOf(call)} /></a><div><span class="excerpt line">${argumentsOf(call)}</span></div>${call.question !== null && html`<p class="note sentence"><${Waiting} call=${call} /></p>`}</th>
      <td class="word"><${Caller} call=${call} /></td>
      <td class="number" data-label="for">${duration(now / 1000 - call.began_at)}</td></tr>`)}</tbody></table></section>`;
}

/** What a call waits for, and where that is answered. */
export function Waiting({ call }) {
  const isOwn = questions.value.some((one) => one.server === call.server && one.tool === call.tool);
  const client = call.client.replace(/ ?[0-9a-f]{8}$/, ""); // the beginning of its id means nothing to a person
  return html`waits for ${call.question || "an answer"}. ${isOwn ? html`<a href=${toolOf(call)}>Answer it here</a>.` : `Answer it ${client ? `in ${client}` : "where the call was made"}.`}`;
}

/** The address of what was called. */
export const toolOf = ({ server, tool, kind = "call" }) => (kind === "call" ? `#/tools/${part(server)}/${part(tool)}` : `#/servers/${part(server)}`);

function Older({ load }) {
  const [run, isRunning, error] = useAction(load);
  return html`<button type="button" onClick=${run} disabled=${isRunning}>${isRunning ? "Reading …" : "Older entries"}</button><${Problem} error=${error} />`;
}

/** A button that saves the newest entries that fit, the oldest first, one as JSON in each line. */
function Export({ chosen }) {
  const [run, isRunning, error, omission] = useAction(async () => {
    const entries = [];
    let before;
    for (let pages = 0; pages < MOST_EXPORTED && before !== null; pages += 1) {
      const page = await get("/logs", { ...asked(chosen), limit: PAGE, before });
      entries.unshift(...page.entries);
      before = page.next_before;
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(entries.map((one) => `${JSON.stringify(one)}\n`), { type: "application/x-ndjson" }));
    link.download = "discovery-log.ndjson";
    link.click();
    URL.revokeObjectURL(link.href);
    return before !== null && html`Only the newest ${counted(entries.length, "entry", "entries")} were saved; <code>discovery logs --export ndjson</code> writes all.`;
  });
  return html`<button type="button" onClick=${run} disabled=${isRunning}>${isRunning ? "Reading …" : "Export"}</button><span role="status">${omission}</span><${Problem} error=${error} />`;
}

/** Entries, the newest first, with what a server wrote at once as one: the oldest line first. */
function folded(entries) {
  const rows = [];
  for (const entry of entries) {
    const row = rows.at(-1);
    if (row && entry.kind === "stderr" && row.last.kind === "stderr" && row.last.server === entry.server && row.last.at - entry.at <= FOLDED) {
      row.lines.unshift(...linesOf(entry));
      row.last = entry;
    } else rows.push({ entry, last: entry, lines: entry.kind === "stderr" ? linesOf(entry) : [] });
  }
  return rows;
}

const linesOf = ({ result }) => (result || "").trimEnd().split("\n");

/** The entries that fit, the newest first; read again as calls happen, unless `isPaused`. */
function useLog(chosen, isPaused) {
  const [log, setLog] = useState(/** @type {any} */ ({ entries: null, hasOlder: false }));
  const [missed, setMissed] = useState(0);
  const paused = useRef(isPaused);
  paused.current = isPaused;
  const reads = useRef({ begun: 0, shown: 0 }); // one that was late shows less than what is there
  const of = JSON.stringify(chosen);
  const clear = () => { reads.current.shown = reads.current.begun; setLog({ of, entries: [], hasOlder: false }); };

  useEffect(() => {
    let isOver = false;
    let timer = 0;
    const read = async () => {
      timer = 0;
      const number = ++reads.current.begun;
      try {
        const found = (await get("/logs", { ...asked(chosen), limit: PAGE })).entries.reverse();
        if (isOver || number <= reads.current.shown) return;
        reads.current.shown = number;
        setLog((before) => ({ ...joined(before.of === of ? before.entries : null, found, before.hasOlder), of }));
      } catch (error) {
        if (!isOver) setLog((before) => ({ ...before, error }));
      }
    };
    setMissed(0);
    read();
    const unfollow = follow((event) => {
      if (!event.type.startsWith("log_entr")) return; // also `log_entries_skipped`
      if (paused.current) setMissed((count) => count + Number(isCall(event)));
      else timer ||= setTimeout(read, GATHERED);
    });
    return () => { isOver = true; clearTimeout(timer); unfollow(); };
  }, [of, isPaused, reconnections.value]);

  const older = async () => {
    const before = log.entries.at(-1).id;
    const found = (await get("/logs", { ...asked(chosen), limit: PAGE, before })).entries.reverse();
    setLog((now) => (now.of !== of || now.entries.at(-1)?.id !== before ? now
      : { ...now, entries: [...now.entries, ...found], hasOlder: found.length === PAGE }));
  };
  return /** @type {const} */ ([{ ...log, clear }, missed, older]);
}

/** What is known with the newest page; only that if entries between them are unknown. */
function joined(known, newest, hasOlder) {
  const last = newest.at(-1)?.id;
  const rest = (known || []).filter((entry) => entry.id < last);
  const isWhole = known?.some((entry) => entry.id === last);
  if (rest.length && isWhole) return { entries: [...newest, ...rest], hasOlder };
  return { entries: newest, hasOlder: newest.length === PAGE };
}

function excerptOf(result) {
  return (typeof result === "string" ? result : JSON.stringify(result)).slice(0, 200);
}

/** The arguments of a call in one line. */
function argumentsOf({ arguments: given }) {
  if (given === null || given === undefined || typeof given !== "object") return "";
  return Object.entries(given).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join("  ").slice(0, 200);
}

/** @param {URLSearchParams} query */
const filtersOf = (query) => Object.fromEntries(FILTERS.map((name) => [name, query.get(name) || ""]));

/** The filters as the API takes them. */
function asked({ span, kind, ...others }) {
  return { ...others, kind: { "": CALLS, every: "" }[kind] ?? kind, tool: others.tool.trim(), since: span ? Date.now() / 1000 - Number(span) : undefined };
}

function Entry({ id, known, onClose }) {
  const loaded = known?.find((one) => one.id === id);
  const [found, error, isLoading] = useLoaded(
    async (signal) => loaded || (await get("/logs", { before: id + 1, limit: 1 }, signal)).entries.find((one) => one.id === id), [id]);
  return html`<${Drawer} title=${found ? nameOf(found) : `Entry ${id}`} onClose=${onClose}>
    <${Problem} error=${error} />
    ${!found && !error && !isLoading && html`<${Empty}>The log has no entry ${id} any more.<//>`}
    ${found && html`<dl class="facts">
      ${found.outcome && html`<${Fact} name="Outcome"><${Outcome} outcome=${found.outcome} /><//>`}
      <${Fact} name="Ended">${new Date(found.at * 1000).toLocaleString()}<//>
      ${found.outcome && html`<${Fact} name="Took">${took(found.seconds)}${found.queue_seconds > 0 && `, of which ${took(found.queue_seconds)} in the queue`}<//>`}
      <${Fact} name="Kind">${found.kind}<//>
      <${Fact} name="By">${callerOf(found)}${found.view && `, view ${found.view}`}<//>
      ${found.trace_id && html`<${Fact} name="Trace"><code>${found.trace_id}</code><//>`}
    </dl>
    ${found.outcome && found.server && html`<${Story} call=${found} />`}
    ${found.outcome && html`<h3>Arguments</h3><${Content} value=${found.arguments} size=${found.argument_size} />`}
    ${found.kind === "call" && found.server && found.tool && isObject(found.arguments) && html`<p class="bar"><a href=${address(`tools/${part(found.server)}/${part(found.tool)}`, { arguments: JSON.stringify(found.arguments) })}>Call it again …</a><a href=${toolOf(found)}>Open the tool</a></p>`}
    <h3>${found.outcome ? "Result" : "Text"}</h3><${Content} value=${found.result} size=${found.result_size} />`}
  <//>`;
}

/** A call from its request to its answer, with what its server wrote and asked meanwhile: for any call that ran then. */
function Story({ call }) {
  const begin = call.at - call.seconds;
  // An entry is written at the end of its call, so those of calls that ran at once may be later ones.
  const [log] = useLoaded((signal) => get("/logs", { server: call.server, since: begin, before: call.id + PAGE / 2, limit: PAGE }, signal), [call.id]);
  const around = log?.entries || [];
  const meanwhile = around.filter((one) => !one.outcome && one.at <= call.at);
  const others = around.filter((one) => one.outcome && one.id !== call.id && one.at - one.seconds < call.at);
  const steps = [
    [begin, `Requested by ${callerOf(call)}`],
    ...(call.queue_seconds > 0 ? [[begin + call.queue_seconds, "Left the queue"]] : []),
    ...meanwhile.map((one) => [one.at, html`<span class="tag">${one.kind}</span> <span class="excerpt">${excerptOf(one.result ?? "")}</span>`]),
    [call.at, html`Answered <${Outcome} outcome=${call.outcome} />`],
  ];
  return html`<h3>What happened</h3>
    ${others.length > 0 && html`<p class="note">${counted(others.length, "other call")} of ${call.server} ran at the same time; what it wrote then may be about ${others.length === 1 ? "that one" : "those"}.</p>`}
    <table aria-label="What happened"><tbody>${steps.map(([at, what], index) => html`<tr key=${index}><td class="number">+${took(Math.max(0, at - begin))}</td><td>${what}</td></tr>`)}</tbody></table>`;
}

function Content({ value, size }) {
  if (value === null) return html`<${Empty}>${size ? `${counted(size, "character")}, not kept: log.calls decides that` : "None."}<//>`;
  return html`<pre tabindex="0">${shown(value)}</pre>`;
}

/** Who made a call: the name that its client gave itself, or what is known. */
export const callerOf = ({ client, by }) => client || { person: "a person", agent: "an agent" }[by] || "a program";

/** Who made a call, with a way to all calls of that client. */
export function Caller({ call }) {
  return call.client ? html`<a href=${address("logs", { text: call.client })}>${call.client}</a>` : callerOf(call);
}

const nameOf = (entry) => [entry.server, entry.tool].filter(Boolean).join(":") || entry.kind;
