// @ts-check
// How a JSON Schema is asked for: as a field of some kind, or as JSON where a form would lie.
//
//   fieldOf({ type: "string", enum: ["red", "blue"] }, root).kind === "choice"
//
// A form's value is a value of JSON at any time; what is typed and none yet is `Unfinished`.
import { followed, has, isObject, mistakesOf, same, Unfinished } from "./schema_check.js";

/**
 * @typedef {{
 *   kind: "text" | "number" | "boolean" | "choice" | "several" | "const" | "null" | "file" | "group" | "list" | "variants" | "raw",
 *   schema: any, title: string, description: string, isNullable: boolean, isWhole?: boolean,
 *   options?: {value: any, title: string}[], members?: {name: string, schema: any, isRequired: boolean}[],
 *   others?: any, item?: any, variants?: {title: string, schema: any}[],
 * }} Field
 */

const DEEPEST = 6; // levels of a form; what is deeper is written as JSON
const MOST_CHOICES = 500;

/** Keywords that say what no field shows. */
const UNSHOWN = [
  "patternProperties", "propertyNames", "contains", "prefixItems", "additionalItems", "if", "then", "else", "not",
  "dependentSchemas", "dependencies", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef",
];
const NOTES = new Set(["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"]);
const OF_KIND = /** @type {[string, string[]][]} */ ([
  ["object", ["properties", "additionalProperties", "required", "minProperties", "maxProperties"]],
  ["array", ["items", "minItems", "maxItems", "uniqueItems"]],
  ["string", ["minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"]],
  ["number", ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]],
]);

/** @param {any} given @param {any} root @param {number} [depth] @returns {Field} */
export function fieldOf(given, root, depth = 0) {
  const schema = merged(given, root);
  const noted = isObject(schema) ? schema : isObject(given) ? given : {};
  const field = {
    kind: /** @type {any} */ ("raw"), schema: noted, isNullable: false,
    title: textIn(noted.title), description: textIn(noted.description),
  };
  if (!isObject(schema) || depth > DEEPEST || UNSHOWN.some((keyword) => has(schema, keyword))) return field;
  if (has(schema, "const")) return { ...field, kind: "const" };
  if (Array.isArray(schema.enum)) return choice(field, schema.enum.map((value, index) => ({ value, title: named(value, schema.enumNames?.[index]) })));
  for (const keyword of ["oneOf", "anyOf"]) {
    if (Array.isArray(schema[keyword])) return ofBranches(field, schema, keyword, root, depth);
  }
  return ofType(field, schema, root, depth);
}

function ofType(field, schema, root, depth) {
  let types = has(schema, "type") ? [schema.type].flat() : OF_KIND.filter(([, keywords]) => keywords.some((keyword) => has(schema, keyword))).map(([type]) => type);
  if (types.includes("null") && types.length > 1) {
    types = types.filter((type) => type !== "null");
    field = { ...field, isNullable: true };
  }
  if (types.includes("number")) types = types.filter((type) => type !== "integer");
  if (types.length > 1) {
    if (!has(schema, "type")) return field;
    return { ...field, kind: "variants", variants: types.map((type) => ({ title: String(type), schema: { ...schema, type } })) };
  }
  switch (types[0]) {
    case "string": return { ...field, kind: schema.contentEncoding === "base64" || schema.format === "byte" ? "file" : "text" };
    case "integer": return { ...field, kind: "number", isWhole: true };
    case "number": return { ...field, kind: "number", isWhole: false };
    case "boolean": return { ...field, kind: "boolean" };
    case "null": return { ...field, kind: "null" };
    case "array": return ofList(field, schema, root, depth);
    case "object": return ofObject(field, schema, depth);
    default: return field;
  }
}

function ofObject(field, schema, depth) {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  const members = Object.keys(properties).map((name) => ({ name, schema: properties[name], isRequired: required.includes(name) }));
  for (const name of required.filter((one) => typeof one === "string" && !has(properties, one))) members.push({ name, schema: true, isRequired: true });
  const others = has(schema, "additionalProperties") ? schema.additionalProperties : undefined;
  if (depth > 0 && members.length === 0 && !isObject(others) && others !== false) return field;
  members.sort((some, other) => Number(other.isRequired) - Number(some.isRequired));
  return { ...field, kind: "group", members, others };
}

