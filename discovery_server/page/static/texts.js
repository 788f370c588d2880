// @ts-check
// Texts of servers: shown as text, with what is invisible made visible.

const PLAIN = /^[\n\t -~]*$/;
// A joiner between pictures, and what chooses the form of one before it, are part of an emoji.
const JOINER = /\u200d(?!\p{ExtPict})|(?<![\p{ExtPict}\p{EMod}]\ufe0f?)\u200d/u;
const SELECTOR = /(?<!\p{ExtPict})(?<![0-9#*](?=\ufe0f\u20e3))[\ufe0e\ufe0f]/u;
const OTHER = /(?![\n\t\u200d\ufe0e\ufe0f])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\p{DI}\u2800]/u;
const INVISIBLE = new RegExp([JOINER, SELECTOR, OTHER].map((one) => one.source).join("|"), "gu");

/** A text in which control characters, and others that a reader would not see, are names. A value that is no text
 * where one belongs is shown as JSON.
 * @param {any} given */
export function visible(given) {
  const text = typeof given === "string" ? given : JSON.stringify(given) ?? "";
  if (PLAIN.test(text)) return text;
  return text.replaceAll("\r\n", "\n").replace(INVISIBLE, named);
}

/** @param {string} character */
const named = (character) => `⟨U+${/** @type {number} */ (character.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** A word as a POSIX shell takes it. @param {string} word */
export const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** The call of a tool on the command line. @param {string} server @param {string} tool @param {any} given @param {string} [file] the configuration */
export function commandLine(server, tool, given, file) {
  const isPlain = /^\w[\w.-]*$/.test(server) && /^\w[\w.-]*$/.test(tool);
  const options = Object.keys(given).length ? ["--args", JSON.stringify(given)] : [];
  const words = isPlain ? [`${server}:${tool}`, ...options] : [`--server=${server}`, ...options, "--", tool];
  return ["discovery", ...(file ? ["--config", file] : []), "execute", ...words].map(quoted).join(" ");
}

/** The same call over the API. @param {string} address @param {any} given */
export function curlLine(address, given) {
  const body = JSON.stringify({ arguments: given });
  return [
    `curl ${quoted(address)}`,
    '-H "Authorization: Bearer $DISCOVERY_TOKEN"', // the page does not know it
    "-H 'content-type: application/json'",
    `--data-raw ${quoted(body)}`,
  ].join(" \\\n  ");
}
