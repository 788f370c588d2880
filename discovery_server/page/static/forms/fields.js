// @ts-check
// The fields of a form that is made from a JSON Schema.
import { useId, useMemo, useState } from "preact/hooks";
import { html } from "../html.js";
import { visible } from "../texts.js";
import { FORMATS, has, isObject, same, Unfinished } from "./schema_check.js";
import { blank, fieldOf, initial, jsonIn, jsonText, numberIn, variantOf, withItem, withMember } from "./schema_field.js";

const MOST_SHOWN = 40; // optional members of a group, before the rest is a click away
const LONG = 200; // characters; from there on a text has lines
const SECRET = /passw|passphrase|secret|token|api.?key|credential|\bpin\b/i; // names of what is not shown while it is typed
const INPUTS = { date: "date", "date-time": "datetime-local", time: "time", email: "email", uri: "url", password: "password" };

/**
 * The form of an object: its members, one below the other.
 * @param {{schema: any, value: any, onChange: (value: any) => void, mistakes: import("./schema_check.js").Mistake[], isTried: boolean, hidesSecrets?: boolean}} given
 */
export function SchemaForm({ schema, value, onChange, mistakes, isTried, hidesSecrets = false }) {
  const field = useMemo(() => fieldOf(schema, schema), [schema]);
  const at = { root: schema, path: [], depth: 0, mistakes, isTried, hidesSecrets };
  if (field.kind !== "group") return html`<${Raw} at=${at} label="Arguments, as JSON" field=${field} value=${value} onChange=${onChange} />`;
  return html`<div class="fields"><${Members} at=${at} field=${field} value=${value} onChange=${onChange} /></div>`;
}

function Members({ at, field, value, onChange }) {
  const [isWhole, setWhole] = useState(false);
  const optional = field.members.filter((member) => !member.isRequired && !has(value, member.name));
  const left = isWhole ? [] : optional.slice(MOST_SHOWN).map((member) => member.name);
  const known = new Set(field.members.map((member) => member.name));
  const strangers = isObject(value) ? Object.keys(value).filter((name) => !known.has(name)) : [];
  const change = (name) => (one) => onChange(withMember(value, name, one));
  return html`
    ${field.members.filter((member) => !left.includes(member.name)).map((member) => html`<${Field} key=${member.name} at=${inside(at, member.name)}
      name=${member.name} schema=${member.schema} isRequired=${member.isRequired} value=${has(value, member.name) ? value[member.name] : undefined} onChange=${change(member.name)} />`)}
    ${left.length > 0 && html`<p><button type="button" onClick=${() => setWhole(true)}>${left.length} more optional ones</button></p>`}
    ${strangers.map((name) => html`<${Field} key=${`other ${name}`} at=${inside(at, name)} name=${name} isAdded schema=${isObject(field.others) ? field.others : true}
      value=${value[name]} onChange=${change(name)} />`)}
    ${isObject(field.others) && html`<${NewMember} taken=${value} onAdd=${(name) => onChange(withMember(value, name, blank(field.others, at.root, at.depth + 1)))} />`}
    ${field.members.length === 0 && !isObject(field.others) && strangers.length === 0 && html`<p class="note">It takes no arguments.</p>`}`;
}

function NewMember({ taken, onAdd }) {
  const [name, setName] = useState("");
  const add = () => { onAdd(name); setName(""); };
  return html`<div class="row"><label>Name of a further one <input value=${name} onInput=${(e) => setName(e.target.value)} /></label>
    <button type="button" onClick=${add} disabled=${!name || has(taken, name)}>Add</button></div>`;
}

