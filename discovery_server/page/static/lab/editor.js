// @ts-check
// Rules, overrides and synonyms as text, beside what a change of them would do.
import { useEffect, useRef } from "preact/hooks";
import { put } from "../api.js";
import { html } from "../html.js";
import { Diff } from "../plan.js";
import { Command, Confirmed, counted, Empty, Problem, Prose } from "../ui.js";
import { inFile, percent } from "./answer.js";
import { drafts, goTo, open, setDraft, target, textOf } from "./sections.js";

const NAMES = { toolRules: "Tool rules", serverRules: "Server rules", "file.toolRules": "Tool rules of the file", "file.serverRules": "Server rules of the file", overrides: "Overrides", "search.synonyms": "Synonyms" };
const HELP = {
  toolRules: { text: "The first rule that matches and has `enabled` decides; tags add up.", example: '- pattern: "*delete*"\n  enabled: false' },
  serverRules: { text: "As tool rules, over whole servers.", example: '- pattern: "*-staging"\n  enabled: false' },
  overrides: { text: "Other names, texts, tags and examples for tools. Later entries win.", example: '- pattern: github:create_issue\n  examples: ["report a bug"]' },
  "search.synonyms": { text: "Groups of words that mean the same.", example: "- [refund, money back]" },
};
const OF_VIEW = { text: "What clients of the view see, of what is enabled without it.", example: '- pattern: "*delete*"\n  enabled: false' };
const FEWEST_LINES = 6;
const MOST_LINES = 22;
const NAMED = 12; // tools of a change; more are counted

/** @param {any} given */
export function Editor({ rules, view, changed, planned, isSpent, problems, error, isPlanning, onSaved, onRefused }) {
  const names = Object.keys(NAMES).filter((one) => rules.sections.some(({ name }) => name === one)).concat(view ? [`views.${view}.rules`] : []);
  useEffect(() => { if (!names.includes(open.value)) open.value = "toolRules"; }, [view]);
  const name = names.includes(open.value) ? open.value : "toolRules";
  const help = HELP[name.replace("file.", "")] || OF_VIEW;
  const text = textOf(rules.sections, name);
  const isChanged = Object.keys(changed).length > 0;
  return html`<section class="tuning" aria-labelledby="tuning">
    <h3 id="tuning">Change it, and see what happens</h3>
    <div class="section-names" role="group" aria-label="What to change">${names.map((one) => html`<button key=${one} type="button" aria-pressed=${one === name ? "true" : "false"} onClick=${() => { open.value = one; }}>
      ${NAMES[one] || `Rules of ${view}`}${changed[one] !== undefined && html`<span class="dot" title="changed"> ●<span class="hidden">, changed</span></span>`}</button>`)}</div>
    <p class="note"><${Prose} text=${help.text} /></p>
    <${TextArea} name=${name} label=${NAMES[name] || `Rules of ${view}`} text=${text} example=${help.example} problems=${problems.filter((one) => one.file === name)} />
    ${problems.length > 0 ? html`<${Problems} problems=${problems} />` : html`<${Problem} error=${error} />`}
    <div class="bar">
      <${Save} changed=${changed} planned=${planned} isSpent=${isSpent} rules=${rules} onSaved=${onSaved} onRefused=${onRefused} />
      ${isChanged && html`<button type="button" onClick=${() => { drafts.value = {}; }}>Undo all changes</button>`}
    </div>
    ${isChanged && html`<details><summary>Copy it as YAML</summary><${Command} text=${asYaml(changed)} /></details>`}
    <div role="status" aria-busy=${isPlanning}>${isChanged && planned && html`<${Effect} plan=${planned} path=${rules.path} synonyms=${synonymsText(rules.sections, changed)} />`}</div>
    ${!isChanged && html`<${Empty}>Nothing is changed. Edit the text, or use what stands below each tool; the plan appears here before anything is saved.<//>`}
  </section>`;
}

function TextArea({ name, label, text, example, problems }) {
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const lines = text.split("\n").length;
  const wrong = new Set(problems.map((one) => one.line));
  const place = target.value;
  useEffect(() => {
    if (!place || place.section !== name || !area.current) return;
    target.value = null;
    const start = text.split("\n").slice(0, place.line - 1).reduce((sum, line) => sum + line.length + 1, 0) + place.column - 1;
    const end = text.indexOf("\n", start);
    area.current.focus();
    area.current.setSelectionRange(start, end < 0 ? text.length : end);
    area.current.scrollIntoView({ block: "nearest" });
  }, [place, text]);
  return html`<div class="editor">
    <div class="lines" aria-hidden="true">${Array.from({ length: lines }, (_, index) => html`<span key=${index} class=${wrong.has(index + 1) ? "wrong" : ""}>${index + 1}</span>`)}</div>
    <textarea ref=${area} aria-label=${label} aria-invalid=${wrong.size ? "true" : undefined} spellcheck=${false} autocomplete="off" autocapitalize="off" wrap="off"
      rows=${Math.max(FEWEST_LINES, Math.min(MOST_LINES, lines + 1))} value=${text} placeholder=${example}
      onScroll=${(event) => { event.target.previousElementSibling.scrollTop = event.target.scrollTop; }}
      onInput=${(event) => setDraft(name, event.target.value)}></textarea></div>`;
}

function Problems({ problems }) {
  return html`<div class="problem" role="alert"><ul>${problems.map((one, index) => html`<li key=${index}>
    ${one.line ? html`<button type="button" class="plain" onClick=${() => goTo(one.file, one.line, one.column || 1)}>${NAMES[one.file] || one.file}, line ${one.line}, column ${one.column}</button>` : html`<strong>${one.file}</strong>`}:
    ${" "}<${Prose} text=${one.message} /> <code>${one.code}</code>${one.hint && html`<p><${Prose} text=${one.hint} /></p>`}</li>`)}</ul></div>`;
}

/** What was planned is saved. A plan that is spent stays in sight until the next one is there, and is not saved again. */
function Save({ changed, planned, isSpent, rules, onSaved, onRefused }) {
  if (!planned || !Object.keys(changed).length) return null;
  const save = async () => {
    try {
      const written = await put("/rules", { sections: changed, digest: planned.digest });
      const saved = written.backup ? `Saved. The file before is ${written.backup}` : "Saved for all gateways of this configuration.";
      onSaved(changed, planned, written.written ? saved : "Nothing was different.");
    } catch (error) {
      if (error.code === "PLAN_CHANGED") onRefused(planned);
      throw error;
    }
  };
  const places = new Set(rules.sections.filter(({ name }) => changed[name] !== undefined).map(({ where }) => where));
  return html`<${Confirmed} label="Save …" question="Save this change?" verb="Save" isCalm isReady=${!isSpent} act=${save}>
    ${places.has("registry") && html`<p>Rules are kept in the registry, and used at once by all gateways of this configuration.</p>`}
    ${places.has("file") && html`<p>It is written to <code>${rules.path}</code> and used at once. The file of now is kept beside it as <code>.bak</code>.</p>`}
    <${Diff} text=${planned.diff} /><//>`;
}

