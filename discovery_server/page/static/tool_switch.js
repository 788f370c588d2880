// @ts-check
// A switch that enables or disables a tool for agents: it writes a rule, which is shown first.
import { useState } from "preact/hooks";
import { get, put } from "./api.js";
import { html } from "./html.js";
import { withEntry } from "./lab/sections.js";
import { Diff, Proposal } from "./plan.js";

/** @param {{tool: {server: string, tool: string, enabled: boolean}}} given */
export function ToolSwitch({ tool }) {
  const [isOpen, setOpen] = useState(false);
  const name = `${tool.server}:${tool.tool}`;
  return html`<button type="button" class="switch" role="switch" aria-checked=${tool.enabled ? "true" : "false"} aria-label=${`${name} for agents`} onClick=${() => setOpen(true)}></button>
    ${isOpen && html`<${Change} name=${name} enabled=${!tool.enabled} onClose=${() => setOpen(false)} />`}`;
}

function Change({ name, enabled, onClose }) {
  const verb = enabled ? "Enable" : "Disable";
  return html`<${Proposal} question=${`${verb} ${name} for agents?`} verb=${verb} onClose=${onClose}
    load=${(signal) => plan(name, enabled, signal)} save=${({ sections, digest }) => put("/rules", { sections, digest })}
    show=${(planned) => {
    const switched = planned.tools.filter((one) => one.what !== "changes").map((one) => `${one.server}:${one.tool}`);
    const others = switched.filter((one) => one !== name);
    return html`<p class="note">This rule is written to <code>${planned.path}</code> before all others, and is in force at once.</p>
      <${Diff} text=${planned.diff} />
      ${!switched.includes(name) && html`<p class="notice">It changes nothing by itself: something else than a rule of this file decides.</p>`}
      ${others.length > 0 && html`<p class="notice">It also switches ${others.join(", ")}.</p>`}`;
  }} />`;
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
  const pattern = JSON.stringify(name).replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return text.replace(new RegExp(`^( *)- pattern: ${pattern}\n\\1  enabled: (true|false)\n`, "m"), "");
}
