// @ts-check
// What several pages share: states, errors, lists and times.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { connection, reconnections } from "./live.js";

const MARKS = { ready: "●", idle: "●", starting: "◐", pending: "◐", disabled: "○" };
const OUTCOMES = { ok: "good", task: "good", cancelled: "off" };

/** The state of a server as a mark and a word, never by colour alone. */
export function State({ state }) {
  const kind = state in MARKS ? (state === "disabled" ? "off" : "good") : "bad";
  return html`<span class="state ${kind}"><span aria-hidden="true">${MARKS[state] || "▲"}</span> ${inWords(state)}</span>`;
}

/** A state or outcome as words; a code stays as it can be looked up. @param {string} name */
const inWords = (name) => (/^[A-Z]/.test(name) ? name : name.replaceAll("_", " "));

/** A line of a list of facts (`dl.facts`). */
export function Fact({ name, children }) {
  return html`<div><dt>${name}</dt><dd>${children}</dd></div>`;
}

/** How a call ended, as a mark and a word. */
export function Outcome({ outcome }) {
  if (!outcome) return null;
  const kind = OUTCOMES[outcome] || "bad";
  return html`<span class="state ${kind}"><span aria-hidden="true">${kind === "good" ? "●" : kind === "off" ? "○" : "▲"}</span> ${inWords(outcome)}</span>`;
}

/** A text of the gateway: what stands in backticks is code; nothing else is markup. */
export function Prose({ text, isSentence = false }) {
  const begun = isSentence ? (text || "").replace(/^[a-z](?=[a-z]* )/, (letter) => letter.toUpperCase()) : text;
  return (begun || "").split("`").map((piece, index) => (index % 2 ? html`<code key=${index}>${piece}</code>` : piece));
}

/** A name of a tool, which may break after its separators. */
export function Name({ text }) {
  return text.split(/(?<=[:_.-])/).map((piece, index) => html`${index > 0 && html`<wbr />`}${piece}`);
}

/** An error with its code and the next step; nothing without one. */
export function Problem({ error }) {
  if (!error) return null;
  const hints = error.hint ? [error.hint] : (error.form?.problems || []).map((one) => [one.file, one.hint].filter(Boolean).join(": ")).filter(Boolean);
  return html`<div class="problem" role="alert">
    <strong><${Prose} text=${error.message} /></strong>${error.code && html` <code>${error.code}</code>`}
    ${hints.map((hint) => html`<p key=${hint}><${Prose} text=${hint} /></p>`)}
  </div>`;
}

/** What says that there is nothing, and what to do next. */
export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

/** What `load` gives of `of`: `[value, error, isLoading]`. When one of `triggers` changes, or a lost connection is back,
 * it is loaded again; until that has succeeded, the value of before stays and `isLoading` is true. The value of
 * another `of` is never given.
 * @param {(signal: AbortSignal) => any} load @param {any[]} of @param {any[]} [triggers] */
export function useLoaded(load, of, triggers = []) {
  const subject = useSame(of);
  const turn = useSame([...of, ...triggers, reconnections.value]);
  const latest = useRef(turn);
  latest.current = turn;
  const [found, setFound] = useState(/** @type {any} */ ({}));
  useEffect(() => {
    const controller = new AbortController();
    const settle = (value, error) => {
      if (latest.current === turn && !controller.signal.aborted) setFound((before) => settled(before, { subject, turn, value, error }));
    };
    Promise.resolve(load(controller.signal)).then((value) => settle(value, null), (error) => settle(null, error));
    return () => controller.abort();
  }, [turn]);
  const isLoading = found.turn !== turn;
  // That the gateway is away is said once, above all areas.
  const isSaid = isLoading || (connection.value === "lost" && found.error?.status === 0);
  return [found.subject === subject ? found.value : null, isSaid ? null : found.error, isLoading];
}

/** A gateway that cannot be reached takes nothing off the page: the connection is shown as lost. */
function settled(before, found) {
  const isKept = found.error?.status === 0 && before.subject === found.subject && before.value;
  return isKept ? { ...before, turn: null } : found;
}

/** The array of the first time that it had these items. @param {any[]} items */
function useSame(items) {
  const same = useRef(items);
  if (items.some((item, index) => item !== same.current[index])) same.current = items;
  return same.current;
}

/** The last value that was loaded: it stays in sight until the next one is there. @param {any} value @param {boolean} isLoading */
export function useLast(value, isLoading) {
  const last = useRef(value);
  if (value || !isLoading) last.current = value;
  return last.current;
}

