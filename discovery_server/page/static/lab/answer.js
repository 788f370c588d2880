// @ts-check
// What an agent finds: the decision, each hit with the parts of its score, and what is hidden.
import { html } from "../html.js";
import { part } from "../api.js";
import { servers } from "../live.js";
import { visible } from "../texts.js";
import { ToolSwitch } from "../tool_switch.js";
import { counted, Prose } from "../ui.js";
import { addEntry, goTo, sectionAt } from "./sections.js";

const DECISIONS = {
  match: "The first tool probably fits.",
  unsure: "These are only the nearest; the agent is asked to check before it calls one.",
  none: "No tool seems to fit.",
};
/** How a share is shown: by the field that has the word, or by its kind. */
const KINDS = [
  { key: "name", label: "its name", of: (share) => share.field === "name" || share.reason.startsWith("named") },
  { key: "request", label: "examples of requests", of: (share) => share.field.endsWith("example") },
  { key: "argument", label: "its arguments", of: (share) => share.field.startsWith("parameter") },
  { key: "text", label: "its description or server", of: (share) => Boolean(share.field) },
  { key: "other", label: "meaning, tags, use", of: () => true },
];
const OUTAGES = new Set(["unavailable", "loading"]); // kinds of notices
const AGREEMENT = { key: "fit", label: "does what is asked" };

/** @param {number} share */
export const percent = (share) => `${Math.round(share * 100)} %`;
/** A text with the file by its name alone. @param {string} text @param {string | null} path */
export const inFile = (text, path) => (path && text ? text.replaceAll(path, path.replace(/.*[\\/]/, "")) : text);
/** @param {any} hit */
export const keyOf = (hit) => `${hit.server}:${hit.tool}`;

/** The tools that an answer names. @param {any} answer */
export const hitsOf = (answer) => (answer.results.length ? answer.results : answer.nearest);

/** @param {any} given */
export function Answer({ answer, move, sections, path }) {
  const hits = hitsOf(answer);
  const isOutage = (notice) => notice.server && OUTAGES.has(notice.kind);
  const most = Math.max(0.001, ...hits.map((hit) => sum(hit, (adds) => adds > 0)));
  return html`
    <${Decision} answer=${answer} />
    ${answer.uncovered.length > 0 && html`<p>No tool mentions ${answer.uncovered.map((word) => html`<code key=${word}>${word}</code> `)}</p>`}
    ${answer.undone.length > 0 && html`<p>No tool that is near seems to ${answer.undone.join(" or ")}.</p>`}
    <${Limits} notices=${answer.notices.filter((notice) => !isOutage(notice))} path=${path} />
    <${Hidden} hidden=${answer.hidden} sections=${sections} path=${path} />
    ${hits.length > 0 && html`<h3>${answer.results.length ? "Found" : "Nearest, but unlikely to fit"}</h3><${Legend} hits=${hits} />`}
    ${move?.isOfAll && hits.length > 0 && html`<p class="note">An arrow compares a tool with its rank for a client that sees everything.</p>`}
    <ol class="hits">${hits.map((hit, index) => html`<li key=${keyOf(hit)}>
      <${Hit} hit=${hit} most=${most} query=${answer.query} move=${move} rank=${index + 1} sections=${sections} isOpen=${index === 0} /></li>`)}</ol>
    <${Outages} notices=${answer.notices.filter(isOutage)} path=${path} />
    <${AgentText} agent=${answer.agent} />`;
}

function Decision({ answer }) {
  const { thresholds: { shown, match }, confidence, decision } = answer;
  const kind = { match: "good", unsure: "off", none: "bad" }[decision];
  const mark = { match: "●", unsure: "◐", none: "○" }[decision];
  return html`<div class="decision">
    <p><strong class="state ${kind}"><span aria-hidden="true">${mark}</span> ${decision}</strong> ${DECISIONS[decision]}</p>
    <svg class="gauge ${kind}" role="img" aria-label=${`Confidence ${percent(confidence)}; tools are shown from ${percent(shown)} on, and are a match from ${percent(match)} on`}>
      <rect class="track" x="0" y="20" width="100%" height="8" rx="4" />
      <rect class="level" x="0" y="20" width=${`${confidence * 100}%`} height="8" rx="4" />
      <line x1=${`${match * 100}%`} x2=${`${match * 100}%`} y1="15" y2="33" />
      <text x=${`${match * 100}%`} y="11" text-anchor=${anchor(match)}>match from ${percent(match)}</text>
      <line x1=${`${shown * 100}%`} x2=${`${shown * 100}%`} y1="15" y2="33" />
      <text x=${`${shown * 100}%`} y="46" text-anchor=${anchor(shown)}>shown from ${percent(shown)}</text>
    </svg>
    <p class="note" aria-hidden="true">Confidence ${percent(confidence)}: how likely it is that one of the first five tools serves the request.</p>
  </div>`;
}

