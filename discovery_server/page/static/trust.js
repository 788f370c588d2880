// @ts-check
// Servers that were not started, since their owner has not approved them: shown in full, and approved as shown.
import { get, post } from "./api.js";
import { html } from "./html.js";
import { reloads, revision, servers } from "./live.js";
import { Plan } from "./plan.js";
import { counted, Problem, useAction, useLoaded } from "./ui.js";

export const UNTRUSTED = "untrusted"; // the state of a server

/** What waits for approval, of one server or of all; nothing if none does. @param {{server?: string}} given */
export function Approvals({ server = "" }) {
  const waiting = servers.value.filter((one) => one.status === UNTRUSTED && (!server || one.name === server)).length;
  return waiting > 0 && html`<${Waiting} server=${server} count=${waiting} />`;
}

function Waiting({ server, count }) {
  const [found, error] = useLoaded((signal) => get("/trust", {}, signal), [], [count, revision.value, reloads.value]);
  const shown = (found?.servers || []).filter((one) => !server || one.name === server);
  const [approve, isApproving, approveError] = useAction((chosen) =>
    post("/trust", { servers: Object.fromEntries(chosen.map((one) => [one.name, one.digest])) }));
  return html`<section aria-labelledby="approvals" aria-busy=${!found && !error}>
    <h3 id="approvals">Waits for your approval</h3>
    <p class="note">The configuration was found here, and nothing of it is started before you approve it. Approve what you know.</p>
    <${Problem} error=${error} />
    <ul class="entries">${shown.map((one) => html`<li key=${one.name}><${Candidate} of=${one} />
      <p><button type="button" onClick=${() => approve([one])} disabled=${isApproving}>Approve ${one.name}</button></p></li>`)}</ul>
    <${Problem} error=${approveError} />
    ${shown.length > 1 && html`<p><button type="button" class="strong" onClick=${() => approve(shown)} disabled=${isApproving}>Approve all ${counted(shown.length, "server")} as shown</button></p>`}
  </section>`;
}

/** Every word of what would be started. */
function Candidate({ of }) {
  return html`
    <p><strong>${of.name}</strong> <span class="note">${of.origin}</span></p>
    <${Plan} plan=${of} />`;
}
