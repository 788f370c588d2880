// @ts-check
// Try a tool: a form from its schema or JSON, presets, its calls in this visit, and their results.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, put, request } from "./api.js";
import { SchemaForm } from "./forms/fields.js";
import { isObject, mistakesOf, Unfinished } from "./forms/schema_check.js";
import { fieldOf, initial, isUnfinished, jsonIn, jsonText } from "./forms/schema_field.js";
import { html } from "./html.js";
import { cancelCall, madeCalls, makeCall, questions } from "./made_calls.js";
import { Question } from "./question.js";
import { commandLine, curlLine, visible } from "./texts.js";
import { Long, Result } from "./tool_result.js";
import { Command, counted, duration, Empty, moment, Outcome, Problem, took, useAction, useLoaded } from "./ui.js";

/** @param {{server: string, tool: string, path: string, schema: any, started: string | null}} given */
export function TryTool({ server, tool, path, schema, started }) {
  const isForm = useMemo(() => fieldOf(schema, schema).kind === "group", [schema]);
  const begin = () => initial(schema, schema, true) ?? {};
  const [value, setValue] = useState(() => { const before = jsonIn(started || ""); return isObject(before) ? before : begin(); });
  const [json, setJson] = useState(/** @type {{text: string, of: any} | null} */ (isForm ? null : { text: jsonText(value), of: value }));
  const [isTried, setTried] = useState(false);
  const [shownId, setShownId] = useState("");
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));

  const given = json ? (json.text === jsonText(json.of) ? json.of : objectIn(json.text)) : value;
  const mistakes = useMemo(() => mistakesOf(schema, given), [schema, given]);
  const cannot = isUnfinished(given);
  const made = madeCalls.value.filter((one) => one.server === server && one.tool === tool);
  const running = made.find((one) => one.isRunning);
  const shown = made.find((one) => one.id === shownId) || made[0];
  const asked = questions.value.filter((one) => one.server === server && one.tool === tool);

  const use = (other) => { setValue(other); setTried(false); if (json) setJson({ text: jsonText(other), of: other }); };
  const toJson = () => setJson({ text: jsonText(value), of: value });
  const toForm = () => { setValue(given); setJson(null); };
  const call = (isSure) => {
    setTried(true);
    if (cannot || (mistakes.length && !isSure)) {
      setTimeout(() => /** @type {HTMLElement | null} */ (form.current?.querySelector("[aria-invalid=true]"))?.focus());
      return;
    }
    setShownId("");
    makeCall(server, tool, given);
  };
  const submit = (event) => { event.preventDefault(); call(false); };
  const onKey = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event); };

  return html`<section class="try" aria-label="Try it">
    <h3>Try it</h3>
    <${Presets} server=${server} tool=${tool} given=${cannot ? null : given} onUse=${use} />
    <form ref=${form} onSubmit=${submit} onKeyDown=${onKey} novalidate>
      ${isForm && html`<p class="tabs" role="group" aria-label="How to write the arguments">
        <button type="button" aria-pressed=${!json} disabled=${Boolean(json) && given instanceof Unfinished} onClick=${toForm}>Form</button>
        <button type="button" aria-pressed=${Boolean(json)} onClick=${() => json || toJson()}>JSON</button></p>`}
      ${!isForm && html`<p class="note">A form would not show all that this schema says; so the arguments are written as JSON.</p>`}
      ${json ? html`<label class="wide">Arguments, as JSON <textarea class="json" rows=${Math.min(20, Math.max(6, json.text.split("\n").length + 1))} value=${json.text} onInput=${(e) => setJson({ text: e.target.value, of: json.of })} spellcheck=${false} aria-invalid=${given instanceof Unfinished ? "true" : undefined}></textarea></label>
          ${mistakes.length > 0 && html`<ul class="wrong">${mistakes.map((one, index) => html`<li key=${index}>${one.path.length ? html`<code>${visible(one.path.join("."))}</code> ` : "It "}${one.message}</li>`)}</ul>`}`
        : html`<${SchemaForm} schema=${schema} value=${value} onChange=${setValue} mistakes=${mistakes} isTried=${isTried} />`}
      <p class="row">
        <button class="main" disabled=${Boolean(running)} title="Ctrl+Enter">${running ? "Calling …" : "Call"}</button>
        ${isTried && mistakes.length > 0 && !cannot && html`<button type="button" onClick=${() => call(true)} disabled=${Boolean(running)}>Call anyway</button>`}
        <button type="button" class="quiet" onClick=${() => use(begin())}>Clear</button>
        ${isTried && mistakes.length > 0 && html`<span class="wrong" role="status">${counted(mistakes.length, "argument looks", "arguments look")} wrong</span>`}
      </p>
    </form>
    ${!cannot && html`<${AsCommand} server=${server} tool=${tool} path=${path} given=${given} />`}
    ${asked.map((one) => html`<${Question} key=${one.question_id} question=${one} isOwn=${made.some((call) => call.id === one.call_id)} />`)}
    ${shown && html`<${Made} call=${shown} />`}
    ${made.length > 1 && html`<${History} made=${made} shown=${shown} onShow=${setShownId} onUse=${use} />`}
  </section>`;
}

function objectIn(text) {
  const found = jsonIn(text);
  return found instanceof Unfinished || isObject(found) ? found : new Unfinished(text, "must be an object: { … }");
}