function ofList(field, schema, root, depth) {
  if (!isObject(schema.items)) return field;
  const item = fieldOf(schema.items, root, depth + 1);
  if (item.kind === "choice" && schema.uniqueItems === true && !item.isNullable) return { ...field, kind: "several", options: item.options };
  return { ...field, kind: "list", item: schema.items };
}

function ofBranches(field, schema, keyword, root, depth) {
  const { [keyword]: given, ...base } = schema;
  if (has(base, keyword === "oneOf" ? "anyOf" : "oneOf") || given.length === 0) return field;
  const branches = given.map((one) => merged(one, root));
  if (!branches.every(isObject)) return field;
  const own = Object.keys(base).filter((key) => !NOTES.has(key) && !key.startsWith("$"));
  if (own.length && branches.every((one) => Object.keys(one).every((key) => key === "required" || key === "type" || NOTES.has(key))) && has(base, "properties")) {
    return ofType(field, base, root, depth); // the branches only say which members are needed
  }
  const values = branches.filter((one) => !isNull(one));
  const isNullable = values.length < branches.length;
  field = { ...field, isNullable: field.isNullable || isNullable };
  if (values.length === 0) return { ...field, kind: "null" };
  if (values.every((one) => has(one, "const")) && !own.some((key) => key !== "type")) {
    return choice(field, values.map((one) => ({ value: one.const, title: named(one.const, one.title) })));
  }
  const whole = values.map((one) => combined(base, one, root));
  if (whole.some((one) => one === undefined)) return { ...field, isNullable: false };
  if (whole.length === 1) {
    const only = fieldOf(whole[0], root, depth);
    return { ...only, isNullable: only.kind !== "raw" && (only.isNullable || isNullable), title: field.title || only.title, description: field.description || only.description };
  }
  return { ...field, kind: "variants", variants: whole.map((one, index) => ({ title: variantTitle(values[index], index, root), schema: one })) };
}

function choice(field, options) {
  const isNullable = field.isNullable && !options.some((one) => one.value === null);
  if (options.length === 0 || options.length > MOST_CHOICES) return { ...field, isNullable: false };
  return { ...field, kind: "choice", isNullable, options };
}

function variantTitle(schema, index, root) {
  if (textIn(schema.title)) return schema.title;
  const properties = isObject(schema.properties) ? schema.properties : {};
  for (const name of Object.keys(properties)) {
    const one = merged(properties[name], root);
    if (isObject(one) && has(one, "const")) return `${name}: ${named(one.const)}`;
  }
  if (has(schema, "const")) return named(schema.const);
  const type = [schema.type].flat().filter((one) => typeof one === "string").join(" or ");
  const names = Object.keys(properties);
  return names.length ? `with ${names.slice(0, 3).join(", ")}` : type || `choice ${index + 1}`;
}

/** One schema without references and `allOf`; undefined if it cannot be written so. */
function merged(schema, root, depth = 0) {
  schema = followed(schema, root);
  if (!isObject(schema) || !Array.isArray(schema.allOf) || depth > DEEPEST) return schema;
  const { allOf, ...base } = schema;
  let found = base;
  for (const one of allOf) {
    const part = merged(one, root, depth + 1);
    found = found && isObject(part) ? combined(found, part, root) : undefined;
  }
  return found;
}

/** A schema that says what both say, as far as fields show it; undefined if that is unclear. */
function combined(some, other, root) {
  const found = { ...some };
  for (const key of Object.keys(other)) {
    const [mine, its] = [some[key], other[key]];
    if (!has(some, key) || (key === "title" || key === "description") && !mine) found[key] = its;
    else if (NOTES.has(key) || key.startsWith("$") || same(mine, its)) continue;
    else if (key === "required") found[key] = [...new Set([...mine, ...its])];
    else if (key === "type") {
      found[key] = [its].flat().filter((type) => [mine].flat().includes(type) || (type === "integer" && [mine].flat().includes("number")));
      if (found[key].length === 1) [found[key]] = found[key];
    } else if (key === "properties") {
      found[key] = { ...mine };
      for (const name of Object.keys(its)) {
        const both = has(mine, name) ? { allOf: [mine[name], its[name]] } : its[name];
        Object.defineProperty(found[key], name, { value: both, enumerable: true, configurable: true, writable: true });
      }
    } else if (key === "additionalProperties") {
      if (mine !== false && its !== false) return undefined;
      found[key] = false;
    } else if (key === "enum") found[key] = mine.filter((one) => its.some((two) => same(one, two)));
    else if (key.startsWith("min") || key.startsWith("max")) found[key] = its; // the check knows both
    else return undefined;
  }
  return found;
}

