// kubernetes-client: learns the API from /openapi/v2; creates, patches, watches and deletes. Prints what it saw.
// usage: node godaddy.cjs NAMESPACE; KUBECONFIG is in the environment.
const { Client, KubeConfig } = require("kubernetes-client");
const Request = require("kubernetes-client/backends/request");

async function main() {
  const kubeconfig = new KubeConfig();
  kubeconfig.loadFromFile(process.env.KUBECONFIG);
  const client = new Client({ backend: new Request({ kubeconfig }) });
  await client.loadSpec();
  const namespace = client.api.v1.namespaces(process.argv[2]);

  const created = await namespace.configmaps.post({ body: { metadata: { name: "a", labels: { l: "1" } }, data: { k: "v" } } });
  const listed = await namespace.configmaps.get({ qs: { labelSelector: "l=1" } });
  const patched = await namespace.configmaps("a").patch({ body: { data: { n: "2" } } });
  const events = await client.api.v1.watch.namespaces(process.argv[2]).configmaps.getObjectStream({
    qs: { resourceVersion: created.body.metadata.resourceVersion },
  });
  const seen = [];
  const all = new Promise((resolve, reject) => {
    events.on("error", reject);
    events.on("data", (event) => {
      seen.push([event.type, event.object.metadata.name]);
      if (event.type === "DELETED") resolve();
    });
  });
  const deleted = await namespace.configmaps("a").delete();
  await all;
  const gone = await namespace.configmaps("a").get().then(() => 200, (error) => error.statusCode);
  const deployments = await client.apis.apps.v1.namespaces(process.argv[2]).deployments.get();

  console.log(JSON.stringify({
    statuses: [created, listed, patched, deleted, deployments].map((each) => each.statusCode),
    listed: listed.body.items.map((each) => each.metadata.name),
    patched: patched.body.data,
    gone,
    seen,
  }));
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
