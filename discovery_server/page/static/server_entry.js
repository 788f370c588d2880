// @ts-check
// The entry of a server as a form: a new one, or changes of one that is there; shown as it would be written, then saved.
// And its removal, in the same way.
import { useEffect, useId, useState } from "preact/hooks";
import { part, post, request } from "./api.js";
import { servers } from "./live.js";
import { isObject, Unfinished } from "./forms/schema_check.js";
import { jsonIn } from "./forms/schema_field.js";
import { html } from "./html.js";
import { Planned } from "./install.js";
import { Plan } from "./plan.js";
import { Problem, Prose, State, useAction } from "./ui.js";

const REDACTED = "••••"; // what stands in an answer of the API for a value that is not shown

/** What each field has in an entry, as text, and back. @type {Record<string, {label: string, hint: string, rows?: number, of: (entry: any) => string, to: (text: string) => any, line?: string[]}>} */
const FIELDS = {
  command: { label: "Program", hint: "for a server on this machine", of: (entry) => entry.command || "", to: (text) => text.trim() },
  args: { label: "Arguments", hint: "one a line", rows: 2, of: (entry) => (entry.args || []).join("\n"), to: (text) => text.split("\n").filter((line) => line !== "") },
  env: { label: "Environment", hint: "NAME=value, one a line", rows: 2, of: (entry) => lines(entry.env, "="), to: (text) => pairs(text, "="), line: ["=", "NAME=value"] },
  url: { label: "Address", hint: "for a server elsewhere: https://…", of: (entry) => entry.url || "", to: (text) => text.trim() },
  headers: { label: "Headers", hint: "Name: value, one a line", rows: 2, of: (entry) => lines(entry.headers, ": "), to: (text) => pairs(text, ": "), line: [": ", "Name: value"] },
  others: { label: "Other settings", hint: "JSON, for instance {\"tags\": [\"work\"]}", rows: 2, of: (entry) => (Object.keys(entry).length ? JSON.stringify(entry, null, 2) : ""), to: (text) => (text.trim() ? jsonIn(text) : {}) },
};

const SHAPES = { command: "text", url: "text", cwd: "text", args: "a list", env: "an object", headers: "an object" };
const shapeOf = (value) => (typeof value === "string" ? "text" : Array.isArray(value) ? "a list" : isObject(value) ? "an object" : "");

/** A server that is added: as it is written here, or as another client has it. */
export function NewServer() {
  const [picked, setPicked] = useState(/** @type {any} */ ({ entry: {} }));
  return html`<${Pasted} onPick=${setPicked} /><${NewEntry} key=${picked.key} ...${picked} />`;
}

function NewEntry({ name: first = "", entry: start }) {
  const [name, setName] = useState(first);
  const [before, setBefore] = useState({}); // another one after each that was added: the form is for the next one then
  const given = ({ name: named, entry, digest }) => ({ name: named, entry, ...(digest && { digest }) });
  return html`<${EntryForm} named=${name.trim()} verb="Add" before=${before} start=${start} extra=${{ name: name.trim() }}
    first=${(field) => html`<${Field} label="Name" hint="as agents see it" text=${name} ...${field(setName)} />`} none="It needs a program or an address."
    act=${(choice) => post("/servers", given(choice))} onDone=${() => { setName(""); setBefore({}); }}
    done=${(answer) => html`<p>Added as <a href=${`#/servers/${part(answer.name)}`}>${answer.name}</a>.</p><${Standing} name=${answer.name} />`} />`;
}

let picks = 0;

