// @ts-check
// What is installed, updated or taken away: first shown with all that would run, then done as it was shown.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { follow } from "./live.js";
import { Problem, useAction } from "./ui.js";

/**
 * A plan with fields for what it asks for. Values that are changed have to be shown again before it is done.
 * @param {{
 *   act: (choice: any) => Promise<any>, verb: string,
 *   show: (form: any) => any, done: (answer: any) => any, extra?: any, blocked?: (form: any) => string, unready?: string,
 * }} given `act` answers with a plan and its digest, and does it when it gets that with the same choice; `blocked` is
 * why a plan cannot be done, `unready` why none can be asked for with the present `extra`
 */
export function Planned({ act, verb, show, done, extra = {}, blocked = () => "", unready = "" }) {
  const [values, setValues] = useState(/** @type {Record<string, string>} */ ({}));
  const [shown, setShown] = useState(/** @type {any} */ (null)); // the plan, and the choice that it is of
  const choice = (inputs) => ({ ...extra, ...sorted(values, inputs) });
  const [look, isLooking, lookError] = useAction(async () => {
    const asked = choice(shown ? inputsOf(shown.form) : []);
    setShown({ form: await act(asked), asked, key: JSON.stringify([values, extra]) });
  });
  const [run, isRunning, runError, answer] = useAction(() => act({ ...shown.asked, digest: shown.form.digest }));
  useEffect(() => { look(); }, []);
  const plan = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => { plan.current?.scrollIntoView({ block: "nearest" }); }, [Boolean(shown)]); // the form may be longer than the window
  const step = useStep(isRunning);
  if (answer) return html`<div role="status">${done(answer)}</div>`;
  const inputs = shown ? inputsOf(shown.form) : [];
  const isChanged = shown && shown.key !== JSON.stringify([values, extra]);
  const missing = shown ? (shown.form.plan || shown.form).missing || [] : [];
  const reason = unready || (isChanged && "This is the plan without what was changed since.")
    || (missing.length > 0 && `It needs a value for ${missing.join(", ")}.`) || (shown && blocked(shown.form));
  const mayRun = shown && !isLooking && !reason;
  return html`
    <${Problem} error=${lookError} />
    ${!shown && lookError && html`<p class="row"><button type="button" disabled=${Boolean(unready)} onClick=${() => look()}>Ask again</button> <span class="note">${unready}</span></p>`}
    ${!shown && !lookError && html`<p class="note" role="status">Asking what it would run …</p>`}
    ${shown && html`
      <form ref=${plan} onSubmit=${(event) => { event.preventDefault(); if (mayRun) run(); else if (!unready) look(); }}>
        <div class="fields">${inputs.map((one) => html`<${Asked} key=${one.name} input=${one} value=${values[one.name] ?? ""} onChange=${(value) => setValues({ ...values, [one.name]: value })} />`)}</div>
        <div class=${isChanged ? "stale" : ""}>${show(shown.form)}</div>
        <${Problem} error=${runError} />
        <p class="row">
          ${!mayRun && html`<button type="submit" disabled=${isLooking || Boolean(unready)}>${isLooking ? "Asking …" : "Show the plan with these values"}</button>`}
          ${runError?.code === "PLAN_CHANGED" && html`<button type="button" onClick=${() => look()}>Show the plan as it is now</button>`}
          <button type="submit" class="main" disabled=${!mayRun || isRunning}>${isRunning ? "Working …" : verb}</button>
          <span class="note" role="status">${isRunning ? step : !isLooking && reason}</span>
        </p>
      </form>`}`;
}

const inputsOf = (form) => form.inputs || form.plan?.inputs || [];

/** The values as the API takes them: those of secrets apart, empty ones left out. */
function sorted(values, inputs) {
  const secrets = new Set(inputs.filter((one) => one.secret).map((one) => one.name));
  const given = Object.entries(values).filter(([, value]) => value !== "");
  const chosen = (isSecret) => Object.fromEntries(given.filter(([name]) => secrets.has(name) === isSecret));
  return { values: chosen(false), secrets: chosen(true) };
}

/** The last step of what is installed now. */
function useStep(isRunning) {
  const [step, setStep] = useState("");
  useEffect(() => {
    setStep("");
    if (!isRunning) return undefined;
    return follow((event) => { if (event.type === "install_progressed") setStep(event.step); });
  }, [isRunning]);
  return step;
}

function Asked({ input, value, onChange }) {
  const id = useId();
  const field = { id, value, "aria-describedby": `${id}-about`, onInput: (event) => onChange(event.target.value) };
  const hint = [input.required ? "required" : "optional", input.secret && "secret, stored", input.given && "has a value"].filter(Boolean).join(", ");
  return html`<div class="field">
    <label for=${id}><span class="name">${input.name}</span> <span class="hints">${hint}</span></label>
    ${input.description && html`<p class="note about" id=${`${id}-about`}>${input.description}</p>`}
    ${input.choices.length > 0
      ? html`<select ...${field}><option value="">${input.default ? `as published: ${input.default}` : "choose one"}</option>${input.choices.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>`
      : html`<input ...${field} type=${input.secret ? "password" : "text"} autocomplete=${input.secret ? "new-password" : "off"} spellcheck=${false} placeholder=${input.default || ""} />`}
  </div>`;
}
