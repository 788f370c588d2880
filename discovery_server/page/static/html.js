// @ts-check
// The template function of all modules: markup in, elements out. Text is always text, whichever module shows it:
// what is invisible in it is named, and no address that is given becomes one that acts or is loaded.
import { h, options } from "preact";
import htm from "htm";
import { visible } from "./texts.js";

export const html = htm.bind(h);

const READ = ["title", "aria-label", "alt", "placeholder"]; // attributes whose text people read
const OWN_BYTES = /^data:(image|audio)\/[a-z0-9]+;base64,/; // an SVG, which may have scripts, has a `+`

// Preact makes a node of each text, too; of those the type is null.
const next = options.vnode;
options.vnode = (vnode) => {
  const { type, props } = /** @type {any} */ (vnode);
  if (type === null && typeof props === "string") /** @type {any} */ (vnode).props = visible(props);
  else if (typeof type === "string") guard(props);
  next?.(vnode);
};

/** @param {any} props of an element */
function guard(props) {
  for (const name of READ) if (typeof props[name] === "string") props[name] = visible(props[name]);
  if ("href" in props && !String(props.href).startsWith("#")) delete props.href;
  if ("src" in props && !OWN_BYTES.test(props.src)) delete props.src;
  delete props.dangerouslySetInnerHTML;
}