/** A field with its label, what is said of it, and what is wrong with it. */
function Field({ at, name, schema, isRequired = false, isAdded = false, value, onChange }) {
  const field = useMemo(() => fieldOf(schema, at.root, at.depth), [schema, at.root]);
  const id = useId();
  const here = at.mistakes.filter((one) => same(one.path, at.path));
  const isShown = at.isTried || (value !== undefined && !(value instanceof Unfinished && value.text === ""));
  const said = [field.description && `${id}-about`, isShown && here.length && `${id}-wrong`].filter(Boolean).join(" ");
  const Kind = KINDS[field.kind];
  const isOptional = !isRequired && !isAdded;
  const isGroup = GROUPS.has(field.kind);
  const about = html`${field.description && html`<p class="note about" id=${`${id}-about`}>${visible(field.description)}</p>`}`;
  const wrong = isShown && here.length > 0 && html`<p class="wrong" id=${`${id}-wrong`}>${here.map((one) => one.message).join("; ")}</p>`;
  const title = html`<span class="name">${visible(name)}</span> <span class="hints">${hints(field, isRequired)}</span>`;
  const input = { at, field, value, onChange, isRequired, id, "aria-describedby": said || undefined, "aria-invalid": isShown && here.length ? "true" : undefined };
  const clear = html`${field.isNullable && value !== null && html`<button type="button" class="quiet" onClick=${() => onChange(null)}>Set to null</button>`}
    ${(isAdded || (isOptional && value !== undefined && (isGroup || value === null))) && html`<button type="button" class="quiet" onClick=${() => onChange(undefined)}>${isAdded ? "Remove" : "Leave out"}</button>`}`;
  if (value === null && field.kind !== "raw" && field.kind !== "choice" && field.kind !== "null") {
    return html`<div class="field"><p class="label" id=${`${id}-label`}>${title}</p>${about}<p><code>null</code> ${wrong}
      ${field.isNullable && html`<button type="button" class="quiet" onClick=${() => onChange(blank(schema, at.root, at.depth))}>Write a value</button>`}${clear}</p></div>`;
  }
  if (isGroup && value === undefined) {
    const add = () => onChange(initial(schema, at.root, true, at.depth) ?? empty(field, at));
    return html`<div class="field"><p class="label row">${title} <button type="button" onClick=${add} id=${id} aria-describedby=${said || undefined} aria-invalid=${wrong ? "true" : undefined}>Add ${visible(name)}</button></p>${about}${wrong}${clear}</div>`;
  }
  if (isGroup) {
    return html`<fieldset class="field" aria-describedby=${said || undefined}><legend>${title}</legend>${about}
      <${Kind} ...${input} />
      ${wrong}${clear}</fieldset>`;
  }
  return html`<div class="field"><label for=${id}>${title}</label>${about}<${Kind} ...${input} />${wrong}${clear}</div>`;
}

const empty = (field, at) => (field.kind === "list" || field.kind === "several" ? [] : field.kind === "group" ? {} : blank(field.schema, at.root, at.depth));
const inside = (at, step) => ({ ...at, path: [...at.path, step], depth: at.depth + 1 });

function hints(field, isRequired) {
  const { schema } = field;
  const format = has(FORMATS, schema.format) && field.kind === "text" ? schema.format : "";
  const kind = { text: format || "text", number: field.isWhole ? "whole number" : "number", boolean: "yes or no", choice: "choice", file: "file", raw: "JSON", const: "fixed" }[field.kind] || "";
  const least = schema.minimum ?? schema.exclusiveMinimum;
  const most = schema.maximum ?? schema.exclusiveMaximum;
  const range = field.kind === "number" && (least !== undefined || most !== undefined) ? `${least ?? "…"} to ${most ?? "…"}` : "";
  const standard = has(schema, "default") && schema.default !== null ? `default ${JSON.stringify(schema.default)}` : "";
  const title = field.title && field.kind !== "variants" ? visible(field.title) : "";
  return [title, kind, range, visible(standard).slice(0, 60), isRequired && "required"].filter(Boolean).join(" · ");
}

/** What an input element gets of its field. */
const attributes = (given) => ({ id: given.id, "aria-describedby": given["aria-describedby"], "aria-invalid": given["aria-invalid"], "aria-required": given.isRequired ? "true" : undefined });

