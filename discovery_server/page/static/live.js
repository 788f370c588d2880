// @ts-check
// What the gateway is doing: its servers, kept up to date by events, and the last calls.
import { signal } from "@preact/signals";
import { all, get } from "./api.js";

/** @type {import("@preact/signals").Signal<"connecting" | "open" | "lost">} */
export const connection = signal("connecting");
/** @type {import("@preact/signals").Signal<any[]>} */
export const servers = signal([]);
/** @type {import("@preact/signals").Signal<any>} */
export const status = signal(null);
/** The last calls of all processes, the newest first. @type {import("@preact/signals").Signal<any[]>} */
export const calls = signal([]);
/** The calls of all processes that have run for a second or more, the oldest first. @type {import("@preact/signals").Signal<any[]>} */
export const running = signal([]);
/** Grows with each change of the catalog. */
export const revision = signal(0);
/** Grows with each reload of the configuration, which may change answers and not the catalog. */
export const reloads = signal(0);
/** Grows when a lost connection is back: what could not be loaded meanwhile can be. */
export const reconnections = signal(0);

const KEPT_CALLS = 200;
export const CALL_KINDS = ["call", "resource-read", "prompt-get"];
const FIRST_WAIT = 500; // milliseconds
const LONGEST_WAIT = 15_000;
const SETTLED = 300; // milliseconds in which changes are gathered before the servers are asked for
const OF_SERVERS = new Set([
  "server_connecting", "server_connected", "server_failed", "server_state_changed",
  "catalog_changed", "configuration_reloaded", "configuration_rejected", "trust_changed",
]);

let stream = "";
let sequence = 0;
let wait = FIRST_WAIT;
let pending = 0;
let isAsking = false;
let isAskedAgain = false;
/** @type {Set<(event: any) => void>} */
const followers = new Set();

/** Call `follow` with each event; returns what ends it. @param {(event: any) => void} follow */
export function follow(follow) {
  followers.add(follow);
  return () => followers.delete(follow);
}

/** Whether a server is usable, and lists what is not. @param {any} server */
export const hasUnusable = (server) => !server.code && server.status !== "disabled" && server.dropped?.length > 0;

/** Whether its owner has something to do about a server, as `discovery health` counts them. @param {any} server */
export const hasProblem = (server) => Boolean(server.code) || hasUnusable(server);

/** Whether an event is a call. Those of other processes are in the log alone. @param {any} event */
export const isCall = (event) => event.type === "log_entry" && CALL_KINDS.includes(event.kind);

/** Connect, and again whenever the connection is lost. */
export function connect() {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const missed = stream ? `?stream=${stream}&after=${sequence}` : "";
  const socket = new WebSocket(`${scheme}//${location.host}/events${missed}`);
  let wasOpen = false;
  socket.onopen = () => {
    wasOpen = true;
    wait = FIRST_WAIT;
    if (connection.value === "lost") reconnections.value += 1;
    connection.value = "open";
  };
  socket.onmessage = (message) => receive(JSON.parse(message.data));
  socket.onclose = () => {
    connection.value = "lost";
    // A refused socket says no reason. If the session has ended, the answer leads to the form.
    if (!wasOpen) get("/status").catch(() => {});
    setTimeout(connect, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  };
}

/** @param {any} frame */
function receive(frame) {
  if (frame.type === "error") return;
  stream = frame.stream;
  sequence = frame.sequence;
  if (frame.type === "state") {
    servers.value = frame.servers;
    revision.value = frame.revision;
    ask();
    readRunning();
    return;
  }
  for (const event of frame.events) {
    if (isCall(event)) calls.value = [event, ...calls.value].slice(0, KEPT_CALLS);
    if (event.type === "catalog_changed") revision.value = event.revision;
    if (event.type === "running_calls_changed") readRunning();
    if (event.type === "configuration_reloaded") reloads.value += 1;
    if (OF_SERVERS.has(event.type)) askSoon();
    for (const one of followers) one(event);
  }
}

async function readRunning() {
  try {
    running.value = (await get("/logs/running")).calls;
  } catch { /* the connection says that it is lost, or the log that it cannot be read */ }
}

function askSoon() {
  if (!pending) pending = setTimeout(() => { pending = 0; ask(); }, SETTLED);
}

/** Ask for the servers, one time after another: an answer that was late would be older than the one before it. */
async function ask() {
  isAskedAgain = isAsking;
  if (isAsking) return;
  isAsking = true;
  try {
    [status.value, servers.value] = await Promise.all([get("/status"), all("/servers", "servers", { health: true })]);
  } catch { /* the connection says that it is lost; the next state has all of it */ }
  isAsking = false;
  if (isAskedAgain) ask();
}
