// @ts-check
// Saved queries with the tools that are right for them, as `discovery tune eval` asks them.
import { useState } from "preact/hooks";
import { part, post, remove } from "../api.js";
import { html } from "../html.js";
import { quoted } from "../texts.js";
import { Command, Confirmed, counted, Empty, Problem, useAction } from "../ui.js";
import { keyOf } from "./answer.js";

/** @param {any} given */
export function Cases({ file, run, asked, answer, onChanged, error }) {
  const now = new Map((run?.before.queries || []).map((row) => [row.id, row]));
  const then = new Map((run?.after?.queries || []).map((row) => [row.id, row]));
  const moved = new Map((run?.moves || []).map((move) => [move.id, move]));
  const good = (report) => report.queries.filter((row) => row.good).length;
  return html`<section aria-labelledby="cases">
    <h3 id="cases">Saved queries</h3>
    <${Problem} error=${error} />
    ${file && file.cases.length === 0 && html`<${Empty}>None yet. Save a query with the tool that is right for it, and each change shows whether that is still found.<//>`}
    ${run && file?.cases.length > 0 && html`<p>${good(run.before)}${run.after ? ` → ${good(run.after)}` : ""} of ${counted(run.before.queries.length, "query", "queries")} served${run.after && !run.moves.length ? "; none moves" : ""}.</p>`}
    <ul class="entries">${(file?.cases || []).map((one) => html`<li key=${one.id}><${Case} saved=${one} now=${now.get(one.id)} then=${then.get(one.id)} move=${moved.get(one.id)} onChanged=${onChanged} /></li>`)}</ul>
    ${asked && answer && html`<${NewCase} key=${asked} asked=${asked} answer=${answer} known=${(file?.cases || []).some((one) => one.query === asked)} onChanged=${onChanged} />`}
    ${file?.cases.length > 0 && html`<details><summary>Run them in a terminal, or in CI</summary><${Command} text=${`discovery tune eval ${quoted(file.path)}`} /></details>`}
  </section>`;
}

function Case({ saved, now, then, move, onChanged }) {
  const row = then || now;
  const kind = !row ? "off" : row.good ? "good" : "bad";
  const standing = !now ? "not asked" : move ? `${move.before || "–"} → ${move.after || "–"}` : now.standing;
  return html`<div class="bar case">
    <span class="state ${kind}"><span aria-hidden="true">${{ good: "●", bad: "▲", off: "○" }[kind]}</span> <span class="hidden">${kind === "good" ? "served" : kind === "bad" ? "not served" : "not asked"}, </span>${standing}</span>
    ${move && html`<span class="shift ${move.direction === "worse" || move.direction === "gone" ? "bad" : move.direction === "better" ? "good" : ""}">${move.direction}</span>`}
    <span class="asked"><a href="#/search?q=${part(saved.query)}">${saved.query}</a> <span class="note">${saved.tools.join(", ") || "no tool is right"}${!now && "; not there, or hidden"}</span></span>
    <${Confirmed} label="Remove …" question="Remove this query?" verb="Remove it" act=${async () => { await remove(`/eval/cases/${part(saved.id)}`); onChanged(); }}><p>${saved.query}</p><//>
  </div>`;
}

function NewCase({ asked, answer, known, onChanged }) {
  const [right, setRight] = useState(/** @type {string[]} */ ([]));
  const [isNone, setNone] = useState(false);
  const [save, isSaving, error, saved] = useAction(async () => {
    await post("/eval/cases", { query: asked, tools: isNone ? [] : right });
    onChanged();
    return true;
  });
  if (known) return html`<p class="note" role="status">${saved ? "Saved." : "This query is saved."}</p>`;
  const hits = [...answer.results, ...answer.nearest];
  const toggle = (name) => setRight((names) => (names.includes(name) ? names.filter((one) => one !== name) : [...names, name]));
  return html`<details class="new-case"><summary>Save this query</summary>
    <form onSubmit=${(event) => { event.preventDefault(); save(); }}>
      <fieldset><legend>Which tools are right for “${asked}”?</legend>
        ${hits.map((hit) => html`<label class="choice" key=${keyOf(hit)}><input type="checkbox" checked=${right.includes(keyOf(hit))} disabled=${isNone} onChange=${() => toggle(keyOf(hit))} /> ${keyOf(hit)}</label>`)}
        <label class="choice"><input type="checkbox" checked=${isNone} onChange=${() => setNone(!isNone)} /> None: nothing should be found</label>
      </fieldset>
      <button disabled=${isSaving || !(isNone || right.length)}>${isSaving ? "Saving …" : "Save the query"}</button>
      <${Problem} error=${error} />
    </form></details>`;
}