/** A block of another client's file, each of whose servers fills the form. @param {{onPick: (picked: any) => void}} given */
function Pasted({ onPick }) {
  const [text, setText] = useState("");
  const pick = ({ name, entry }) => onPick({ name, entry, key: ++picks });
  const [read, isReading, error, found] = useAction(async () => {
    const { servers: all } = await post("/servers/read", { text });
    if (all.length === 1 && all[0].entry) pick(all[0]);
    return all;
  });
  const isKnown = (name) => servers.value.some((one) => one.name === name);
  return html`<details class="paste"><summary>Paste a block of another client</summary>
    <form onSubmit=${(event) => { event.preventDefault(); read(); }}>
      <label>The block of Claude, Cursor, VS Code or another client <textarea class="json" rows="4" value=${text} onInput=${(e) => setText(e.target.value)} spellcheck=${false} placeholder=${'{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'}></textarea></label>
      <p class="row"><button disabled=${isReading || !text.trim()}>Fill in the form with it</button></p></form>
    <${Problem} error=${error} />
    ${found && html`<ul class="entries">${found.map((one, index) => html`<li key=${index}>
      <p class="bar"><strong>${one.name || "without a name"}</strong> ${one.entry && (found.length > 1) && html`<button type="button" onClick=${() => pick(one)}>Fill in the form with it</button>`}
        ${isKnown(one.name) && html`<span class="note">a server of this name is configured</span>`}</p>
      ${one.problem && html`<p class="wrong">It cannot be used: <${Prose} text=${one.problem} /></p>`}
      ${one.notes.map((note) => html`<p class="note" key=${note}><${Prose} text=${note} /></p>`)}</li>`)}</ul>`}
  </details>`;
}

/** How a server is now, with the reason and what to do. @param {{name: string}} given */
function Standing({ name }) {
  const { status = "starting", reason = "", hint = "" } = servers.value.find((one) => one.name === name) || {};
  return html`<p class="standing"><${State} state=${status} /> <${Prose} text=${reason} /></p>${hint && html`<p class="hint"><${Prose} text=${hint} /></p>`}`;
}

/** Changes of the entry of a server. @param {{server: string, entry: any, onChanged: () => void}} given */
export function ChangedServer({ server, entry, onChanged }) {
  const path = `/servers/${part(server)}`;
  const given = ({ entry: after, digest }) => ({ changes: patch(entry, after), ...(digest && { digest }) });
  return html`<${EntryForm} named=${server} verb="Save" before=${entry} extra=${{}}
    act=${(choice) => request("PATCH", path, { body: given(choice) })}
    done=${() => html`<p>Saved. The file before is kept beside it as <code>.bak</code>.</p><${Standing} name=${server} />`} onDone=${onChanged} />`;
}

/** The removal of a server. @param {{server: string, onLeaving: (is: boolean) => void, onRemoved: () => void}} given */
export function RemovedServer({ server, onLeaving, onRemoved }) {
  const act = async ({ digest }) => {
    if (!digest) return request("DELETE", `/servers/${part(server)}`);
    onLeaving(true); // the gateway may report the change before it answers
    try {
      const answer = await request("DELETE", `/servers/${part(server)}`, { query: { digest } });
      onRemoved();
      return answer;
    } catch (error) {
      onLeaving(false);
      throw error;
    }
  };
  return html`<${Planned} act=${act} verb="Remove" done=${() => null}
    show=${(form) => html`<p>Its calls end, and its approval is taken back. Its secrets stay stored, and the file of now stays beside it as <code>.bak</code>.</p><${Plan} plan=${form} />`} />`;
}

