// @ts-check
// What would be run, connected to or written, in full: one way for everything that is shown before it is done.
import { useId } from "preact/hooks";
import { html } from "./html.js";
import { quoted } from "./texts.js";
import { Fact, Modal, Problem, Prose, useAction, useLoaded } from "./ui.js";

/** A plan; each kind of it has some of these parts. @param {{plan: any}} given */
export function Plan({ plan }) {
  const runs = plan.url || plan.command?.map(quoted).join(" ");
  const warnings = [...(plan.warnings || []), ...(plan.notes || []), ...(plan.findings || []).map((one) => one.message)];
  const facts = [
    plan.where && ["As", `${plan.name}, in the ${plan.where}`],
    plan.copied_from && ["Copied from", html`<code>${plan.copied_from.path}</code>, which stays as it is`],
    !plan.url && plan.package?.identifier && ["Package", [plan.package.type, plan.package.identifier, plan.package.version].filter(Boolean).join(" ")],
    plan.package?.integrity && ["Integrity", html`<code>${plan.package.integrity}</code>`],
    plan.cwd && ["Folder", html`<code>${plan.cwd}</code>`],
    plan.sandbox && ["Sandbox", html`<${Confined} plan=${plan} />`],
    (plan.stores || plan.secrets)?.length > 0 && ["Stores", (plan.stores || plan.secrets).join(", ")],
    plan.change && ["Changed", plan.change],
  ].filter(Boolean);
  return html`
    ${runs && html`<pre tabindex="0">${runs}</pre>`}
    ${facts.length > 0 && html`<dl class="facts">${facts.map(([name, value]) => html`<${Fact} key=${name} name=${name}>${value}<//>`)}</dl>`}
    <${Pairs} title="Environment" pairs=${plan.env} /><${Pairs} title="Headers" pairs=${plan.headers} />
    ${warnings.length > 0 && html`<h4>Warnings</h4><ul class="warnings">${warnings.map((text) => html`<li key=${text}><${Prose} text=${text} /></li>`)}</ul>`}
    ${plan.prerequisites?.filter((one) => one.problem).map((one) => html`<p class="notice" key=${one.program}><${Prose} text=${one.problem} /> <${Prose} text=${one.hint} /></p>`)}
    ${plan.diff && html`<${Diff} text=${plan.diff} />`}
    ${plan.changes && html`<h4>Changed from what ${plan.copied_from.client || plan.copied_from.source} has</h4><${Diff} text=${plan.changes} />`}
    ${!runs && !plan.diff && html`<${Others} plan=${plan} />`}`;
}

/** A question that shows what would be done, and does just that.
 * @param {{question: string, verb: string, load: (signal: AbortSignal) => Promise<any>, show: (plan: any) => any, save: (plan: any) => Promise<any>, onClose: () => void}} given */
export function Proposal({ question, verb, load, show, save, onClose }) {
  const title = useId();
  const [plan, error] = useLoaded(load, [question]);
  const [run, isRunning, runError] = useAction(async () => { await save(plan); onClose(); });
  return html`<${Modal} class="question" labelled=${title} onClose=${onClose}>
    <h2 id=${title}>${question}</h2>
    <div aria-busy=${!plan && !error}>${plan && show(plan)}</div>
    <${Problem} error=${error || runError} />
    <p class="row"><button type="button" onClick=${onClose}>Cancel</button>
      <button type="button" class="main" onClick=${run} disabled=${!plan || isRunning}>${isRunning ? "Working …" : verb}</button></p>
  <//>`;
}

/** What has neither a program nor a difference, as it is. */
function Others({ plan: { digest, ...rest } }) {
  return html`<pre tabindex="0">${JSON.stringify(rest, null, 2)}</pre>`;
}

/** The sandbox as it is asked for, what takes it here, and what that leaves open. */
function Confined({ plan }) {
  const { kind, gaps = [] } = plan.confinement || {};
  return html`${grants(plan.sandbox)}${kind && `; here: ${kind}`}${gaps.length > 0 && html` <span class="note">(not confined: ${gaps.join("; ")})</span>`}`;
}

/** @param {string | {kind: string, network?: boolean, read?: string[], write?: string[]}} sandbox */
export function grants(sandbox) {
  if (typeof sandbox === "string") return sandbox;
  const { kind, network, read = [], write = [] } = sandbox;
  return [kind, network ? "with the network" : "without the network", read.length > 0 && `reads ${read.join(", ")}`, write.length > 0 && `writes ${write.join(", ")}`].filter(Boolean).join("; ");
}

function Pairs({ title, pairs }) {
  const found = Object.entries(pairs || {});
  return found.length > 0 && html`<h4>${title}</h4><pre tabindex="0">${found.map(([name, value]) => `${name}=${value}`).join("\n")}</pre>`;
}

/** A unified diff, its lines marked by more than colour. Each part is headed by the keys that it stands under. */
export function Diff({ text }) {
  return html`<pre class="diff" tabindex="0">${text.trimEnd().split("\n").map((line, index) => html`<span key=${index} class=${markOf(line)}>${line.replace(PART, "… line $1  ")}${"\n"}</span>`)}</pre>`;
}

const PART = /^@@ -(\d+)\S* \S+ @@ ?/;

/** @param {string} line */
function markOf(line) {
  if (/^(---|\+\+\+) /.test(line)) return "place";
  return { "+": "added", "-": "removed", "@": "place" }[line[0]] || "";
}
