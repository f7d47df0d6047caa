/** Shows YAML texts and differences between them. */
import { VirtualRows } from "./elements.js";
import { diffLines, hunks } from "./line_diff.js";
import { html, useMemo } from "./vendor/preact.js";
import { scan } from "./yaml_lines.js";

const LINE_HEIGHT = 19;
// Shorter texts are shown whole, so that a browser's own search finds all of them.
const WHOLE_LINES_MAX = 1_500;

/**
 * @param {object} props
 * @param {string} props.text
 * @param {string} props.label
 * @param {(line: import("./yaml_lines.js").Line, at: number) => {name: string, title: string, colour: string} | null} [props.margin] what stands before each line
 */
export function YamlView({ text, label, margin }) {
  const lines = useMemo(() => scan(text.trimEnd()), [text]);
  /** @param {number} at */
  const line = (at) => {
    const found = lines[at];
    const note = margin?.(found, at);
    const isRepeated = note && at > 0 && margin?.(lines[at - 1], at - 1)?.name === note.name;
    return html`<div class="line" key=${at} style=${{ height: LINE_HEIGHT }}>
      ${margin && html`<span class="margin" title=${note?.title} style=${{ "--tint": note?.colour ?? "transparent" }}>${note && !isRepeated ? note.name : ""}</span>`}
      <span class="code"><${Code} line=${found} /></span>
    </div>`;
  };
  if (lines.length > WHOLE_LINES_MAX) {
    return html`<${VirtualRows} count=${lines.length} height=${LINE_HEIGHT} row=${line} attributes=${{ class: "yaml", tabindex: 0, role: "region", "aria-label": label }} />`;
  }
  return html`<div class="yaml" tabindex="0" role="region" aria-label=${label}>${lines.map((_, at) => line(at))}</div>`;
}

/** @param {{line: import("./yaml_lines.js").Line}} props */
function Code({ line: { indent, key, value } }) {
  if (!key) return html`${indent}<span class="value">${value}</span>`;
  return html`${indent}<span class="key">${key}</span>:<span class=${kindOf(value)}>${value}</span>`;
}

/** @param {string} value */
function kindOf(value) {
  const text = value.trim();
  if (/^(true|false|null|~|-?[\d.]+(e[+-]?\d+)?)$/i.test(text)) return "literal";
  return "value";
}

/**
 * The difference of two texts; says so if there is none.
 * @param {{before: string, after: string, label: string}} props
 */
export function DiffView({ before, after, label }) {
  const lines = useMemo(
    () => hunks(diffLines(before.trimEnd().split("\n"), after.trimEnd().split("\n"))),
    [before, after],
  );
  if (!lines.some((line) => line && line.kind !== "same"))
    return html`<p class="muted">There is no difference.</p>`;
  return html`<${DiffLines} label=${label} lines=${lines.map((line) => line && { kind: line.kind, text: line.text })} />`;
}

/**
 * A unified diff of the server.
 * @param {{text: string, label: string}} props
 */
export function UnifiedDiff({ text, label }) {
  const lines = text
    .trimEnd()
    .split("\n")
    .slice(2)
    .map((line) => (line.startsWith("@@") ? null : { kind: KINDS[line[0]] ?? "same", text: line.slice(1) }));
  return html`<${DiffLines} label=${label} lines=${lines} />`;
}
/** @type {Record<string, string>} */
const KINDS = { "+": "added", "-": "removed", " ": "same" };

/** @param {{lines: ({kind: string, text: string} | null)[], label: string}} props */
function DiffLines({ lines, label }) {
  /** @param {number} at */
  const row = (at) => {
    const line = lines[at];
    if (!line) return html`<div class="line gap" key=${at} style=${{ height: LINE_HEIGHT }}>⋯</div>`;
    const sign = { added: "+", removed: "−" }[line.kind] ?? " ";
    return html`<div class=${`line ${line.kind}`} key=${at} style=${{ height: LINE_HEIGHT }}><span class="sign">${sign}</span><span class="code">${line.text}</span></div>`;
  };
  if (lines.length > WHOLE_LINES_MAX) {
    return html`<${VirtualRows} count=${lines.length} height=${LINE_HEIGHT} row=${row} attributes=${{ class: "yaml", tabindex: 0, role: "region", "aria-label": label }} />`;
  }
  return html`<div class="yaml diff" tabindex="0" role="region" aria-label=${label}>${lines.map((_, at) => row(at))}</div>`;
}

/**
 * A colour that a name always has.
 * @param {string} name
 */
export function colourOf(name) {
  let hash = 7;
  for (const character of name) hash = (hash * 31 + character.charCodeAt(0)) % 360;
  return `hsl(${hash} 65% 50%)`;
}
