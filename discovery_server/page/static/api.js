// @ts-check
// Requests to the API. Every error is an `ApiError` with the code, the message and the next step.

export class ApiError extends Error {
  /** @param {number} status 0 if the gateway cannot be reached @param {{code?: string, message?: string, hint?: string}} form */
  constructor(status, form) {
    super(form.message || `the gateway answered with ${status}`);
    this.status = status;
    this.code = form.code || "";
    this.hint = form.hint || "";
    this.form = form;
  }
}

/**
 * @param {string} method
 * @param {string} path below `/api`
 * @param {{query?: Record<string, any>, body?: any, signal?: AbortSignal}} [options]
 */
export async function request(method, path, { query, body, signal } = {}) {
  const address = `/api${path}${queryText(query)}`;
  // A browser takes such a part for a way up, however it is written, and would ask for something else.
  if (/\/\.\.?(\/|$)/.test(path)) throw new ApiError(400, { message: "a name of dots alone cannot stand in an address", hint: "the command line takes it" });
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  let answer;
  try {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    answer = await fetch(address, { method, headers, body: sent, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { message: "the gateway cannot be reached", hint: "is it still running?" });
  }
  if (answer.status === 401) return leave();
  const form = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new ApiError(answer.status, form);
  return form;
}

let isLeaving = false;

/** The session has ended: the form takes the place of the page, once, whatever else was asked for. */
function leave() {
  if (!isLeaving) location.reload();
  isLeaving = true;
  return new Promise(() => {}); // nothing of the page is shown any more
}

/** @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] */
export const get = (path, query, signal) => request("GET", path, { query, signal });
/** @param {string} path @param {any} [body] @param {AbortSignal} [signal] */
export const post = (path, body = {}, signal) => request("POST", path, { body, signal });
/** @param {string} path @param {any} body @param {AbortSignal} [signal] */
export const put = (path, body, signal) => request("PUT", path, { body, signal });
/** @param {string} path */
export const remove = (path) => request("DELETE", path);

/** All items of a list that comes in pages.
 * @param {string} path @param {string} key @param {Record<string, any>} [query] */
export async function all(path, key, query = {}) {
  const found = [];
  let cursor = "";
  do {
    const page = await get(path, { ...query, limit: 500, cursor });
    found.push(...page[key]);
    cursor = page.next_cursor;
  } while (cursor);
  return found;
}

/** A part of a path. @param {string} text */
export const part = (text) => encodeURIComponent(text);

/** @param {Record<string, any>} [query] */
function queryText(query = {}) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") found.append(name, String(one));
    }
  }
  const text = found.toString();
  return text ? `?${text}` : "";
}
