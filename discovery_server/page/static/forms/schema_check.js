// @ts-check
// What is wrong with a value by a JSON Schema, as one types. The validator of the engine judges at
// the call; so what is not known here is no mistake.

/** @typedef {{path: (string | number)[], message: string}} Mistake */

const DEEPEST = 32;
const MOST_HOPS = 16; // from one `$ref` to the next
const LONGEST_MATCHED = 500; // characters that are compared with a pattern
const MOST_MISTAKES = 100;

/** What was typed and is no value, kept as it is. */
export class Unfinished {
  /** @param {string} text @param {string} [why] */
  constructor(text, why = "needs a value") {
    this.text = text;
    this.why = text.trim() ? why : "needs a value";
  }
}

/** Whether an object has a member of its own: a schema may name one `constructor`.
 * @param {any} object @param {string} name */
export const has = (object, name) => object !== null && typeof object === "object" && Object.hasOwn(object, name);

/** @param {any} value */
export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Unfinished);

/** What a reference within the schema leads to; undefined if it leads nowhere.
 * @param {any} root @param {any} reference */
export function target(root, reference) {
  if (reference === "#") return root;
  if (typeof reference !== "string" || !reference.startsWith("#/")) return undefined;
  let found = root;
  for (const step of reference.slice(2).split("/")) {
    const name = decoded(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (!has(found, name)) return undefined;
    found = found[name];
  }
  return found;
}

/** The schema behind references that stand alone; undefined if they lead nowhere, or in a circle.
 * @param {any} schema @param {any} root */
export function followed(schema, root) {
  for (let hop = 0; hop < MOST_HOPS; hop += 1) {
    if (!isObject(schema) || !has(schema, "$ref")) return schema;
    const { $ref, ...others } = schema;
    const found = target(root, $ref);
    if (found === undefined) return undefined;
    schema = Object.keys(others).length && isObject(found) ? { ...others, allOf: [found, ...(others.allOf || [])] } : found;
    if (has(schema, "allOf") && schema !== found) return schema;
  }
  return undefined;
}

/** @param {any} schema @param {any} value @param {any} [root] @returns {Mistake[]} */
export function mistakesOf(schema, value, root = schema) {
  /** @type {Mistake[]} */
  const found = [];
  check(schema, value, { root, path: [], depth: 0, add: (mistake) => { if (found.length < MOST_MISTAKES) found.push(mistake); } });
  return found;
}

/** Whether the engine would say so: it takes formats for advice. */
function fits(schema, value, at) {
  return branchMistakes(schema, value, { ...at, takesFormats: false }).length === 0;
}

function branchMistakes(schema, value, at) {
  /** @type {Mistake[]} */
  const found = [];
  check(schema, value, { ...at, depth: at.depth + 1, add: (mistake) => found.push(mistake) });
  return found;
}

function check(schema, value, at) {
  const say = (message) => at.add({ path: at.path, message });
  if (value instanceof Unfinished) return say(value.why);
  if (schema === false) return say("is not taken");
  if (!isObject(schema) || at.depth > DEEPEST) return undefined;
  if (has(schema, "$ref")) {
    const found = target(at.root, schema.$ref);
    if (found !== undefined) check(found, value, { ...at, depth: at.depth + 1 });
  }
  if (has(schema, "type") && ![schema.type].flat().some((type) => isOf(type, value))) {
    return say(`must be ${[schema.type].flat().map((type) => WORDS[type] || type).join(" or ")}`);
  }
  if (has(schema, "const") && !same(schema.const, value)) say(`must be ${JSON.stringify(schema.const)}`);
  if (Array.isArray(schema.enum) && !schema.enum.some((one) => same(one, value))) say("must be one of the choices");
  if (typeof value === "string") checkText(schema, value, at, say);
  if (typeof value === "number") checkNumber(schema, value, say);
  if (Array.isArray(value)) checkList(schema, value, at, say);
  if (isObject(value)) checkMembers(schema, value, at, say);
  checkBranches(schema, value, at, say);
  return undefined;
}

const WORDS = {
  string: "text", number: "a number", integer: "a whole number", boolean: "yes or no",
  array: "a list", object: "an object", null: "null",
};

function isOf(type, value) {
  switch (type) {
    case "string": return typeof value === "string";
    case "number": return typeof value === "number";
    case "integer": return Number.isInteger(value);
    case "boolean": return typeof value === "boolean";
    case "array": return Array.isArray(value);
    case "object": return isObject(value);
    case "null": return value === null;
    default: return true;
  }
}

function checkText(schema, text, at, say) {
  const length = [...text].length;
  if (isCount(schema.minLength) && length < schema.minLength) say(`must have at least ${counted(schema.minLength, "character")}`);
  if (isCount(schema.maxLength) && length > schema.maxLength) say(`must have at most ${counted(schema.maxLength, "character")}, not ${length}`);
  if (typeof schema.pattern === "string" && isQuick(schema.pattern) && text.length <= LONGEST_MATCHED) {
    const pattern = compiled(schema.pattern);
    if (pattern && !pattern.test(text)) say(`must match ${schema.pattern}`);
  }
  const format = at.takesFormats !== false && FORMATS[schema.format];
  if (format && !format.fits(text)) say(`must be ${format.like}`);
}

function checkNumber(schema, number, say) {
  if (isNumber(schema.minimum) && number < schema.minimum) say(`must be ${schema.minimum} or more`);
  if (isNumber(schema.maximum) && number > schema.maximum) say(`must be ${schema.maximum} or less`);
  if (isNumber(schema.exclusiveMinimum) && number <= schema.exclusiveMinimum) say(`must be more than ${schema.exclusiveMinimum}`);
  if (isNumber(schema.exclusiveMaximum) && number >= schema.exclusiveMaximum) say(`must be less than ${schema.exclusiveMaximum}`);
  // The remainder of fractions is not exact; those are left to the engine.
  const step = schema.multipleOf;
  if (Number.isInteger(step) && step > 0 && Number.isSafeInteger(number) && number % step !== 0) say(`must be a multiple of ${step}`);
}

function checkList(schema, list, at, say) {
  if (isCount(schema.minItems) && list.length < schema.minItems) say(`needs at least ${counted(schema.minItems, "item")}`);
  if (isCount(schema.maxItems) && list.length > schema.maxItems) say(`takes at most ${counted(schema.maxItems, "item")}`);
  if (schema.uniqueItems === true && list.some((one, index) => list.slice(0, index).some((other) => same(one, other)))) say("has an item twice");
  const first = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  list.forEach((item, index) => {
    const of = index < first.length ? first[index] : Array.isArray(schema.items) ? true : schema.items;
    check(of, item, { ...at, path: [...at.path, index], depth: at.depth + 1 });
  });
}

function checkMembers(schema, object, at, say) {
  const names = Object.keys(object);
  const known = isObject(schema.properties) ? schema.properties : {};
  for (const name of Array.isArray(schema.required) ? schema.required : []) {
    if (!has(object, name)) at.add({ path: [...at.path, name], message: "needs a value" });
  }
  for (const [name, others] of Object.entries(isObject(schema.dependentRequired) ? schema.dependentRequired : {})) {
    const missing = has(object, name) && Array.isArray(others) ? others.filter((other) => !has(object, other)) : [];
    for (const other of missing) at.add({ path: [...at.path, other], message: `needs a value, since ${name} has one` });
  }
  if (isCount(schema.minProperties) && names.length < schema.minProperties) say(`needs at least ${counted(schema.minProperties, "member")}`);
  if (isCount(schema.maxProperties) && names.length > schema.maxProperties) say(`takes at most ${counted(schema.maxProperties, "member")}`);
  for (const name of names) {
    const of = has(known, name) ? known[name] : has(schema, "patternProperties") ? true : schema.additionalProperties;
    check(of, object[name], { ...at, path: [...at.path, name], depth: at.depth + 1 });
  }
}

function checkBranches(schema, value, at, say) {
  for (const one of Array.isArray(schema.allOf) ? schema.allOf : []) check(one, value, { ...at, depth: at.depth + 1 });
  if (Array.isArray(schema.anyOf)) checkChoice(schema.anyOf, value, at);
  const fitting = (branches) => branches.filter((branch) => fits(branch, value, at)).length;
  if (Array.isArray(schema.oneOf) && checkChoice(schema.oneOf, value, at) > 0 && fitting(schema.oneOf) > 1) say("fits more than one of the choices, and must fit one alone");
  if (has(schema, "not") && fits(schema.not, value, at)) say("is excluded");
  if (has(schema, "if")) {
    const then = fits(schema.if, value, at) ? schema.then : schema.else;
    check(then, value, { ...at, depth: at.depth + 1 });
  }
}

/** How many branches fit; if none does, the mistakes of the nearest are added. */
function checkChoice(branches, value, at) {
  const tried = branches.map((branch) => branchMistakes(branch, value, at));
  const count = tried.filter((mistakes) => mistakes.length === 0).length;
  if (count === 0) {
    const here = (mistakes) => mistakes.filter((one) => one.path.length === at.path.length).length;
    const fitting = tried[branches.findIndex((branch) => fits(branch, value, at))]; // but for a format
    const [nearest] = fitting ? [fitting] : tried.toSorted((some, others) => here(some) - here(others) || some.length - others.length);
    for (const mistake of nearest || [{ path: at.path, message: "fits none of the choices" }]) at.add(mistake);
  }
  return count;
}

/** Equal as values of JSON. */
export function same(some, other) {
  if (some === other) return true;
  if (Array.isArray(some)) return Array.isArray(other) && some.length === other.length && some.every((one, index) => same(one, other[index]));
  if (!isObject(some) || !isObject(other)) return false;
  const names = Object.keys(some);
  return names.length === Object.keys(other).length && names.every((name) => has(other, name) && same(some[name], other[name]));
}

// The pattern is a server's, and would hold up the page: only those are tried whose time is bounded.
function isQuick(pattern) {
  const isNested = /\)[*+{?]|\\[1-9k]|\(\?[<=!]/.test(pattern);
  return pattern.length <= 200 && !isNested && (pattern.match(/[*+{]/g) || []).length <= 3;
}

function compiled(pattern) {
  try {
    return new RegExp(pattern, "u");
  } catch {
    return null;
  }
}

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const MOMENT = /^(\d{4}-\d{2}-\d{2})[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/;

/** Formats that are checked, and what a value looks like. */
export const FORMATS = /** @type {Record<string, {fits: (text: string) => boolean, like: string}>} */ ({
  date: { fits: isDate, like: "a date such as 2026-11-23" },
  "date-time": { fits: (text) => MOMENT.test(text) && isDate(text.slice(0, 10)) && !Number.isNaN(Date.parse(text)), like: "a moment such as 2026-11-23T10:00:00Z" },
  time: { fits: (text) => /^\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})?$/.test(text), like: "a time such as 10:00:00Z" },
  email: { fits: (text) => /^[^\s@]+@[^\s@]+$/.test(text), like: "an address such as ann@example.org" },
  uri: { fits: (text) => /^[a-z][a-z0-9+.-]*:\S+$/i.test(text), like: "an address such as https://example.org" },
  uuid: { fits: (text) => /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text), like: "a UUID" },
});

function isDate(text) {
  const date = DATE.test(text) ? new Date(`${text}T00:00:00Z`) : new Date(NaN);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

const isNumber = (value) => typeof value === "number";
const isCount = (value) => Number.isInteger(value) && value >= 0;
const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** A part of an address; as it is written if it is wrong. @param {string} text */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