function Text(given) {
  const { field, value, onChange } = given;
  const { schema } = field;
  const text = value === undefined ? "" : typeof value === "string" ? value : jsonText(value);
  const change = (typed) => onChange(typed === "" && !given.isItem ? undefined : typed);
  const example = Array.isArray(schema.examples) && typeof schema.examples[0] === "string" ? schema.examples[0] : "";
  const isSecret = schema.writeOnly === true || (given.at.hidesSecrets && SECRET.test(`${given.at.path.at(-1)} ${field.title}`));
  const type = isSecret ? "password" : INPUTS[schema.format];
  if (type === "datetime-local") {
    const moment = (typed) => (typed === "" ? change("") : onChange(new Date(typed).toISOString().replace(".000Z", "Z")));
    return html`<input ...${attributes(given)} class="short" type="datetime-local" step="1" value=${localMoment(text)} onInput=${(e) => moment(e.target.value)} />
      ${text && html` <span class="note">${visible(text)}</span>`}`;
  }
  if (type) return html`<input ...${attributes(given)} class=${type === "date" || type === "time" ? "short" : ""} type=${type} step=${type === "time" ? "1" : undefined} value=${text} placeholder=${example} onInput=${(e) => change(e.target.value)} autocomplete="off" />`;
  // An input would lose the lines of what is pasted.
  const isLong = (schema.maxLength || 0) >= LONG || /^text\/|markdown/.test(schema.contentMediaType || schema.format || "") || text.includes("\n");
  return html`<textarea ...${attributes(given)} class="text" rows=${isLong ? 4 : 1} value=${text} placeholder=${example} onInput=${(e) => change(e.target.value)} spellcheck=${false}></textarea>`;
}

