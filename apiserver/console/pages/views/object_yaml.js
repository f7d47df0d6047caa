/** The YAML of an object, and who owns each line of it. */
import { getText, YAML } from "../api.js";
import { ErrorNotice, Loading, useLoaded } from "../elements.js";
import { moment } from "../format.js";
import { Owners } from "../managed_fields.js";
import { html, useMemo, useRef, useState } from "../vendor/preact.js";
import { withoutMetadata } from "../yaml_lines.js";
import { colourOf, YamlView } from "../yaml_view.js";

/** @param {{object: any, path: string}} props */
export function YamlTab({ object, path }) {
  const { value: text, error } = useLoaded(
    (signal) => getText(path, { accept: YAML, signal }),
    [path, object.metadata.resourceVersion],
  );
  // Of an object that has been deleted, its last state stays.
  const last = useRef("");
  if (text !== null) last.current = text;
  const [copied, setCopied] = useState("Copy");
  const [isWhole, setIsWhole] = useState(false);
  const [hasOwners, setHasOwners] = useState(true);
  const owners = useMemo(() => new Owners(object), [object]);
  if (error && !last.current) return html`<${ErrorNotice} error=${error} />`;
  if (!last.current) return html`<${Loading} />`;
  const shown = isWhole ? last.current : withoutMetadata(last.current, ["managedFields"]);
  const copy = () =>
    navigator.clipboard.writeText(shown).then(
      () => setCopied("Copied"),
      () => setCopied("The browser did not allow it"),
    );
  const margin = (/** @type {import("../yaml_lines.js").Line} */ { path: where }) => {
    const [owner, ...others] = owners.of(where);
    if (!owner) return null;
    const all = [owner, ...others];
    return {
      name: all.map(({ manager }) => manager).join(", "),
      title: all
        .map(
          (each) =>
            `${each.manager}: ${each.operation}${each.subresource ? ` of ${each.subresource}` : ""}, ${moment(each.time)}`,
        )
        .join("\n"),
      colour: colourOf(owner.manager),
    };
  };
  return html`<div class="bar">
      <label class="check"><input type="checkbox" checked=${hasOwners} onChange=${() => setHasOwners(!hasOwners)} />who owns each line</label>
      <label class="check"><input type="checkbox" checked=${isWhole} onChange=${() => setIsWhole(!isWhole)} />managedFields</label>
      <button onClick=${copy}>${copied}</button>
    </div>
    <${YamlView} text=${shown} label="YAML" margin=${hasOwners ? margin : undefined} />`;
}
