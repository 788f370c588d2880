// @ts-check
// The command palette: areas, servers, tools and actions, found by words and opened by keyboard.
import { useEffect, useRef, useState } from "preact/hooks";
import { all, part } from "./api.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";
import { revision, servers } from "./live.js";
import { Modal, useLoaded, withWords } from "./ui.js";

const MOST = 12; // entries in sight

/**
 * @typedef {{kind: string, name: string, note?: string, icon: any, open: () => void}} Entry
 * @param {{areas: {path: string, name: string, icon: any}[], actions: Entry[], onClose: () => void}} given */
export function Palette({ areas, actions, onClose }) {
  const [words, setWords] = useState("");
  const [chosen, choose] = useState(0);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const [tools] = useLoaded(() => all("/tools", "tools"), [], [revision.value]);
  const go = (address) => () => { location.hash = address; };
  const entries = /** @type {Entry[]} */ ([
    ...areas.map((area) => ({ kind: "Area", name: area.name, icon: area.icon, open: go(`#/${area.path}`) })),
    ...actions,
    ...servers.value.map((one) => ({ kind: "Server", name: one.name, note: one.status, icon: "servers", open: go(`#/servers/${part(one.name)}`) })),
    ...(tools || []).map((one) => ({ kind: "Tool", name: `${one.server}:${one.tool}`, note: one.summary, icon: "tools", open: go(`#/tools/${part(one.server)}/${part(one.tool)}`) })),
  ]);
  const has = withWords(words);
  const found = entries.filter((one) => has(`${one.kind} ${one.name} ${one.note || ""}`)).slice(0, MOST);
  const at = Math.min(chosen, found.length - 1);
  const open = (entry) => { onClose(); entry?.open(); };
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: "nearest" }), [at]);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) choose((at + step + found.length) % found.length || 0);
    else if (event.key === "Enter") open(found[at]);
    else return;
    event.preventDefault();
  };
  return html`<${Modal} class="palette" label="Go to" isLight onClose=${onClose}>
    <input type="search" autofocus role="combobox" aria-label="Go to" aria-expanded="true" aria-controls="entries" aria-activedescendant=${found.length ? `entry-${at}` : undefined}
      placeholder="Area, server, tool or action" value=${words} onInput=${(e) => { setWords(e.target.value); choose(0); }} onKeyDown=${onKey} />
    <ul ref=${list} id="entries" role="listbox" aria-label="Entries">${found.map((one, index) => html`<li key=${`${one.kind} ${one.name}`} id=${`entry-${index}`} role="option" aria-selected=${index === at} onClick=${() => open(one)}>
      <${Icon} name=${one.icon} /><span class="entry-name">${one.name}</span><span class="note">${one.note}</span><span class="note kind">${one.kind}</span></li>`)}</ul>
    ${found.length === 0 && html`<p class="empty">Nothing has these words.</p>`}
  <//>`;
}