/** @param {number} at */
const anchor = (at) => (at < 0.2 ? "start" : at > 0.85 ? "end" : "middle");

function Limits({ notices, path }) {
  if (!notices.length) return null;
  return html`<ul class="attention">${notices.map((notice) => html`<li key=${notice.message}>
    <span class="state bad" aria-hidden="true">▲</span> <${Prose} text=${inFile(notice.message, path)} /> <code>${notice.code}</code>
    ${notice.server && html` <a href="#/servers/${part(notice.server)}">${notice.server}</a>`}</li>`)}</ul>`;
}

/** Servers that are down: a line below what was found, which opens. */
function Outages({ notices, path }) {
  const known = new Set(servers.value.filter((server) => server.tool_count).map((server) => server.name));
  const [old, missing] = [true, false].map((isKnown) => notices.filter(({ server }) => known.has(server) === isKnown));
  const fold = (found, title) => found.length > 0 && html`<details class="outages"><summary>${title}</summary><${Limits} notices=${found} path=${path} /></details>`;
  return [
    fold(missing, `${counted(missing.length, "server is", "servers are")} missing from this answer`),
    fold(old, `${counted(old.length, "server is", "servers are")} down; the last known tools are searched`),
  ];
}

/** @param {any} share */
function kindOf(share) {
  return share.reason === "agreement" ? AGREEMENT : KINDS.find((kind) => kind.of(share)) || KINDS[KINDS.length - 1];
}

function Legend({ hits }) {
  const shares = hits.flatMap((hit) => hit.explanation.shares);
  const there = new Set(shares.filter((share) => share.adds > 0).map((share) => kindOf(share).key));
  const kinds = [...KINDS, AGREEMENT].filter((kind) => there.has(kind.key));
  return html`<p class="note legend"><span>Bars are relative to the best hit:</span>${kinds.map((kind) => html`<span key=${kind.key}><i class="swatch ${kind.key}" aria-hidden="true"></i>${kind.label}</span>`)}
    ${shares.some((share) => share.adds < 0) && html`<span><i class="swatch against" aria-hidden="true"></i>pale: what speaks against it</span>`}</p>`;
}

/** @param {any} hit @param {(adds: number) => boolean} counts */
const sum = (hit, counts) => hit.explanation.shares.reduce((total, { adds }) => total + (counts(adds) ? Math.abs(adds) : 0), 0);

function Bar({ hit, most }) {
  const found = [...KINDS, AGREEMENT].map((kind) => {
    const adds = hit.explanation.shares.filter((share) => kindOf(share) === kind).reduce((total, share) => total + share.adds, 0);
    return { ...kind, adds };
  });
  let at = 0;
  const rects = found.filter(({ adds }) => adds > 0).map(({ key, adds }) => {
    const from = at;
    at += adds / most;
    return html`<rect key=${key} class=${key} x=${`${from * 100}%`} y="0" height="100%" width=${`${(adds / most) * 100}%`} />`;
  });
  const less = found.reduce((total, { adds }) => total + Math.min(0, adds), 0) / most;
  const label = found.filter(({ adds }) => adds).map(({ label, adds }) => `${label} ${signed(adds)}`).join(", ");
  return html`<svg class="score" role="img" aria-label=${`Relevance ${hit.relevance.toFixed(3)}: ${label}`}>
    ${rects}${less < 0 && html`<rect class="less" x=${`${Math.max(0, at + less) * 100}%`} y="0" height="100%" width=${`${Math.min(at, -less) * 100}%`} />`}</svg>`;
}

/** @param {number} value */
const signed = (value) => `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(3)}`;

