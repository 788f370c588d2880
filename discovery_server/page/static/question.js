// @ts-check
// A question that a server asks in the middle of a call, and its answer.
import { useState } from "preact/hooks";
import { SchemaForm } from "./forms/fields.js";
import { mistakesOf } from "./forms/schema_check.js";
import { initial, isUnfinished } from "./forms/schema_field.js";
import { html } from "./html.js";
import { answerQuestion } from "./made_calls.js";
import { visible } from "./texts.js";
import { Command, moment, Problem, useAction } from "./ui.js";

/** @param {{question: any, isOwn: boolean}} given */
export function Question({ question, isOwn }) {
  const isForm = question.kind === "form";
  const [value, setValue] = useState(() => (isForm ? initial(question.schema, question.schema, true) ?? {} : null));
  const [isTried, setTried] = useState(false);
  const mistakes = isForm ? mistakesOf(question.schema, value) : [];
  const [answer, isAnswering, error] = useAction((action) => answerQuestion(question.question_id, action, isForm && action === "accept" ? value : undefined));
  const accept = (event) => {
    event.preventDefault();
    setTried(true);
    if (!mistakes.length && !isUnfinished(value)) answer("accept");
  };
  return html`<form class="question-form" onSubmit=${accept} novalidate aria-label=${`Question of ${question.server}`}>
    <p class="message">${visible(question.message)}</p>
    <p class="note">The server ${visible(question.server)} asks this in the middle of ${isOwn ? "this call" : "a call of another program"}, and waits until ${moment(question.expires_at)}.</p>
    ${question.findings.map((one, index) => html`<p class="problem" key=${index}>▲ This text is suspicious: ${visible(one.message)}</p>`)}
    ${isForm ? html`<${SchemaForm} schema=${question.schema} value=${value} onChange=${setValue} mistakes=${mistakes} isTried=${isTried} hidesSecrets />`
      : html`<p>It wants you to open this address. Nothing is opened for you: copy it into a browser if you trust it.</p><${Command} text=${visible(question.url)} />`}
    <${Problem} error=${error} />
    <p class="row">
      <button class="main" disabled=${isAnswering}>${isForm ? "Send the answer" : "I have opened it"}</button>
      <button type="button" onClick=${() => answer("decline")} disabled=${isAnswering}>Decline</button>
      <button type="button" onClick=${() => answer("cancel")} disabled=${isAnswering}>Cancel the question</button>
    </p>
  </form>`;
}
