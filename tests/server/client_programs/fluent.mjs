// kubernetes-fluent-client: creates, applies, patches, watches and deletes. Prints what it saw as JSON.
// usage: node fluent.mjs NAMESPACE; KUBECONFIG is in the environment.
import { K8s, kind } from "kubernetes-fluent-client";

const namespace = process.argv[2];
const here = () => K8s(kind.ConfigMap).InNamespace(namespace);
const seen = [];
let onDeleted;
const deleted = new Promise((resolve) => { onDeleted = resolve; });

const watcher = here().Watch((object, phase) => {
  seen.push([phase, object.metadata.name]);
  if (phase === "DELETED") onDeleted();
});
await watcher.start();

const created = await K8s(kind.ConfigMap).Create({ metadata: { name: "a", namespace, labels: { l: "1" } }, data: { k: "v" } });
const applied = await K8s(kind.ConfigMap).Apply({ metadata: { name: "a", namespace }, data: { k: "applied" } }, { force: true });
const patched = await K8s(kind.ConfigMap, { name: "a", namespace }).Patch([{ op: "add", path: "/data/n", value: "2" }]);
const listed = await here().WithLabel("l", "1").Get();
const read = await here().Get("a");
await here().Delete("a");
await deleted;
const gone = await here().Get("a").then(() => 200, (error) => error.status);
watcher.close();

console.log(JSON.stringify({
  uids: new Set([created, applied, patched, read].map((each) => each.metadata.uid)).size,
  applied: applied.data,
  patched: patched.data,
  listed: listed.items.map((each) => each.metadata.name),
  gone,
  seen,
}));
process.exit(0);