function localMoment(text) {
  const date = new Date(text);
  if (!text || Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function Num(given) {
  const { field, value, onChange } = given;
  const text = value === undefined ? "" : value instanceof Unfinished ? value.text : jsonText(value);
  const change = (typed) => onChange(typed.trim() === "" && !given.isItem ? undefined : numberIn(typed, field.isWhole));
  return html`<input ...${attributes(given)} class="short" inputmode=${field.isWhole ? "numeric" : "decimal"} value=${text} onInput=${(e) => change(e.target.value)} autocomplete="off" />`;
}

function Options({ options, value, onChange, ...given }) {
  const index = options.findIndex((one) => same(one.value, value));
  const isStrange = index < 0 && value !== undefined && !(value instanceof Unfinished);
  return html`<select ...${attributes(given)} value=${isStrange ? "strange" : String(index)} onChange=${(e) => onChange(e.target.value === "-1" ? undefined : options[Number(e.target.value)].value)}>
    ${(!given.isRequired || index < 0) && html`<option value="-1">${given.isRequired ? "choose …" : "left out"}</option>`}
    ${isStrange && html`<option value="strange" disabled>${visible(jsonText(value)).slice(0, 100)}</option>`}
    ${options.map((one, place) => html`<option key=${place} value=${String(place)}>${visible(one.title)}</option>`)}
  </select>`;
}

const Bool = (given) => html`<${Options} ...${given} options=${[{ value: true, title: "yes (true)" }, { value: false, title: "no (false)" }]} />`;
const Choice = (given) => html`<${Options} ...${given} options=${given.field.isNullable ? [...given.field.options, { value: null, title: "null" }] : given.field.options} />`;
const Const = (given) => html`<${Options} ...${given} options=${[{ value: given.field.schema.const, title: jsonText(given.field.schema.const) }]} />`;
const Null = (given) => html`<${Options} ...${given} options=${[{ value: null, title: "null" }]} />`;

function Several({ field, value, onChange }) {
  const chosen = Array.isArray(value) ? value : [];
  const toggle = (one) => onChange(chosen.some((other) => same(other, one)) ? chosen.filter((other) => !same(other, one)) : [...chosen, one]);
  return html`<div class="several">${field.options.map((one, index) => html`<label key=${index}><input type="checkbox" checked=${chosen.some((other) => same(other, one.value))} onChange=${() => toggle(one.value)} /> ${visible(one.title)}</label>`)}</div>`;
}

function List({ at, field, value, onChange, id }) {
  if (!Array.isArray(value)) return html`<${Raw} at=${at} field=${field} value=${value} onChange=${onChange} id=${id} />`;
  return html`<ol class="items">${value.map((item, index) => html`<li key=${index}>
      <${Item} at=${inside(at, index)} schema=${field.item} value=${item} label=${`Item ${index + 1}`} onChange=${(one) => onChange(withItem(value, index, one))} />
      <button type="button" class="quiet" aria-label=${`Remove item ${index + 1}`} onClick=${() => onChange(withItem(value, index, undefined))}>Remove</button></li>`)}</ol>
    <button type="button" onClick=${() => onChange([...value, blank(field.item, at.root, at.depth + 1)])}>Add an item</button>`;
}

function Item({ at, schema, value, label, onChange }) {
  const field = useMemo(() => fieldOf(schema, at.root, at.depth), [schema, at.root]);
  const id = useId();
  const here = at.mistakes.filter((one) => same(one.path, at.path));
  const isShown = at.isTried || !(value instanceof Unfinished && value.text === "");
  const wrong = isShown && here.length > 0 && html`<p class="wrong" id=${`${id}-wrong`}>${here.map((one) => one.message).join("; ")}</p>`;
  const set = (one) => onChange(one === undefined ? (field.kind === "text" ? "" : new Unfinished("")) : one);
  const Kind = KINDS[field.kind];
  const given = { at, field, value, onChange: set, isRequired: true, isItem: true, id, "aria-describedby": wrong ? `${id}-wrong` : undefined, "aria-invalid": wrong ? "true" : undefined };
  if (GROUPS.has(field.kind)) return html`<fieldset><legend class="hidden">${label}</legend><${Kind} ...${given} />${wrong}</fieldset>`;
  return html`<div class="item"><label class="hidden" for=${id}>${label}</label><${Kind} ...${given} />${wrong}</div>`;
}

const Group = ({ at, field, value, onChange, id }) => (isObject(value) ? html`<${Members} at=${at} field=${field} value=${value} onChange=${onChange} />`
  : html`<${Raw} at=${at} field=${field} value=${value} onChange=${onChange} id=${id} />`);

function Variants({ at, field, value, onChange, isRequired, isItem, id }) {
  const [chosen, setChosen] = useState(() => variantOf(field, value, at.root));
  const variant = field.variants[chosen];
  const choose = (index) => { setChosen(index); onChange(initial(variant && field.variants[index].schema, at.root, true, at.depth + 1) ?? blank(field.variants[index].schema, at.root, at.depth + 1)); };
  const inner = useMemo(() => fieldOf(variant.schema, at.root, at.depth + 1), [variant, at.root]);
  const Kind = KINDS[inner.kind];
  // The mistakes of the whole are those of the nearest choice, at the same places.
  return html`<label>Which <select value=${String(chosen)} onChange=${(e) => choose(Number(e.target.value))}>
      ${field.variants.map((one, index) => html`<option key=${index} value=${String(index)}>${visible(one.title)}</option>`)}</select></label>
    ${!GROUPS.has(inner.kind) && html`<label class="hidden" for=${id}>Value</label>`}
    <${Kind} key=${chosen} at=${{ ...at, depth: at.depth + 1 }} field=${inner} value=${value} isRequired=${isRequired} isItem=${isItem} id=${id} onChange=${(one) => onChange(one === undefined ? new Unfinished("") : one)} />`;
}

function Raw({ at, field, value, onChange, label = "", ...given }) {
  const [typed, setTyped] = useState(() => (value === undefined ? "" : jsonText(value)));
  // What was written elsewhere takes the place of what was typed here.
  const known = value === undefined ? "" : value instanceof Unfinished ? value.text : null;
  const text = known ?? (same(jsonIn(typed), value) ? typed : jsonText(value));
  const change = (one) => { setTyped(one); onChange(one.trim() === "" && !given.isItem ? undefined : jsonIn(one)); };
  const input = html`<textarea ...${attributes(given)} class="json" rows="3" value=${text} onInput=${(e) => change(e.target.value)} placeholder=${field.schema.type === "object" ? "{ }" : field.schema.type === "array" ? "[ ]" : "JSON"} spellcheck=${false}></textarea>`;
  return label ? html`<label class="wide">${label} ${input}</label>` : input;
}

function File(given) {
  const { field, value, onChange } = given;
  const read = async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    const bytes = new Uint8Array(await file.arrayBuffer());
    onChange(btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")));
  };
  const size = typeof value === "string" ? Math.floor((value.length * 3) / 4) : 0;
  return html`<input ...${attributes(given)} type="file" accept=${field.schema.contentMediaType} onChange=${read} />
    ${typeof value === "string" ? html` <span class="note">${size.toLocaleString("en")} bytes</span> <button type="button" class="quiet" onClick=${() => onChange(given.isItem ? new Unfinished("") : undefined)}>Take it out</button>`
      : html` <span class="note">A call has room for some 90 KB.</span>`}`;
}

const GROUPS = new Set(["group", "list", "several", "variants"]);
const KINDS = {
  text: Text, number: Num, boolean: Bool, choice: Choice, several: Several, const: Const, null: Null,
  file: File, group: Group, list: List, variants: Variants, raw: Raw,
};