/** One call: its progress, then what came of it. */
function Made({ call }) {
  const [kind, setKind] = useState("pretty");
  if (call.isRunning) return html`<${Running} call=${call} />`;
  const { result, error } = call;
  return html`<div class="outcome">
    <p class="bar" role="status"><${Outcome} outcome=${outcomeOf(call)} /> <span class="pill">${took(call.seconds)}</span> <span class="note">${moment(call.at)}</span></p>
    ${error && error.code !== "CALL_CANCELLED" && html`<${Problem} error=${error} />`}
    ${error?.form?.mistakes && html`<ul class="wrong">${error.form.mistakes.map((one) => html`<li key=${one}>${visible(one)}</li>`)}</ul>`}
    ${result && html`<p>${result.isError ? "The tool answered with an error:" : "The tool answered:"}</p>
      <p class="tabs" role="group" aria-label="How to show the result">
        ${["pretty", "raw"].map((one) => html`<button type="button" key=${one} aria-pressed=${kind === one} onClick=${() => setKind(one)}>${one === "raw" ? "Raw" : "Pretty"}</button>`)}</p>
      ${kind === "raw" ? html`<${Long} text=${JSON.stringify(result, null, 2)} />` : html`<${Result} result=${result} />`}`}
    ${!result && !error && html`<${Empty}>This result is not kept any more.<//>`}
  </div>`;
}

const outcomeOf = ({ result, error }) => (error ? (error.code === "CALL_CANCELLED" ? "cancelled" : error.code || "failed") : result?.isError ? "tool_error" : "ok");

function Running({ call }) {
  const [, tick] = useState(0);
  useEffect(() => { const timer = setInterval(() => tick((count) => count + 1), 1000); return () => clearInterval(timer); }, []);
  const { progress } = call;
  const share = progress && (progress.total ? `${progress.progress} of ${progress.total}` : progress.progress);
  return html`<div class="outcome running">
    <p class="bar"><progress max=${progress?.total || undefined} value=${progress?.total ? Math.min(progress.progress, progress.total) : undefined} aria-label="Progress"></progress>
      <span>${duration(Date.now() / 1000 - call.at)}</span>
      <button type="button" onClick=${() => cancelCall(call.id)} disabled=${call.isCancelling}>${call.isCancelling ? "Cancelling …" : "Cancel"}</button></p>
    <p role="status" class="note">${progress ? visible([share, progress.message].filter((one) => one !== null && one !== undefined && one !== "").join(": ")) : "The call runs …"}</p>
  </div>`;
}

function History({ made, shown, onShow, onUse }) {
  return html`<details class="history"><summary>${counted(made.length, "call")} of this visit</summary>
    <ol>${made.map((one) => html`<li key=${one.id} class="bar">
      <button type="button" class="quiet" aria-pressed=${one === shown} onClick=${() => onShow(one.id)}>${moment(one.at)}</button>
      ${one.isRunning ? "runs" : html`<${Outcome} outcome=${outcomeOf(one)} /> <span class="pill">${took(one.seconds)}</span>`}
      <code class="excerpt">${visible(jsonText(one.given)).replace(/\s+/g, " ").slice(0, 120)}</code>
      <button type="button" class="quiet" onClick=${() => onUse(one.given)}>Use again</button></li>`)}</ol></details>`;
}

function AsCommand({ server, tool, path, given }) {
  const [configuration] = useLoaded((signal) => get("/configuration", {}, signal), []);
  return html`<details class="commands"><summary>The same call as a command</summary>
    <h4>Command line</h4><${Command} text=${commandLine(server, tool, given, configuration?.path)} />
    <h4>cURL</h4><${Command} text=${curlLine(`${location.origin}/api${path}/call`, given)} />
    <p class="note">For a POSIX shell. <code>DISCOVERY_TOKEN</code> is a token with the scope <code>call</code>: <code>discovery token create</code> makes one.</p></details>`;
}

function Presets({ server, tool, given, onUse }) {
  const [turn, setTurn] = useState(0);
  const [found, error] = useLoaded((signal) => get("/presets", { server, tool }, signal), [server, tool], [turn]);
  const [name, setName] = useState("");
  const presets = found?.presets || [];
  const isKnown = presets.some((one) => one.name === name.trim());
  const [save, isSaving, saveError] = useAction(async () => { await put("/presets", { server, tool, name: name.trim(), arguments: given }); setTurn(turn + 1); });
  const [drop, isDropping, dropError] = useAction(async () => { await request("DELETE", "/presets", { query: { server, tool, name: name.trim() } }); setName(""); setTurn(turn + 1); });
  const pick = (event) => { const one = presets.find((preset) => preset.name === event.target.value); setName(one?.name || ""); if (one) onUse(one.arguments); };
  return html`<details class="presets" open=${presets.length > 0}><summary>Presets${presets.length > 0 && `: ${presets.length}`}</summary>
    <div class="row">
      ${presets.length > 0 && html`<label>Use <select value=${isKnown ? name.trim() : ""} onChange=${pick}><option value="">choose …</option>${presets.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}</select></label>`}
      <label>Name <input value=${name} maxlength="100" onInput=${(e) => setName(e.target.value)} placeholder="for these arguments" /></label>
      <button type="button" onClick=${save} disabled=${isSaving || !name.trim() || !given}>${isKnown ? "Save over it" : "Save"}</button>
      ${isKnown && html`<button type="button" onClick=${drop} disabled=${isDropping}>Delete</button>`}
    </div>
    <${Problem} error=${error || saveError || dropError} /></details>`;
}
