/**
 * The YAML editor, with completion by the schema of a type. It is in a shadow root: there CodeMirror's styles are
 * set by script, which the page's policy allows, rather than as elements, which it does not.
 */
import { typeText } from "./openapi.js";
import { html, useEffect, useRef } from "./vendor/preact.js";
import { scan } from "./yaml_lines.js";

const THEME = {
  "&": { height: "100%", fontSize: "12.5px", backgroundColor: "var(--card)", color: "var(--text)" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "19px" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": {
    backgroundColor: "var(--card)",
    color: "var(--muted)",
    borderRight: "1px solid var(--line)",
  },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--current)",
  },
  ".cm-tooltip, .cm-panels": {
    backgroundColor: "var(--card)",
    color: "var(--text)",
    border: "1px solid var(--line)",
  },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--current)",
    color: "var(--text)",
  },
  ".cm-completionInfo": { maxWidth: "34em", whiteSpace: "pre-wrap" },
  ".cm-searchMatch": { backgroundColor: "var(--added)" },
};

/**
 * @param {object} props
 * @param {string} props.text at first
 * @param {(text: string) => void} props.onChange
 * @param {() => void} props.onReview Ctrl-Enter was pressed
 * @param {() => void} props.onSave Ctrl-S was pressed
 * @param {() => void} props.onLeave Escape was pressed: as Tab indents, the focus has to leave otherwise
 * @param {Promise<import("./openapi.js").TypeSchema>} props.schema
 */
export function YamlEditor({ text, onChange, onReview, onSave, onLeave, schema }) {
  const host = useRef(/** @type {HTMLElement | null} */ (null));
  const calls = useRef({ onChange, onReview, onSave, onLeave });
  calls.current = { onChange, onReview, onSave, onLeave };
  useEffect(() => {
    /** @type {any} */
    let view = null;
    let isGone = false;
    void import("./vendor/codemirror.js").then((cm) => {
      if (isGone || !host.current) return;
      const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
      const highlighting = cm.HighlightStyle.define([
        { tag: [cm.tags.propertyName, cm.tags.definition(cm.tags.propertyName)], color: "var(--link)" },
        { tag: [cm.tags.number, cm.tags.bool, cm.tags.null], color: "var(--waiting)" },
        { tag: cm.tags.comment, color: "var(--muted)" },
      ]);
      const run = (/** @type {"onReview" | "onSave" | "onLeave"} */ name) => () => {
        calls.current[name]();
        return true;
      };
      view = new cm.EditorView({
        root,
        parent: root,
        state: cm.EditorState.create({
          doc: text,
          extensions: [
            cm.keymap.of([
              { key: "Mod-Enter", run: run("onReview") },
              { key: "Mod-s", run: run("onSave") },
            ]),
            cm.basicSetup,
            cm.keymap.of([cm.indentWithTab, { key: "Escape", run: run("onLeave") }]),
            cm.yaml(),
            cm.syntaxHighlighting(highlighting),
            cm.autocompletion({ override: [(/** @type {any} */ context) => complete(context, schema)] }),
            cm.EditorView.theme(THEME),
            cm.EditorView.contentAttributes.of({ "aria-label": "YAML", tabindex: "0" }),
            cm.EditorView.updateListener.of((/** @type {any} */ update) => {
              if (update.docChanged) calls.current.onChange(update.state.doc.toString());
            }),
          ],
        }),
      });
      view.focus();
    });
    return () => {
      isGone = true;
      view?.destroy();
    };
  }, [text]);
  return html`<div class="editor" ref=${host}></div>`;
}

/**
 * Proposes the fields, or the values, that may stand where somebody writes.
 * @param {any} context
 * @param {Promise<import("./openapi.js").TypeSchema>} schema
 */
async function complete(context, schema) {
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const found =
    /^(\s*(?:- +)*)([\w./-]*)$/.exec(before) ?? /^(\s*(?:- +)*)[\w./-]+: +([\w./-]*)$/.exec(before);
  if (!found || (!found[2] && !context.explicit)) return null;
  const isValue = before.includes(": ");
  const of = await schema;
  // The place is that of a field with this indentation, whatever stands in the line so far.
  const above = context.state.doc.sliceString(0, line.from);
  const placed = scan(`${above}${isValue ? before : `${found[1]}x:`}`);
  const path = placed[placed.length - 1].path;
  const schemaHere = of.at(isValue ? path : path.slice(0, -1));
  const from = context.pos - found[2].length;
  if (isValue) {
    const values = schemaHere.enum ?? (schemaHere.type === "boolean" ? [true, false] : []);
    return values.length
      ? {
          from,
          options: values.map((/** @type {any} */ each) => ({ label: String(each), type: "constant" })),
        }
      : null;
  }
  const options = Object.entries(schemaHere.properties ?? {}).map(([name, schema]) => {
    const resolved = of.resolve(schema);
    return {
      label: name,
      type: "property",
      detail: typeText(resolved),
      info: resolved.description,
      apply: resolved.type === "object" || resolved.type === "array" ? `${name}:` : `${name}: `,
    };
  });
  return options.length ? { from, options, validFor: /^[\w./-]*$/ } : null;
}
