// @ts-check
// The result of a call: for people, and raw. Nothing of it acts, and nothing is loaded.
import { useState } from "preact/hooks";
import { html } from "./html.js";
import { visible } from "./texts.js";
import { Empty, shown } from "./ui.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]); // an SVG may have scripts
const SOUNDS = new Set(["audio/wav", "audio/mpeg", "audio/mp3", "audio/ogg", "audio/webm"]);
const MOST = 50_000; // characters that are shown at once; megabytes would hold up the page

/** The content of a result, or of a resource that was read. @param {{result: any}} given */
export function Result({ result }) {
  const blocks = Array.isArray(result.content) ? result.content : Array.isArray(result.contents) ? result.contents.map((resource) => ({ type: "resource", resource })) : [];
  const texts = blocks.filter((block) => block.type === "text").map((block) => parsed(block.text));
  const isTold = texts.some((one) => one !== undefined && JSON.stringify(one) === JSON.stringify(result.structuredContent));
  return html`
    ${blocks.length === 0 && result.structuredContent === undefined && html`<${Empty}>The result is empty.<//>`}
    ${blocks.map((block, index) => html`<${Block} key=${index} block=${block} />`)}
    ${result.structuredContent !== undefined && !isTold && html`<h5>Structured content</h5><${Long} text=${JSON.stringify(result.structuredContent, null, 2)} />`}`;
}

function Block({ block }) {
  switch (block?.type) {
    case "text": return html`<${Text} text=${block.text} />`;
    case "image": return html`<${Media} data=${block.data} kind=${block.mimeType} />`;
    case "audio": return html`<${Media} data=${block.data} kind=${block.mimeType} />`;
    case "resource_link": return html`<p class="link">${visible(block.title || block.name || "resource")} <code>${visible(block.uri)}</code> ${block.mimeType && html`<span class="tag">${visible(block.mimeType)}</span>`}</p>`;
    case "resource": {
      const resource = block.resource || {};
      return html`<p class="link"><code>${visible(resource.uri)}</code> ${resource.mimeType && html`<span class="tag">${visible(resource.mimeType)}</span>`}</p>
        ${typeof resource.text === "string" ? html`<${Text} text=${resource.text} />` : html`<${Media} data=${resource.blob} kind=${resource.mimeType} />`}`;
    }
    default: return html`<${Long} text=${JSON.stringify(block, null, 2)} />`;
  }
}

/** A text; what is JSON is indented. */
function Text({ text }) {
  const value = parsed(text);
  return html`<${Long} text=${value === undefined ? shown(text) ?? "" : JSON.stringify(value, null, 2)} />`;
}

/** An image or a sound, from its own bytes alone; of any other kind only its size. */
function Media({ data, kind }) {
  const type = (typeof kind === "string" ? kind : "").toLowerCase().split(";")[0].trim();
  const isBase64 = typeof data === "string" && /^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(data);
  const size = typeof data === "string" ? Math.floor((data.length * 3) / 4).toLocaleString("en") : "?";
  const address = `data:${type};base64,${data}`;
  if (isBase64 && IMAGES.has(type)) return html`<figure class="media"><img src=${address} alt=${`An image of the result, ${type}`} /><figcaption class="note">${type}, ${size} bytes</figcaption></figure>`;
  if (isBase64 && SOUNDS.has(type)) return html`<figure class="media"><audio controls src=${address}></audio><figcaption class="note">${type}, ${size} bytes</figcaption></figure>`;
  return html`<p class="note">${visible(type) || "of no kind"}, ${size} bytes: not shown here. “Raw” has all of it.</p>`;
}

/** A long text, the rest of it on request. @param {{text: string}} given */
export function Long({ text }) {
  const [most, setMost] = useState(MOST);
  return html`<pre tabindex="0">${visible(text.slice(0, most))}</pre>
    ${text.length > most && html`<p class="row"><span class="note">${(text.length - most).toLocaleString("en")} more characters</span>
      <button type="button" onClick=${() => setMost(most * 10)}>Show more</button></p>`}`;
}

function parsed(text) {
  if (typeof text !== "string" || !/^\s*[[{]/.test(text) || text.length > 1_000_000) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