/** The value with which a form begins: what is fixed, and what has a default.
 * @param {any} schema @param {any} root @param {boolean} isRequired @param {number} [depth] @returns {any} */
export function initial(schema, root, isRequired, depth = 0) {
  const field = fieldOf(schema, root, depth);
  const given = has(field.schema, "default") ? field.schema.default : undefined;
  if (given !== undefined && given !== null) return structuredClone(given);
  if (!isRequired) return undefined;
  if (field.kind === "const") return structuredClone(field.schema.const);
  if (field.kind === "null") return null;
  if (field.kind === "choice" && field.options?.length === 1 && !field.isNullable) return structuredClone(field.options[0].value);
  if (field.kind === "several") return [];
  if (field.kind === "variants" && field.variants) return initial(field.variants[0].schema, root, true, depth + 1);
  if (field.kind === "list") return Array.from({ length: Math.min(field.schema.minItems || 0, 10) }, () => blank(field.item, root, depth + 1));
  if (field.kind !== "group") return undefined;
  let value = {};
  for (const member of field.members || []) value = withMember(value, member.name, initial(member.schema, root, member.isRequired, depth + 1));
  return value;
}

/** The value of a new item of a list. @param {any} schema @param {any} root @param {number} [depth] */
export function blank(schema, root, depth = 0) {
  const found = initial(schema, root, true, depth);
  if (found !== undefined) return found;
  return fieldOf(schema, root, depth).kind === "text" ? "" : new Unfinished("");
}

/** Which variant a value is of: the first that it fits, else the nearest. @param {Field} field @param {any} value @param {any} root */
export function variantOf(field, value, root) {
  const counts = (field.variants || []).map((one) => (value === undefined ? 0 : mistakesOf(one.schema, value, root).length));
  return counts.indexOf(Math.min(...counts));
}

/** An object with another member; without it if the value is undefined. */
export function withMember(object, name, value) {
  const { [name]: _, ...others } = isObject(object) ? object : {};
  if (value === undefined) return others;
  return has(object, name) ? Object.fromEntries(Object.entries(object).map(([key, one]) => [key, key === name ? value : one])) : { ...others, [name]: value };
}

/** @param {any[]} list @param {number} index @param {any} value undefined takes the item out */
export function withItem(list, index, value) {
  return value === undefined ? list.toSpliced(index, 1) : list.with(index, value);
}

/** The value of a text that is typed for a number. @param {string} text @param {boolean} isWhole */
export function numberIn(text, isWhole) {
  const number = Number(text.trim());
  if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim())) return new Unfinished(text, isWhole ? "must be a whole number" : "must be a number");
  if (!Number.isFinite(number)) return new Unfinished(text, "is too large");
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) return new Unfinished(text, "has more digits than can be sent exactly");
  return number;
}

/** The value of a text that is typed as JSON. @param {string} text */
export function jsonIn(text) {
  let inexact = false;
  try {
    const value = JSON.parse(text, (_, one) => { inexact ||= typeof one === "number" && (!Number.isFinite(one) || (Number.isInteger(one) && !Number.isSafeInteger(one))); return one; });
    return inexact ? new Unfinished(text, "has a number with more digits than can be sent exactly") : value;
  } catch (error) {
    return new Unfinished(text, `is not JSON: ${error.message}`);
  }
}

/** A value as JSON; what is unfinished stands in it as it was typed. @param {any} value */
export function jsonText(value) {
  /** @type {string[]} */
  const texts = [];
  const mark = `unfinished-${Math.random().toString(36).slice(2)}-`;
  const written = JSON.stringify(value, (_, one) => (one instanceof Unfinished ? `${mark}${texts.push(one.text) - 1}-` : one), 2);
  return (written ?? "").replaceAll(new RegExp(`"${mark}(\\d+)-"`, "g"), (_, index) => texts[Number(index)]);
}

/** Whether a value has something unfinished. @param {any} value @returns {boolean} */
export function isUnfinished(value) {
  if (value instanceof Unfinished) return true;
  return value !== null && typeof value === "object" && Object.values(value).some(isUnfinished);
}

const isNull = (schema) => schema.type === "null" || (has(schema, "const") && schema.const === null);
const named = (value, title) => textIn(title) || (typeof value === "string" ? value : JSON.stringify(value));
const textIn = (value) => (typeof value === "string" ? value : "");
