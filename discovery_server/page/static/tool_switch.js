// @ts-check
// A switch that enables or disables a tool for agents: it writes a rule, which is shown first.
import { useState } from "preact/hooks";
import { get, part, put } from "./api.js";
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
    return html`<p class="note">This is written to ${planned.where === "file" ? html`<code>${planned.path}</code>` : "the registry, for all gateways of this configuration"}, and is in force at once.</p>
      <${Diff} text=${planned.diff} />
      ${!switched.includes(name) && html`<p class="notice">It changes nothing by itself: something else than a rule of this file decides.</p>`}
      ${others.length > 0 && html`<p class="notice">It also switches ${others.join(", ")}.</p>`}`;
  }} />`;
}

/** What switches one tool with the least effect on others: an earlier rule for it alone is replaced. To enable a tool,
 * the rule that disables it makes an exception, since a rule that enables one disables all that no rule names. */
async function plan(name, enabled, signal) {
  const rules = await get("/rules", {}, signal);
  const usual = rules.sections.find((one) => one.name === "toolRules");
  const has = (one) => one.name.endsWith("toolRules") && without(one.text, name) !== one.text;
  let section = (enabled && rules.sections.find(has)) || usual;
  const text = section.text;
  const rest = without(text, name);
  const proposal = async (toolRules) => {
    const sections = { [section.name]: toolRules };
    const planned = await put("/rules", { sections }, signal);
    if (planned.problems?.length) throw new Error(planned.problems[0].message);
    return { ...planned, sections, path: rules.path, where: section.where };
  };
  if (!enabled) return proposal(withEntry(rest, { pattern: name, enabled }, true));
  if (rest !== text) {
    const planned = await proposal(rest);
    if (planned.tools.some((one) => `${one.server}:${one.tool}` === name && one.what === "appears")) return planned;
  }
  const [server, tool] = split(name);
  const { why } = await get(`/servers/${part(server)}/tools/${part(tool)}`, { why: true }, signal);
  const rule = why.rules.find((one) => one.decided && !one.enabled);
  const where = rule?.origin.startsWith("registry:") ? "registry" : "file";
  section = rules.sections.find((one) => one.name.endsWith("toolRules") && one.where === where) || section;
  const excepted = withException(section.text, section.line ?? 1, rule, name);
  return proposal(excepted ?? withEntry(without(section.text, name), { pattern: name, enabled }, true));
}

const split = (name) => [name.slice(0, name.indexOf(":")), name.slice(name.indexOf(":") + 1)];

/** The rules with `!name` among the patterns of one of them; null if that cannot be written.
 * @param {string} text @param {number | undefined} line where the text begins in its file @param {any} rule @param {string} name */
function withException(text, line, rule, name) {
  const [, at] = /:(\d+):\d+$/.exec(rule?.origin ?? "") || [];
  const start = text.split("\n").slice(0, Number(at) - Number(line)).join("\n").length;
  const patterns = /(pattern["']?\s*:\s*)(\[[^\]]*\]|"[^"\n]*"|'[^'\n]*'|[^,}\n]+)/.exec(text.slice(start));
  if (!at || !patterns || !rule.patterns.length) return null;
  const begin = start + patterns.index;
  return text.slice(0, begin) + patterns[1] + JSON.stringify([...rule.patterns, `!${name}`]) + text.slice(begin + patterns[0].length);
}

/** @param {string} text @param {string} name */
function without(text, name) {
  const pattern = JSON.stringify(name).replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return text.replace(new RegExp(`^( *)- pattern: ${pattern}\n\\1  enabled: (true|false)\n`, "m"), "")
    .replace(new RegExp(`\\{"pattern":${pattern},"enabled":(true|false)\\},?\\s*`), "");
}
