// @ts-check
// Servers for a trial: shown before they start, and gone without a trace.
import { useEffect, useState } from "preact/hooks";
import { get, part, post, remove } from "../api.js";
import { jsonIn } from "../forms/schema_field.js";
import { isObject } from "../forms/schema_check.js";
import { html } from "../html.js";
import { Plan } from "../plan.js";
import { duration, Problem, State, useAction } from "../ui.js";

const EXAMPLE = '{"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"]}';

export function Transient() {
  const [running, setRunning] = useState(/** @type {any[]} */ ([]));
  const read = async () => { setRunning((await get("/transient").catch(() => ({ servers: [] }))).servers); };
  useEffect(() => { read(); }, []);
  return html`<details class="transient" open=${running.length > 0}><summary>Try a server for a while</summary>
    ${running.length > 0 && html`<ul class="entries">${running.map((one) => html`<li key=${one.handle} class="bar">
      <a href="#/servers/${part(one.handle)}">${one.handle}</a> <${State} state=${one.server.status} /> <span class="note">ends in ${duration(one.ends_in)} without use</span>
      <${End} handle=${one.handle} onEnd=${read} /></li>`)}</ul>`}
    <${Start} onStart=${read} />
  </details>`;
}

function End({ handle, onEnd }) {
  const [end, isEnding, error] = useAction(async () => { await remove(`/transient/${part(handle)}`); await onEnd(); });
  return html`<button type="button" class="quiet" onClick=${end} disabled=${isEnding}>End it</button><${Problem} error=${error} />`;
}

function Start({ onStart }) {
  const [text, setText] = useState("");
  const entry = jsonIn(text);
  const [show, isPlanning, planError, plan] = useAction(async () => ({ ...(await post("/transient", { entry })), of: text }));
  const [start, isStarting, startError] = useAction(async () => {
    const made = await post("/transient", { entry, digest: plan.digest });
    await onStart();
    setText("");
    location.hash = `#/servers/${part(made.handle)}`;
  });
  const isShown = plan && plan.of === text;
  return html`<form onSubmit=${(event) => { event.preventDefault(); show(); }}>
    <label class="wide">Its entry, as in <code>servers</code> of the configuration <textarea class="json" rows="3" value=${text} placeholder=${EXAMPLE} onInput=${(e) => setText(e.target.value)} spellcheck=${false}></textarea></label>
    <p class="row"><button disabled=${isPlanning || !isObject(entry)}>Show what would run</button></p>
    <${Problem} error=${planError} />
    ${isShown && html`<h3>This would ${plan.url ? "be connected" : "run on this machine"}</h3>
      <${Plan} plan=${plan} />
      <p class="row"><button type="button" class="strong" onClick=${start} disabled=${isStarting}>${isStarting ? "Starting …" : "Start it"}</button></p>
      <p class="note">It is in no list of agents, and is gone with all that is known of it when it ends.</p>
      <${Problem} error=${startError} />`}
  </form>`;
}
