// @ts-check
// The frame of the page: areas on the left, each with an address of its own behind `#`.
import { render } from "preact";
import { useEffect, useErrorBoundary } from "preact/hooks";
import { signal } from "@preact/signals";
import { html } from "./html.js";
import { part } from "./api.js";
import { decoded } from "./forms/schema_check.js";
import { connect, connection, hasProblem, servers } from "./live.js";
import { questions } from "./made_calls.js";
import { Fleet } from "./pages/fleet.js";
import { Logs } from "./pages/logs.js";
import { Marketplace } from "./pages/marketplace.js";
import { Metrics } from "./pages/metrics.js";
import { Overview } from "./pages/overview.js";
import { Search } from "./pages/search.js";
import { Servers } from "./pages/servers.js";
import { Settings } from "./pages/settings.js";
import { Tools } from "./pages/tools.js";
import { counted } from "./ui.js";

const AREAS = [
  { path: "", name: "Overview", page: Overview },
  { path: "servers", name: "Servers", page: Servers },
  { path: "tools", name: "Tools", page: Tools },
  { path: "search", name: "Search lab", page: Search },
  { path: "marketplace", name: "Marketplace", page: Marketplace },
  { path: "fleet", name: "Fleet", page: Fleet },
  { path: "logs", name: "Logs", page: Logs },
  { path: "metrics", name: "Metrics", page: Metrics },
  { path: "settings", name: "Settings", page: Settings },
];

/** The address: the area, and what of it is open. */
const place = signal(parsed());

function parsed() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [area = "", ...rest] = path.split("/").map(decoded);
  return { area, rest, query: new URLSearchParams(query) };
}

function App() {
  const { area, rest, query } = place.value;
  const found = AREAS.find((one) => one.path === area) || AREAS[0];
  useEffect(() => { document.title = `${found.name} · discovery`; scrollTo(0, 0); }, [found]);
  const ill = servers.value.filter(hasProblem).length;
  return html`
    <a class="skip" href="#main" onClick=${toMain}>Skip to the content</a>
    <nav aria-label="Areas">
      <h1>discovery</h1>
      <ul>${AREAS.map((one) => html`<li key=${one.path}>
        <a href="#/${one.path}" aria-current=${one === found ? "page" : undefined}>${one.name}
          ${one.path === "servers" && ill > 0 && html`<span class="count">${ill}<span class="hidden"> with problems</span></span>`}
        </a></li>`)}</ul>
      ${questions.value.length > 0 && html`<a class="waiting" href="#/tools/${part(questions.value[0].server)}/${part(questions.value[0].tool)}">${counted(questions.value.length, "question waits", "questions wait")}</a>`}
      <p class="connection ${connection.value}" role="status">${{
        connecting: "Connecting …",
        open: "Connected",
        lost: "Connection lost; trying again",
      }[connection.value]}</p>
    </nav>
    <main id="main" tabindex="-1">
      <div role="status">${connection.value === "lost" && html`<p class="notice">The gateway cannot be reached, so what is shown is as it was before. The page tries again by itself; if the gateway was ended, <code>discovery serve --http</code> starts it.</p>`}</div>
      <${Contained} at=${place.value}><${found.page} rest=${rest} query=${query} /><//></main>`;
}

/** A mistake of ours in one area takes none of the others along. */
function Contained({ at, children }) {
  const [error, forget] = useErrorBoundary((one) => console.error(one));
  useEffect(() => { if (error) forget(); }, [at]);
  return error ? html`<div class="problem" role="alert"><strong>This part of the page failed: ${error.message}</strong><p>Open it again, or another area. The command line shows the same.</p></div>` : children;
}

/** The address behind `#` is taken, so the focus is set. @param {Event} event */
function toMain(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** `/` leads to the field of the page that searches. @param {KeyboardEvent} event */
function toSearch(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.key !== "/" || target.closest("input, textarea, select, [contenteditable]")) return;
  const field = /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"));
  if (field) field.focus();
  else location.hash = "#/search";
  event.preventDefault();
}

addEventListener("hashchange", () => { place.value = parsed(); });
addEventListener("keydown", toSearch);
connect();
render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
