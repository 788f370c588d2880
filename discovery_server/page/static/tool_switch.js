// @ts-check
// A switch that enables or disables a tool for agents: it writes a rule, which is shown first.
import { useId, useState } from "preact/hooks";
import { get, put } from "./api.js";
import { html } from "./html.js";
import { withEntry } from "./lab/sections.js";
import { Diff } from "./plan.js";
import { Modal, Problem, useAction, useLoaded } from "./ui.js";

/** @param {{tool: {server: string, tool: string, enabled: boolean}}} given */
export function ToolSwitch({ tool }) {
  const [isOpen, setOpen] = useState(false);
  const name = `${tool.server}:${tool.tool}`;
  return html`<button type="button" class="switch" role="switch" aria-checked=${tool.enabled ? "true" : "false"} aria-label=${`${name} for agents`} onClick=${() => setOpen(true)}></button>
    ${isOpen && html`<${Change} name=${name} enabled=${!tool.enabled} onClose=${() => setOpen(false)} />`}`;
}

function Change({ name, enabled, onClose }) {
  const title = useId();
  const [planned, error] = useLoaded((signal) => plan(name, enabled, signal), [name, enabled]);
  const [save, isSaving, saveError] = useAction(async () => {
    await put("/rules", { sections: planned.sections, digest: planned.digest });
    onClose();
  });
  const verb = enabled ? "Enable" : "Disable";
  const others = (planned?.tools || []).filter((one) => `${one.server}:${one.tool}` !== name);
  return html`<${Modal} class="question" labelled=${title} onClose=${onClose}>
    <h2 id=${title}>${verb} ${name} for agents?</h2>
    <${Problem} error=${error || saveError} />
    <div aria-busy=${!planned && !error}>${planned && html`
      <p class="note">This rule is written to <code>${planned.path}</code> before all others, and is in force at once.</p>
      <${Diff} text=${planned.diff} />
      ${!planned.tools.length && html`<p class="notice">No tool changes by it: something else than a rule of this file decides.</p>`}
      ${others.length > 0 && html`<p class="notice">It also changes ${others.map((one) => `${one.server}:${one.tool}`).join(", ")}.</p>`}`}</div>
    <p class="row"><button type="button" onClick=${onClose}>Cancel</button>
      <button type="button" class="main" onClick=${save} disabled=${!planned || isSaving}>${isSaving ? "Saving …" : verb}</button></p>
  <//>`;
}

/** What a rule for one tool would do; an earlier one for it alone is replaced. */
async function plan(name, enabled, signal) {
  const rules = await get("/rules", {}, signal);
  const text = rules.sections.find((one) => one.name === "toolRules")?.text ?? "";
  const sections = { toolRules: withEntry(without(text, name), { pattern: name, enabled }, true) };
  const planned = await put("/rules", { sections }, signal);
  if (planned.problems?.length) throw new Error(planned.problems[0].message);
  return { ...planned, sections, path: rules.path };
}

/** @param {string} text @param {string} name */
function without(text, name) {
  const [, enabled, disabled] = [null, true, false].map((value) => withEntry("", { pattern: name, enabled: value }, true));
  return [enabled, disabled].reduce((rest, entry) => (rest.startsWith(entry) ? rest.slice(entry.length) : rest.replaceAll(`\n${entry}`, "\n")), text);
}
