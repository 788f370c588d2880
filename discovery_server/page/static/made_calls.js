// @ts-check
// The calls that were made in this visit: they go on while other pages are open.
import { signal } from "@preact/signals";
import { ApiError, get, part, post, remove } from "./api.js";
import { connection, follow } from "./live.js";

const MOST = 50; // calls of this visit; of the oldest nothing is kept
const MOST_WHOLE = 10; // results, which may be megabytes

/**
 * @typedef {{id: string, server: string, tool: string, given: any, at: number, isRunning: boolean,
 *   progress?: any, result?: any, error?: any, seconds?: number, isCancelling?: boolean}} MadeCall
 */

/** The newest first. @type {import("@preact/signals").Signal<MadeCall[]>} */
export const madeCalls = signal([]);
/** Questions of servers that wait for an answer. @type {import("@preact/signals").Signal<any[]>} */
export const questions = signal([]);

/** Call a tool; its entry in `madeCalls` has what becomes of it.
 * @param {string} server @param {string} tool @param {any} given */
export async function makeCall(server, tool, given) {
  const id = newId();
  const began = performance.now();
  madeCalls.value = [{ id, server, tool, given, at: Date.now() / 1000, isRunning: true }, ...madeCalls.value].slice(0, MOST);
  const end = (changes) => {
    change(id, { ...changes, isRunning: false, seconds: (performance.now() - began) / 1000 });
    let whole = 0;
    madeCalls.value = madeCalls.value.map((one) => (one.result && ++whole > MOST_WHOLE ? { ...one, result: undefined } : one));
  };
  try {
    const body = { arguments: given, call_id: id, takes_questions: true };
    end({ result: (await post(`/servers/${part(server)}/tools/${part(tool)}/call`, body)).result });
  } catch (error) {
    end({ error });
  }
}

/** Cancel a call. @param {string} id */
export async function cancelCall(id) {
  change(id, { isCancelling: true });
  try {
    await remove(`/calls/${part(id)}`);
  } catch (error) {
    // It has ended meanwhile, or never reached its server; the call itself says which.
    if (!(error instanceof ApiError && error.status === 404)) change(id, { isCancelling: false });
  }
}

/** Answer a question. @param {string} id @param {"accept" | "decline" | "cancel"} action @param {any} [content] */
export async function answerQuestion(id, action, content) {
  await post(`/questions/${part(id)}`, content === undefined ? { action } : { action, content });
  questions.value = questions.value.filter((one) => one.question_id !== id);
}

/** @param {string} id @param {any} changes */
function change(id, changes) {
  madeCalls.value = madeCalls.value.map((one) => (one.id === id ? { ...one, ...changes } : one));
}

async function readQuestions() {
  try {
    questions.value = (await get("/questions", { limit: 100 })).questions;
  } catch { /* the connection says that it is lost */ }
}

export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

follow((event) => {
  if (event.type === "call_progress") change(event.call_id, { progress: event });
  if (event.type === "question" || event.type === "question_closed") readQuestions();
});
connection.subscribe((state) => { if (state === "open") readQuestions(); });
