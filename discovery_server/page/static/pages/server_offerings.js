// @ts-check
// What a server offers besides tools: resources that are read, and prompts that are filled in.
import { useEffect, useState } from "preact/hooks";
import { all, part, post } from "../api.js";
import { html } from "../html.js";
import { follow, revision } from "../live.js";
import { visible } from "../texts.js";
import { Long, Result } from "../tool_result.js";
import { Empty, moment, Problem, useAction, useLoaded } from "../ui.js";

const MOST = 200;

export function Resources({ server }) {
  const path = `/servers/${part(server)}`;
  const [items, error] = useLoaded(() => all(`${path}/offerings`, "items", { kind: "resource", all: true }), [server], [revision.value]);
  const [templates] = useLoaded(() => all(`${path}/offerings`, "items", { kind: "template", all: true }), [server], [revision.value]);
  return html`<div aria-busy=${!items && !error}>
    <${Problem} error=${error} />
    ${items?.length === 0 && templates?.length === 0 && html`<${Empty}>It has no resources.<//>`}
    ${items?.length > 0 && html`<ul class="tools">${items.slice(0, MOST).map((item) => html`<li key=${item.address}><${Offering} item=${item}>
      <${Read} path=${path} uri=${item.uri} isOff=${!item.enabled} /><${Updates} server=${server} uri=${item.uri} isOff=${!item.enabled} /><//></li>`)}</ul>`}
    ${items?.length > MOST && html`<p class="note">${items.length - MOST} more.</p>`}
    ${templates?.length > 0 && html`<h3>Resource templates</h3><ul class="tools">${templates.slice(0, MOST).map((item) => html`<li key=${item.address}><${Offering} item=${item}>
      <${ReadTemplate} path=${path} item=${item} /><//></li>`)}</ul>`}
  </div>`;
}

function Offering({ item, children }) {
  return html`<span class="name">${visible(item.title || item.name)}</span> <code>${visible(item.uri || item.uriTemplate || item.name)}</code> ${item.mime_type && html`<span class="tag">${visible(item.mime_type)}</span>`}
    ${!item.enabled && html` <span class="state off">○ disabled: ${visible(item.reason)}</span>`}
    ${item.description && html`<p>${visible(item.description)}</p>`}
    ${children}`;
}

function Read({ path, uri, isOff = false }) {
  const [read, isReading, error, result] = useAction(async () => (await post(`${path}/resources/read`, { uri })).result);
  return html`<p class="row"><button type="button" onClick=${read} disabled=${isReading || isOff}>${isReading ? "Reading …" : result ? "Read again" : "Read"}</button></p>
    <${Problem} error=${error} />${result && html`<div role="status"><${Result} result=${result} /></div>`}`;
}

/** Whether its updates are asked for, and when the last one came. */
function Updates({ server, uri, isOff }) {
  const [at, setAt] = useState(0);
  const [toggle, isBusy, error, isOn] = useAction(async () => {
    await post(`/servers/${part(server)}/resources/subscribe`, { uri, on: !isOn });
    return !isOn;
  });
  useEffect(() => follow((event) => {
    if (event.type === "resource_updated" && event.server === server && event.uri === uri) setAt(Date.now() / 1000);
  }), [server, uri]);
  return html`<p class="bar"><button type="button" class="quiet" aria-pressed=${Boolean(isOn)} onClick=${toggle} disabled=${isBusy || isOff}>${isOn ? "Follow it no more" : "Follow its updates"}</button>
    ${at > 0 && html`<span role="status" class="note">It changed at ${moment(at)}.</span>`}</p><${Problem} error=${error} />`;
}

function ReadTemplate({ path, item }) {
  const [uri, setUri] = useState(item.uriTemplate || "");
  return html`<label class="wide">Address, with its parts filled in <input value=${uri} onInput=${(e) => setUri(e.target.value)} spellcheck=${false} /></label>
    <${Read} key=${uri} path=${path} uri=${uri} isOff=${!item.enabled || uri.includes("{")} />`;
}

export function Prompts({ server }) {
  const path = `/servers/${part(server)}`;
  const [items, error] = useLoaded(() => all(`${path}/offerings`, "items", { kind: "prompt", all: true }), [server], [revision.value]);
  return html`<div aria-busy=${!items && !error}>
    <${Problem} error=${error} />
    ${items?.length === 0 && html`<${Empty}>It has no prompts.<//>`}
    <ul class="tools">${(items || []).slice(0, MOST).map((item) => html`<li key=${item.name}><${Offering} item=${item}><${Prompt} path=${path} item=${item} /><//></li>`)}</ul>
  </div>`;
}

function Prompt({ path, item }) {
  const [given, setGiven] = useState(/** @type {Record<string, string>} */ ({}));
  const [get, isGetting, error, result] = useAction(async () => (await post(`${path}/prompts/get`, { name: item.name, arguments: given })).result);
  const set = (name) => (event) => {
    const { [name]: _, ...others } = given;
    setGiven(event.target.value === "" ? others : { ...others, [name]: event.target.value });
  };
  const missing = item.arguments.filter((one) => one.required && !(one.name in given));
  return html`<form onSubmit=${(event) => { event.preventDefault(); get(); }} class="prompt">
    ${item.arguments.map((one) => html`<label class="wide" key=${one.name}><span class="name">${visible(one.name)}</span> <span class="hints">${one.required ? "required" : "optional"}${one.description && ` · ${visible(one.description)}`}</span>
      <textarea class="text" rows="1" value=${given[one.name] || ""} onInput=${set(one.name)}></textarea></label>`)}
    <button disabled=${isGetting || !item.enabled || missing.length > 0}>${isGetting ? "Getting …" : "Get its messages"}</button>
    <${Problem} error=${error} />
    ${result && html`<div role="status">${result.description && html`<p class="note">${visible(result.description)}</p>`}
      <ol class="messages">${(Array.isArray(result.messages) ? result.messages : []).map((one, index) => html`<li key=${index}><span class="tag">${visible(one?.role)}</span>
        <${Result} result=${{ content: [one?.content] }} /></li>`)}</ol>
      <details><summary>Raw</summary><${Long} text=${JSON.stringify(result, null, 2)} /></details></div>`}
  </form>`;
}