function asYaml(changed) {
  const indented = (text, by) => text.split("\n").map((line) => (line.trim() ? by + line : line)).join("\n").trimEnd();
  return Object.entries(changed).map(([name, text]) => {
    const keys = name.replace("file.", "").split(".");
    const head = keys.map((key, index) => `${"  ".repeat(index)}${key}:`).join("\n");
    return `${head}\n${indented(text, "  ".repeat(keys.length))}`;
  }).join("\n");
}

/** What changes of the synonyms, group by group where each has a line. @param {any[]} sections @param {Record<string, string>} changed */
function synonymsText(sections, changed) {
  const groups = (text) => text.split("\n").flatMap((line) => /^\s*- *(\[.*\])\s*(#.*)?$/.exec(line)?.[1] ?? []);
  const name = "search.synonyms";
  const saved = sections.find((one) => one.name === name)?.text ?? "";
  const [before, after] = [saved, changed[name] ?? saved].map(groups);
  const [added, removed] = [[after, before], [before, after]].map(([some, others]) => some.filter((one) => !others.includes(one)).join(", "));
  return [added && `${added} mean the same`, removed && `${removed} no longer mean the same`].filter(Boolean).join("; ") || "synonyms change";
}

/** What a planned change does. */
function Effect({ plan, path, synonyms }) {
  const counts = plan.tools_counts;
  const parts = [
    counts.appears && `${counted(counts.appears, "tool appears", "tools appear")}`,
    counts.vanishes && `${counted(counts.vanishes, "tool vanishes", "tools vanish")}`,
    counts.changes && `${counted(counts.changes, "tool changes", "tools change")}`,
    ...plan.settings.map((key) => (key === "search" ? synonyms : `${key} changes`)), // no other key of `search` is edited here
  ].filter(Boolean);
  return html`<div class="effect">
    <p><strong>${parts.join("; ") || "No tool appears, vanishes or changes"}</strong>. Agents see ${plan.visible.before.toLocaleString("en")} → ${counted(plan.visible.after, "tool")}.</p>
    ${plan.queries.map((move) => html`<${Move} key=${move.query} move=${move} />`)}
    ${plan.tools.length > 0 && html`<ul class="changed">${plan.tools.slice(0, NAMED).map((one) => html`<li key=${`${one.server}:${one.tool}`}>
      <span class="state ${{ appears: "good", vanishes: "bad" }[one.what] || "off"}"><span aria-hidden="true">${{ appears: "+", vanishes: "−" }[one.what] || "~"}</span> ${one.what}</span> ${one.server}:${one.tool}
      <span class="note"> ${inFile(one.reason, path) || Object.keys(one.changes).join(", ")}</span></li>`)}</ul>`}
    ${total(counts) > NAMED && html`<p class="note">and ${counted(total(counts) - NAMED, "more")}.</p>`}
    ${plan.views.length > 0 && html`<p class="note">Views that change: ${plan.views.map((one) => `${one.name} (${one.visible.before} → ${counted(one.visible.after, "tool")})`).join(", ")}</p>`}
  </div>`;
}

const total = (counts) => counts.appears + counts.vanishes + counts.changes;

function Move({ move }) {
  const names = [...move.after, ...move.before.filter((name) => !move.after.includes(name))];
  const { decision, confidence } = move;
  const pair = (one, other) => (one === other ? one : `${one} → ${other}`);
  const summary = `${pair(decision.before, decision.after)}, confidence ${pair(percent(confidence.before), percent(confidence.after))}`;
  if (!move.moved) return html`<p>“${move.query}” finds the same tools in the same order: ${summary}.</p>`;
  return html`<table class="moves"><caption>“${move.query}”: ${summary}</caption>
    <thead><tr><th class="number">now</th><th class="number">then</th><th>tool</th></tr></thead>
    <tbody>${names.map((name) => {
    const [one, other] = [move.before, move.after].map((list) => list.indexOf(name) + 1);
    const kind = other === one ? "off" : !one || (other && other < one) ? "good" : "bad";
    return html`<tr key=${name}><td class="number" data-label="now">${one || "–"}</td><td class="number" data-label="then"><span class="state ${kind}">${other || "–"}${{ good: " ▲", bad: " ▼", off: "" }[kind]}</span></td><td>${name}</td></tr>`;
  })}</tbody></table>`;
}
