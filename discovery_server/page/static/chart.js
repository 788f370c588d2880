// @ts-check
// Calls over time, drawn by uPlot, which is a script and no module; the table beside it has the same figures.
import { useEffect, useRef } from "preact/hooks";
import { html } from "./html.js";
import { counted, Empty, took } from "./ui.js";

const HEIGHT = 160; // pixels

/** The spans of `GET /metrics/timeline` as a chart, and on request as a table.
 * @param {{timeline: {step: number, total: any, spans: any[]}}} given */
export function Timeline({ timeline }) {
  const { spans, total } = timeline;
  if (!total.calls) return html`<${Empty}>No call in this time; <a href="#/tools">try a tool</a>.<//>`;
  const busy = spans.filter((span) => span.calls);
  const text = `${counted(total.calls, "call")}, ${counted(total.errors, "error")}, median ${took(total.p50_seconds)}. The table has all figures.`;
  return html`
    <figure class="timeline" role="img" aria-label=${`Calls over time: ${text}`}>
      <${Chart} label="Calls" spans=${spans} series=${[["calls", "--link"], ["errors", "--bad"]]} />
      <${Chart} label="Milliseconds" spans=${spans} series=${[["p50_seconds", "--good"], ["p95_seconds", "--soft"]]} scale=${1000} />
    </figure>
    <details><summary>As a table (${counted(busy.length, "span")} with calls)</summary>
      ${busy.length > 0 && html`<table>
        <thead><tr><th>From</th><th class="number">Calls</th><th class="number">Errors</th><th class="number">p50</th><th class="number">p95</th></tr></thead>
        <tbody>${busy.map((span) => html`<tr key=${span.at}>
          <th scope="row">${new Date(span.at * 1000).toLocaleTimeString()}</th>
          <td class="number" data-label="calls">${span.calls.toLocaleString("en")}</td><td class="number" data-label="errors">${span.errors}</td>
          <td class="number" data-label="p50">${took(span.p50_seconds)}</td><td class="number" data-label="p95">${took(span.p95_seconds)}</td></tr>`)}</tbody>
      </table>`}
    </details>`;
}

const NAMES = { calls: "calls", errors: "errors", p50_seconds: "p50", p95_seconds: "p95" };

function Chart({ label, spans, series, scale = 1 }) {
  const frame = useRef(/** @type {HTMLDivElement | null} */ (null));
  const data = [
    spans.map((span) => span.at),
    ...series.map(([key]) => spans.map((span) => (span[key] === null ? null : span[key] * scale))),
  ];
  const chart = useRef(/** @type {any} */ (null));
  useEffect(() => {
    const place = /** @type {HTMLDivElement} */ (frame.current);
    const build = () => {
      chart.current?.destroy();
      chart.current = new uPlot(options(label, series, place.clientWidth), data, place);
    };
    build();
    const theme = matchMedia("(prefers-color-scheme: dark)");
    const resized = new ResizeObserver(() => chart.current.setSize({ width: place.clientWidth, height: HEIGHT }));
    resized.observe(place);
    theme.addEventListener("change", build); // colours of a canvas do not follow the style
    addEventListener("themechange", build);
    return () => { resized.disconnect(); theme.removeEventListener("change", build); removeEventListener("themechange", build); chart.current.destroy(); chart.current = null; };
  }, []);
  useEffect(() => { chart.current?.setData(data); }, [spans]);
  return html`<div>
    <p class="note" aria-hidden="true">${label}: ${series.map(([key], index) => html`<span class="key key-${key}" key=${key}>${index ? ", " : ""}■ ${NAMES[key]}</span>`)}</p>
    <div ref=${frame}></div></div>`;
}

function options(label, series, width) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => resolved(style.getPropertyValue(name));
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [{ ...axis, values: moments }, { ...axis, size: 56 }],
    series: [{}, ...series.map(([key, name]) => ({ label: NAMES[key], stroke: colour(name), width: 2, points: { show: key.endsWith("seconds"), size: 5, fill: colour(name) } }))],
  };
}

/** Marks of the time axis: the time of day, or the day where marks are a day apart. */
function moments(_, marks) {
  const isByDay = marks.length > 1 && marks[1] - marks[0] >= 86_400;
  return marks.map((at) => {
    const date = new Date(at * 1000);
    return isByDay ? date.toLocaleDateString([], { day: "numeric", month: "short" }) : date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
  });
}

/** A colour as a canvas takes it: it knows no `light-dark()`. @param {string} colour */
function resolved(colour) {
  const probe = document.createElement("span");
  probe.style.color = colour;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