/** A text of the gateway with the fields of the form in place of the keys of the file. @param {string} text */
const inForm = (text) => text.replace(/(?:field )?[`'](?:entry\.|changes\.)?(command|args|env|url|headers)[`']/g, (_, key) => `“${FIELDS[key].label}”`);

function EntryForm({ named, verb, before, start = before, extra, act, done, none = "Nothing is changed yet.", first = (field) => null, onDone = () => {} }) {
  const { texts, put, stage, setStage, edit, saving } = useTexts(before, start, onDone);
  const [problems, setProblems] = useState(/** @type {any[]} */ ([]));
  const entry = entryOf(texts);
  const isSame = Object.keys(patch(before, entry)).length === 0;
  const mistakes = ownMistakes(texts, before);
  if (!named && !isSame) mistakes.name = ["Write a name."];
  const unready = Object.keys(mistakes).length > 0 ? "First mend what is marked above." : isSame ? none : !named ? "It needs a name." : "";
  const wrong = (key) => [...(mistakes[key] || []), ...problems.filter((one) => fieldOf(one, named) === key).map((one) => placed(one, named))];
  const save = saving(act);
  const ask = async (choice) => {
    if (choice.digest) return save(choice);
    setProblems([]);
    try {
      return await act(choice);
    } catch (error) {
      const found = error.form?.problems || [];
      setProblems(found);
      error.form.problems = found.filter((one) => !fieldOf(one, named)).map((one) => ({ ...one, hint: inForm(one.hint) }));
      error.message = inForm(error.message);
      if (error.status === 422) error.hint = ""; // which fields the API has
      throw error;
    }
  };
  const field = (key, set) => ({ wrong: wrong(key), isFixed: stage === "saving", onInput: edit(set) });
  return html`<form class="fields" onSubmit=${(event) => { event.preventDefault(); if (!unready) setStage("shown"); }}>
      ${first((set) => field("name", set))}
      ${Object.entries(FIELDS).map(([key, one]) => html`<${Field} key=${key} ...${one} text=${texts[key]} ...${field(key, put(key))} />`)}
      <p class="note">Write a secret as <code>${"${secret:NAME}"}</code>, and store it under <a href="#/settings">Settings</a>. A value that looks like one is stored, and only the reference is written.</p>
      ${stage === "written" && html`<p class="row"><button disabled=${Boolean(unready)}>Show what would be written</button> <span class="note">${unready}</span></p>`}
    </form>
    ${stage !== "written" && html`<${Planned} act=${ask} extra=${{ ...extra, entry }} verb=${verb} done=${done} unready=${unready}
      blocked=${(form) => (form.diff ? "" : "Nothing would be different.")} show=${(form) => form.diff && html`<${Plan} plan=${{ ...form, warnings: form.warnings.map(inForm) }} />`} />`}`;
}

/** The texts of the fields, and how far they are: `written`, `shown` as a plan, `saving` and `saved`, until one of them
 * is changed again. What was saved is shown as the gateway has it then: a secret as its reference.
 * @param {any} before @param {any} start @param {() => void} onDone */
function useTexts(before, start, onDone) {
  const [texts, setTexts] = useState(() => textsOf(start));
  const [stage, setStage] = useState("written");
  const [saved, setSaved] = useState(/** @type {any} */ (null)); // until the entry was read again
  useEffect(() => {
    if (!saved) return;
    const fresh = textsOf(before);
    setTexts((now) => Object.fromEntries(Object.keys(FIELDS).map((key) => [key, now[key] === saved[key] ? fresh[key] : now[key]])));
    setSaved(null);
  }, [before]);
  const edit = (set) => (text) => {
    if (stage === "saved") setStage("written");
    set(text);
  };
  const put = (key) => (text) => setTexts((now) => ({ ...now, [key]: text }));
  const saving = (act) => async (choice) => {
    setStage("saving");
    try {
      const answer = await act(choice);
      setSaved(texts);
      setStage("saved");
      onDone();
      return answer;
    } catch (error) {
      setStage("shown");
      throw error;
    }
  };
  return { texts, put, stage, setStage, edit, saving };
}

function Field({ label, hint, text, wrong, isFixed, rows = 0, onInput }) {
  const id = useId();
  const field = { id, value: text, spellcheck: false, readonly: isFixed, autocomplete: "off", "aria-describedby": `${id}-hint ${id}-wrong`, "aria-invalid": wrong.length ? "true" : undefined, onInput: (event) => onInput(event.target.value) };
  return html`<div class="field"><p class="label row"><label class="name" for=${id}>${label}</label> <span class="hints" id=${`${id}-hint`}>${hint}</span></p>
    ${rows ? html`<textarea ...${field} rows=${rows}></textarea>` : html`<input ...${field} />`}
    <div id=${`${id}-wrong`} role="status">${wrong.map((one) => html`<p class="wrong" key=${one}><${Prose} text=${one} /></p>`)}</div></div>`;
}

const lines = (of, mark) => Object.entries(of || {}).map(([name, value]) => `${name}${mark}${value}`).join("\n");

/** The pairs of lines; those that are none are mistakes (`noPairs`). */
function pairs(text, mark) {
  const found = text.split("\n").filter((line) => isPair(line, mark)).map((line) => {
    const at = line.indexOf(mark);
    return [line.slice(0, at).trim(), line.slice(at + mark.length)];
  });
  return Object.fromEntries(found);
}

const isPair = (line, mark) => line.slice(0, Math.max(0, line.indexOf(mark))).trim() !== "";

/** What is said of each line that is no pair. @param {string} text @param {string[]} form */
function noPairs(text, [mark, form]) {
  return text.split("\n").flatMap((line, index) => (line.trim() && !isPair(line, mark) ? [`Line ${index + 1} is not \`${form}\`: \`${line.trim()}\``] : []));
}

/** The texts of an entry; what a field cannot hold as it is stands among the other settings. @param {any} entry */
function textsOf(entry) {
  const holds = (key) => key in FIELDS && key !== "others" && JSON.stringify(FIELDS[key].to(FIELDS[key].of(entry))) === JSON.stringify(entry[key]);
  const [own, others] = [true, false].map((isHeld) => Object.fromEntries(Object.entries(entry).filter(([key]) => holds(key) === isHeld)));
  return Object.fromEntries(Object.entries(FIELDS).map(([key, field]) => [key, field.of(key === "others" ? others : own)]));
}

/** The entry that the texts make; what is empty is left out. @param {Record<string, string>} texts */
function entryOf({ others, ...texts }) {
  const found = Object.entries(texts).filter(([, text]) => text.trim()).map(([key, text]) => [key, FIELDS[key].to(text)]);
  const rest = FIELDS.others.to(others);
  return { ...(isObject(rest) ? rest : {}), ...Object.fromEntries(found) };
}

/** What cannot be sent: JSON that is none, a line that is no pair, and a hidden value that would be written as it is shown. */
function ownMistakes(texts, before) {
  const found = /** @type {Record<string, string[]>} */ ({});
  const rest = FIELDS.others.to(texts.others);
  if (rest instanceof Unfinished) found.others = [`It ${rest.why}`];
  else if (!isObject(rest)) found.others = ["It must be an object: { … }"];
  else if ("mcpServers" in rest) found.others = ["This is a block of another client: paste it into the field for it, above the name."];
  else {
    const odd = Object.keys(rest).filter((key) => key in SHAPES && (shapeOf(rest[key]) !== SHAPES[key] || texts[key]?.trim()));
    if (odd.length > 0) found.others = odd.map((key) => (key in FIELDS ? `\`${key}\` belongs into the field “${FIELDS[key].label}”, ${FIELDS[key].hint}.` : `\`${key}\` must be ${SHAPES[key]}.`));
  }
  for (const [key, { line }] of Object.entries(FIELDS)) {
    const unread = line ? noPairs(texts[key], line) : [];
    if (unread.length > 0) found[key] = unread;
  }
  const changes = patch(before, entryOf(texts));
  for (const key of Object.keys(FIELDS)) {
    if (JSON.stringify(changes[key] ?? "").includes(REDACTED)) found[key] = [...(found[key] || []), `\`${REDACTED}\` stands for a value that is not shown; write the value, or a reference.`];
  }
  return found;
}

/** The field that a problem of the API is about. @param {any} problem @param {string} name */
function fieldOf({ path }, name) {
  if (!name || !path.startsWith(`servers.${name}`)) return "";
  const key = path.slice(`servers.${name}.`.length).split(/[.[]/)[0];
  return key === "" ? "name" : key in FIELDS ? key : "others";
}

/** A problem in words of the form; of another setting, with its name. @param {any} problem @param {string} name */
function placed(problem, name) {
  const key = fieldOf(problem, name) === "others" ? `\`${problem.path.slice(`servers.${name}.`.length)}\` ` : "";
  return inForm(`${key}${[problem.message, problem.hint].filter(Boolean).join("; ")}`);
}

/** The JSON Merge Patch that makes one object of another. @param {any} before @param {any} after */
function patch(before, after) {
  const found = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [one, other] = [before[key], after[key]];
    if (JSON.stringify(one) === JSON.stringify(other)) continue;
    found[key] = other === undefined ? null : isObject(one) && isObject(other) ? patch(one, other) : other;
  }
  return found;
}