function Hit({ hit, most, query, move, rank, sections, isOpen }) {
  const { uncovered, request } = hit.explanation;
  const shares = ofRequests(hit.explanation.shares);
  return html`
    <p class="bar"><a href="#/tools/${part(hit.server)}/${part(hit.tool)}">${keyOf(hit)}</a>
      <span class="relevance">${hit.relevance.toFixed(3)}</span><${Shift} move=${move} name=${keyOf(hit)} rank=${rank} />
      ${!hit.enabled && html`<span class="state off">○ disabled: ${hit.reason}</span>`}</p>
    <${Bar} hit=${hit} most=${most} />
    <p class="summary">${visible(hit.summary)}</p>
    <details open=${isOpen}><summary>Why, and what could be changed<span class="hidden"> for ${keyOf(hit)}</span></summary>
      <table class="shares"><caption class="hidden">What each word adds to ${keyOf(hit)}</caption>
        <tbody>${shares.map((share, index) => html`<tr key=${index}>
          <td><i class="swatch ${share.adds < 0 ? "against" : kindOf(share).key}" aria-hidden="true"></i>${visible(share.text)}</td><td class="number">${signed(share.adds)}</td></tr>`)}</tbody></table>
      ${request && html`<p>The nearest typical request for it is “${request}”.</p>`}
      ${uncovered.length > 0 && html`<p>It does not mention ${uncovered.map((word) => html`<code key=${word}>${word}</code> `)}</p>`}
      <${Changes} hit=${hit} query=${query} sections=${sections} />
    </details>`;
}

/** The shares with those of words of a request as one, since all of them are in the same one. */
function ofRequests(shares) {
  const [own, others] = [true, false].map((isOwn) => shares.filter(({ field }) => field.endsWith("example") === isOwn));
  if (own.length < 2) return shares;
  const words = [...new Set(own.map((one) => `'${one.word}'`))];
  const adds = own.reduce((total, one) => total + one.adds, 0);
  const text = `${words.join(", ")} ${words.length === 1 ? "is" : "are"} ${own[0].text.slice(own[0].text.indexOf(" in ") + 1)}`;
  return [...others, { ...own[0], adds, text }].sort((one, other) => other.adds - one.adds);
}

/** Where a planned change moves a tool. */
export function Shift({ move, name, rank }) {
  if (!move?.moved) return null;
  const after = move.after.indexOf(name) + 1;
  const before = move.before.indexOf(name) + 1 || rank;
  if (after === before) return null;
  if (!after) return html`<span class="shift bad">▼ ${before} → not found</span>`;
  return html`<span class="shift ${after < before ? "good" : "bad"}">${after < before ? "▲" : "▼"} ${before} → ${after}</span>`;
}

function Changes({ hit, query, sections }) {
  if (!sections.length) return null;
  const add = (section, entry, isFirst = false) => () => addEntry(sections, section, entry, isFirst);
  const pattern = keyOf(hit);
  const word = hit.explanation.uncovered[0] || query.trim().split(/\s+/)[0] || "";
  const own = hit.tool.split(/[^\p{L}\p{N}]+/u).filter(Boolean).pop() || hit.tool;
  return html`<p class="bar changes">
    <button type="button" onClick=${add("overrides", { pattern, examples: [query.slice(0, 200)] })}>Find it by this request</button>
    <button type="button" onClick=${add("overrides", { pattern, description: hit.summary })}>Describe it anew</button>
    <button type="button" onClick=${add("search.synonyms", [word, own])}>Synonym</button>
    <button type="button" onClick=${add("toolRules", { pattern, enabled: false }, true)}>Hide it</button></p>`;
}

function Hidden({ hidden, sections, path }) {
  if (!hidden.length) return null;
  return html`<h3>Hidden, though it would fit</h3>
    <ul class="tools">${hidden.map((one) => html`<li key=${keyOf(one)}>
      <span class="state off"><span aria-hidden="true">○</span> would be ${one.rank === 1 ? "the first" : `number ${one.rank}`}</span>
      ${" "}<a href="#/tools/${part(one.server)}/${part(one.tool)}">${keyOf(one)}</a> <span class="relevance">${one.relevance.toFixed(3)}</span>
      <p>${one.view ? `The view ${one.view} hides it: ` : ""}${inFile(one.hidden_by, path)}</p>
      <p class="bar">${one.rule && !one.view && html`<span>Agents may call it <${ToolSwitch} tool=${{ ...one, enabled: false }} /></span>`}
        <${RuleLink} rule=${one.rule} sections=${sections} path=${path} name=${keyOf(one)} /></p></li>`)}</ul>`;
}

function RuleLink({ rule, sections, path, name }) {
  const section = rule && rule.file === path ? sectionAt(sections, rule.line) : null;
  if (!section) return null;
  return html`<button type="button" class="small" onClick=${() => goTo(section.name, rule.line - section.line + 1)}>Show the rule<span class="hidden"> that hides ${name}</span></button>`;
}

function AgentText({ agent }) {
  const tokens = agent.tokens === null ? "" : ` · about ${agent.tokens.toLocaleString("en")} tokens of at most ${agent.max_tokens.toLocaleString("en")}`;
  return html`<h3>What the agent reads <span class="note">${tokens}</span></h3>
    <pre class="agent" tabindex="0">${visible(agent.text)}</pre>`;
}
