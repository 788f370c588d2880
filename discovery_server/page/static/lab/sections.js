// @ts-check
// Sections of the configuration as text: what an owner changed and has not saved, and new entries.
import { signal } from "@preact/signals";

/** The texts that differ from the file, by the names of sections. They stay while other areas are open.
 * @type {import("@preact/signals").Signal<Record<string, string>>} */
export const drafts = signal({});
/** Where the editor is to go: it is cleared by who goes there.
 * @type {import("@preact/signals").Signal<{section: string, line: number, column: number} | null>} */
export const target = signal(null);
/** The section that is open. */
export const open = signal("toolRules");

/** @param {any[]} sections as `GET /rules` has them */
export const changedOf = (sections) => Object.fromEntries(sections
  .filter(({ name, text }) => drafts.value[name] !== undefined && drafts.value[name] !== text)
  .map(({ name }) => [name, drafts.value[name]]));

/** What a section says at the moment. @param {any[]} sections @param {string} name */
export const textOf = (sections, name) => drafts.value[name] ?? sections.find((one) => one.name === name)?.text ?? "";

/** Let go of drafts that were written, once the sections were read again: until then the file of before is known.
 * @param {Record<string, string>} written */
export function forget(written) {
  const kept = Object.entries(drafts.value).filter(([name, text]) => written[name] !== text);
  if (kept.length < Object.keys(drafts.value).length) drafts.value = Object.fromEntries(kept);
}

/** @param {string} name @param {string} text */
export function setDraft(name, text) {
  drafts.value = { ...drafts.value, [name]: text };
}

/** Put an entry into a section, and show it. @param {any[]} sections @param {string} name
 * @param {any} entry @param {boolean} [isFirst] before all others */
export function addEntry(sections, name, entry, isFirst = false) {
  const text = withEntry(textOf(sections, name), entry, isFirst);
  setDraft(name, text);
  goTo(name, isFirst ? 1 : text.trimEnd().split("\n").length);
}

/** @param {string} section @param {number} line @param {number} [column] */
export function goTo(section, line, column = 1) {
  open.value = section;
  target.value = { section, line, column };
}

/** The section that has a line of the file. @param {any[]} sections @param {number} line */
export function sectionAt(sections, line) {
  return sections.find((one) => one.line && line >= one.line && line < one.line + Math.max(1, one.text.split("\n").length - 1));
}

/** The text of a section with an entry before or behind all others.
 * @param {string} text @param {any} entry @param {boolean} isFirst */
export function withEntry(text, entry, isFirst) {
  const trimmed = text.trim();
  if (trimmed.startsWith("[")) { // JSON, or YAML in brackets
    const items = trimmed.slice(1, -1).trim().replace(/,$/, "");
    const ordered = isFirst ? [JSON.stringify(entry), items] : [items, JSON.stringify(entry)];
    return `[${ordered.filter(Boolean).join(",\n ")}]`;
  }
  const indent = /^( *)- /m.exec(text)?.[1] ?? "";
  const lines = written(entry, indent);
  const ended = !text || text.endsWith("\n") ? text : `${text}\n`;
  return isFirst ? lines + ended : ended + lines;
}

/** An entry as YAML: texts in quotes, which YAML reads as JSON does. @param {any} entry @param {string} indent */
function written(entry, indent) {
  if (Array.isArray(entry)) return `${indent}- ${inBrackets(entry)}\n`;
  return Object.entries(entry).map(([key, value], index) =>
    `${indent}${index ? "  " : "- "}${key}: ${Array.isArray(value) ? inBrackets(value) : JSON.stringify(value)}\n`).join("");
}

/** @param {any[]} items */
const inBrackets = (items) => `[${items.map((one) => JSON.stringify(one)).join(", ")}]`;
