// @ts-check
// Icons of the page: lines on a grid of sixteen, in the colour of the text beside them.
import { html } from "./html.js";

const PATHS = {
  overview: "M2.5 7.5 8 3l5.5 4.5v6h-4v-4h-3v4h-4z",
  servers: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  tools: "M8 2l5.5 3v6L8 14l-5.5-3V5zM2.5 5 8 8l5.5-3M8 8v6",
  search: "M11 7a4 4 0 1 1-8 0 4 4 0 0 1 8 0zM10 10l3.5 3.5",
  connect: "M5.5 2v3.5M10.5 2v3.5M4 5.5h8V8a4 4 0 0 1-8 0zM8 12v2.5",
  marketplace: "M3.5 5.5h9l.8 8H2.7zM5.5 7V4.5a2.5 2.5 0 0 1 5 0V7",
  fleet: "M6.5 2h3v3h-3zM2.5 11h3v3h-3zM10.5 11h3v3h-3zM8 5v3M4 11V8h8v3",
  logs: "M3 4h10M3 8h10M3 12h6",
  metrics: "M3 13V8M8 13V3M13 13V6",
  settings: "M2.5 5h5M11.5 5h2M2.5 11h1M7.5 11h6M11.5 5a2 2 0 1 1-4 0 2 2 0 0 1 4 0zM7.5 11a2 2 0 1 1-4 0 2 2 0 0 1 4 0z",
  light: "M10.5 8a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0zM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1",
  dark: "M13.5 9.5A6 6 0 1 1 6.5 2.5a5 5 0 0 0 7 7z",
  system: "M2.5 3h11v8h-11zM6 14h4M8 11v3",
  command: "M4 5l3 3-3 3M8.5 11.5H12",
};

/** @param {{name: keyof typeof PATHS}} given */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}
