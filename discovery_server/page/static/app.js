// @ts-check
// The frame of the page: areas on the left, each with an address of its own behind `#`.
import { render } from "preact";
import { useEffect, useErrorBoundary } from "preact/hooks";
import { signal } from "@preact/signals";
import { html } from "./html.js";
import { part } from "./api.js";
import { decoded } from "./forms/schema_check.js";
import { connect, connection, hasProblem, servers, status } from "./live.js";
import { questions } from "./made_calls.js";
import { Icon } from "./icons.js";
import { Palette } from "./palette.js";
import { Connect } from "./pages/connect.js";
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

/** @type {{path: string, name: string, icon: any, page: any}[]} */
const AREAS = [
  { path: "", name: "Overview", icon: "overview", page: Overview },
  { path: "servers", name: "Servers", icon: "servers", page: Servers },
  { path: "tools", name: "Tools", icon: "tools", page: Tools },
  { path: "search", name: "Search lab", icon: "search", page: Search },
  { path: "connect", name: "Connect", icon: "connect", page: Connect },
  { path: "marketplace", name: "Marketplace", icon: "marketplace", page: Marketplace },
  { path: "fleet", name: "Fleet", icon: "fleet", page: Fleet },
  { path: "logs", name: "Logs", icon: "logs", page: Logs },
  { path: "metrics", name: "Metrics", icon: "metrics", page: Metrics },
  { path: "settings", name: "Settings", icon: "settings", page: Settings },
];
const THEMES = /** @type {const} */ (["system", "light", "dark"]);

const theme = signal(document.documentElement.dataset.theme || "system");
const isPaletteOpen = signal(false);

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
  const areas = AREAS.filter((one) => one.path !== "fleet" || one === found || status.value?.is_shared);
  return html`
    <a class="skip" href="#main" onClick=${toMain}>Skip to the content</a>
    <nav class="frame" aria-label="Areas">
      <h1><span class="mark"><${Icon} name="search" /></span>discovery</h1>
      <button type="button" class="jump" onClick=${() => { isPaletteOpen.value = true; }}><${Icon} name="command" />Go to …<kbd>Ctrl K</kbd></button>
      <ul>${areas.map((one) => html`<li key=${one.path}>
        <a href="#/${one.path}" aria-current=${one === found ? "page" : undefined}><${Icon} name=${one.icon} />${one.name}<${Count} area=${one.path} /></a></li>`)}</ul>
      ${questions.value.length > 0 && html`<a class="waiting" href="#/tools/${part(questions.value[0].server)}/${part(questions.value[0].tool)}">${counted(questions.value.length, "question waits", "questions wait")}</a>`}
      <footer>
        <button type="button" onClick=${() => choose(nextTheme())}><${Icon} name=${theme.value} />Theme: ${theme.value}</button>
        <p class="connection ${connection.value}" role="status">${{
          connecting: "Connecting …",
          open: "Connected",
          lost: "Connection lost; trying again",
        }[connection.value]}</p>
        ${status.value && html`<p class="connection version">Version ${status.value.version}</p>`}
      </footer>
    </nav>
    ${isPaletteOpen.value && html`<${Palette} areas=${areas} actions=${ACTIONS} onClose=${() => { isPaletteOpen.value = false; }} />`}
    <main id="main" tabindex="-1">
      <div role="status">${connection.value === "lost" && html`<p class="notice">The gateway cannot be reached, so what is shown is as it was before. The page tries again by itself; if the gateway was ended, <code>discovery serve --http</code> starts it.</p>`}</div>
      <${Contained} at=${place.value}><${found.page} rest=${rest} query=${query} /><//></main>`;
}

/** What an area has, beside its name; servers with problems before all others. */
function Count({ area }) {
  const ill = servers.value.filter(hasProblem).length;
  if (area === "servers" && ill > 0) return html`<span class="count">${ill}<span class="hidden"> with problems</span></span>`;
  const count = { servers: servers.value.length, tools: status.value?.enabled_count }[area];
  return count > 0 && html`<span class="count plain">${count.toLocaleString("en")}</span>`;
}

const ACTIONS = [
  { kind: "Action", name: "Add a server", icon: "servers", open: () => { location.hash = "#/servers?add=1"; } },
  ...THEMES.map((name) => ({ kind: "Action", name: `Theme: ${name}`, icon: name, open: () => choose(name) })),
  { kind: "Action", name: "Sign out", icon: "settings", open: async () => { await fetch("/session", { method: "DELETE" }); location.reload(); } },
];

const nextTheme = () => THEMES[(THEMES.indexOf(/** @type {any} */ (theme.value)) + 1) % THEMES.length];

/** Show the page in a theme, and keep it for this browser. @param {string} name */
function choose(name) {
  theme.value = name;
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    if (name === "system") localStorage.removeItem("theme");
    else localStorage.setItem("theme", name);
  } catch { /* it holds until the page is closed */ }
  dispatchEvent(new Event("themechange"));
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

/** `/` leads to the field of the page that searches, `Ctrl K` to everything. @param {KeyboardEvent} event */
function toSearch(event) {
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    isPaletteOpen.value = !isPaletteOpen.value;
    event.preventDefault();
    return;
  }
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
