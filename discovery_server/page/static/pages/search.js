// @ts-check
// Search lab: a request as an agent would make it, why each tool was found or not, and what a change does.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { get, post, put } from "../api.js";
import { html } from "../html.js";
import { Answer, hitsOf, keyOf } from "../lab/answer.js";
import { Cases } from "../lab/cases.js";
import { Editor } from "../lab/editor.js";
import { changedOf, forget } from "../lab/sections.js";
import { reloads, revision } from "../live.js";
import { address, Empty, Problem, useLast, useLoaded, useSettled } from "../ui.js";

const TYPING = 250; // milliseconds
const EDITING = 500; // of a plan, which costs more than a search
const MOST_RANKS = 20; // of a client that sees everything

export function Search({ query }) {
  const [words, setWords] = useState(query.get("q") || "");
  const [[view, principal], setClient] = useState(clientOf(query));
  useEffect(() => { setWords(query.get("q") || ""); setClient(clientOf(query)); }, [query]);
  const asked = useSettled(words.trim(), TYPING);
  const [views] = useLoaded((signal) => get("/views", {}, signal), [], [revision.value]);
  const lab = useChanges(asked, view);
  const here = address("search", { q: asked, view, principal });
  useEffect(() => history.replaceState(null, "", here), [here]);
  const [found, error, isLoading] = useLoaded((signal) => (asked ? get("/search/examination", { query: asked, view, principal }, signal) : null),
    [asked, view, principal], [lab.written, revision.value, reloads.value]);
  // What a client that sees everything finds: a view or a team has other ranks.
  const isLimited = Boolean(view || principal);
  const [whole] = useLoaded((signal) => (asked && isLimited ? get("/search/examination", { query: asked, limit: MOST_RANKS }, signal) : null),
    [asked, isLimited], [lab.written, revision.value, reloads.value]);
  const answer = useLast(found, isLoading);
  const isOther = answer !== found; // that of another request stays in sight until this one's is there
  const planned = principal ? null : lab.planned?.queries[0];
  const ranks = whole && found && { moved: true, isOfAll: true, before: hitsOf(whole).map(keyOf), after: hitsOf(found).map(keyOf) };
  return html`
    <h2>Search lab</h2>
    <form class="row" onSubmit=${(e) => e.preventDefault()}>
      <label class="wide">Request <input data-search type="search" value=${words} onInput=${(e) => setWords(e.target.value)} placeholder="what an agent would ask for" /></label>
      <label>As a client of <select value=${JSON.stringify([view, principal])} onChange=${(e) => setClient(JSON.parse(e.target.value))}>
        ${clientsOf(views).map(([text, ...client]) => html`<option key=${text} value=${JSON.stringify(client)}>${text}</option>`)}
      </select></label>
    </form>
    <div class="lab">
      <div aria-live="polite" aria-busy=${isLoading}>
        <${Problem} error=${error} />
        ${answer && html`<${Answer} answer=${answer} move=${isOther ? null : planned || ranks} sections=${lab.rules?.sections || []} path=${lab.rules?.path} />`}
        ${!answer && !asked && html`<${Empty}>Ask for something, as an agent would: “open an issue about the login page”.<//>`}
      </div>
      <aside aria-label="Changes and saved queries">
        <${Problem} error=${lab.rulesError} />
        ${lab.rules && html`<${Editor} ...${lab} view=${view} />`}
        <p role="status">${lab.saved}</p>
        ${!lab.rulesError && html`<${Cases} file=${lab.file} run=${lab.run} error=${lab.casesError} asked=${asked} answer=${found} onChanged=${lab.onChanged} />`}
      </aside>
    </div>`;
}

/** The view and the team or user that an address names. @param {URLSearchParams} query */
const clientOf = (query) => [query.get("view") || "", query.get("principal") || ""];

/** Whom a request can be tried as: a text, a view, and a team or user. */
const clientsOf = (known) => [["everything", "", ""], ...(known?.views || []).map(({ name }) => [`the view ${name}`, name, ""]),
  ...(known?.principals || []).map((name) => [name, "", name])];

/** The rules of the file, what of them is changed, and what that would do. */
function useChanges(asked, view) {
  // The last try to save: the texts, if they were written, and the plan, which is spent either way.
  const [written, setWritten] = useState(/** @type {{texts: Record<string, string>, plan: any}} */ ({ texts: {}, plan: null }));
  const [edits, setEdits] = useState(0);
  const [saved, setSaved] = useState("");
  const [rules, rulesError, isReading] = useLoaded((signal) => get("/rules", {}, signal), [], [written, revision.value, reloads.value]);
  const known = useRef(written); // that `rules` have
  useLayoutEffect(() => {
    if (!rules || isReading || known.current === written) return;
    known.current = written;
    forget(written.texts);
  }, [rules, isReading, written]);
  const changed = rules ? changedOf(rules.sections) : {};
  const key = JSON.stringify(changed);
  const settled = useSettled(key, EDITING);
  const [plan, error, isPlanning] = useLoaded((signal) => {
    if (settled === "{}") return null;
    const queries = asked ? [asked] : [];
    return put("/rules", { sections: JSON.parse(settled), queries, view: view || null, cases: true }, signal);
  }, [settled, asked, view], [written, edits, revision.value, reloads.value]);
  const [file, casesError] = useLoaded((signal) => get("/eval/cases", {}, signal), [], [edits]);
  const [run] = useLoaded((signal) => (file?.cases.length ? post("/eval/run", { view: view || null }, signal) : null), [view], [file, revision.value, reloads.value]);
  const isCurrent = key === settled && key !== "{}";
  return {
    rules,
    rulesError,
    changed,
    planned: isCurrent && plan?.digest ? plan : null,
    isSpent: plan === written.plan,
    problems: (isCurrent && plan?.problems) || [],
    error: isCurrent ? error : null,
    isPlanning: isPlanning || key !== settled,
    file,
    casesError,
    run: (isCurrent && plan?.cases) || run,
    written,
    saved,
    onSaved: (texts, of, report) => { setSaved(report); setWritten({ texts, plan: of }); },
    onRefused: (of) => { setSaved(""); setWritten({ texts: {}, plan: of }); },
    onChanged: () => setEdits((count) => count + 1),
  };
}