/** A value that follows another one when that has rested for some milliseconds. */
export function useSettled(value, milliseconds) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** A panel above the page that `Esc` closes; the focus returns to where it was. */
export function Drawer({ title, onClose, children }) {
  const heading = useId();
  return html`<${Modal} class="drawer" labelled=${heading} onClose=${onClose}>
    <header><h2 id=${heading}><${Name} text=${title} /></h2><button class="plain" onClick=${onClose} aria-label="Close">✕</button></header>
    ${children}
  <//>`;
}

/** A dialog that `Esc` closes, and a press beside it if it `isLight`; the focus returns to where it was.
 * @param {any} given */
export function Modal({ class: kind, labelled, label, isLight = false, onClose, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => { if (before instanceof HTMLElement) before.focus(); };
  }, []);
  // `close` of a dialog within is none of this one's.
  const close = (event) => { if (event.target === dialog.current) onClose(); };
  return html`<dialog ref=${dialog} class=${kind} aria-labelledby=${labelled} aria-label=${label} onClose=${close} onClick=${(event) => { if (isLight && event.target === dialog.current && isOutside(event, dialog.current)) onClose(); }}>${children}</dialog>`;
}

/** @param {MouseEvent} event @param {Element} element */
function isOutside({ clientX, clientY }, element) {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  return clientX < left || clientX > right || clientY < top || clientY > bottom;
}

/** Runs `act`, one at a time: `[run, isRunning, error, result]`; errors are shown, not thrown. */
export function useAction(act) {
  const [state, setState] = useState(/** @type {any} */ ({}));
  const run = async (...given) => {
    if (state.isRunning) return;
    setState({ isRunning: true });
    try {
      setState({ result: await act(...given) });
    } catch (error) {
      setState({ error });
    }
  };
  return /** @type {const} */ ([run, Boolean(state.isRunning), state.error, state.result]);
}

/** A button whose work cannot be undone, or reaches far: it asks before. `children` say what will be done.
 * What can be undone is `isCalm`; what is not `isReady` cannot be done yet. */
export function Confirmed({ label, question, verb, act, isCalm = false, isReady = true, children }) {
  const [isOpen, setOpen] = useState(false);
  const [run, isRunning, error] = useAction(async () => { await act(); setOpen(false); });
  const title = useId();
  return html`<button type="button" onClick=${() => setOpen(true)} disabled=${!isReady && !isOpen}>${label}</button>
    ${isOpen && html`<${Modal} class="question" labelled=${title} onClose=${() => setOpen(false)}>
      <h2 id=${title}>${question}</h2>
      ${children}
      <${Problem} error=${error} />
      <p class="row"><button type="button" onClick=${() => setOpen(false)}>Cancel</button>
        <button type="button" class="strong ${isCalm ? "calm" : ""}" onClick=${run} disabled=${isRunning || !isReady}>${isRunning ? "Working …" : verb}</button></p>
    <//>`}`;
}

/** A button that copies a text; where that is not allowed, the text is selected. */
export function Command({ text }) {
  const [copied, setCopied] = useState("");
  const code = useRef(/** @type {HTMLElement | null} */ (null));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied("Copied");
    } catch {
      if (code.current) getSelection()?.selectAllChildren(code.current);
      setCopied("Selected; Ctrl+C copies it");
    }
  };
  return html`<p class="command"><code ref=${code}>${text}</code>
    <button type="button" onClick=${copy}>Copy</button> <span role="status">${copied}</span></p>`;
}

/** How long ago, or in how long, in one unit. @param {number} seconds */
export function duration(seconds) {
  for (const [unit, size] of [["d", 86_400], ["h", 3_600], ["min", 60]]) {
    if (seconds >= Number(size)) return `${Math.floor(seconds / Number(size))} ${unit}`;
  }
  return `${Math.max(0, Math.floor(seconds))} s`;
}

/** A duration that was measured. @param {number | null} seconds */
export function took(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  return seconds < 1 ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms` : `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
}

/** A moment as people here write it; the date only where it is another day. @param {number} at Unix time in seconds */
export function moment(at) {
  const date = new Date(at * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString() : date.toLocaleString();
}

/** A value of JSON as text. @param {any} value */
export const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** Tells which texts have every word, in any case. @param {string} words @returns {(text: string) => boolean} */
export function withWords(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return (text) => { const lower = text.toLowerCase(); return wanted.every((word) => lower.includes(word)); };
}

/** The address of an area with its filters. @param {string} area @param {Record<string, any>} chosen */
export function address(area, chosen) {
  const query = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value)).toString();
  return `#/${area}${query ? `?${query}` : ""}`;
}

/** @param {number | null} at Unix time in seconds */
export const ago = (at) => (at ? `${duration(Date.now() / 1000 - at)} ago` : "never");

/** @param {number} count @param {string} noun @param {string} several */
export const counted = (count, noun, several = `${noun}s`) => `${count.toLocaleString("en")} ${count === 1 ? noun : several}`;
