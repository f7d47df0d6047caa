# kubeclient: creates, lists in pages, patches in three ways, watches and deletes. Prints what it saw as JSON.
# usage: ruby kubeclient.rb NAMESPACE; KUBECONFIG is in the environment.
require "json"
require "kubeclient"

namespace = ARGV.fetch(0)
context = Kubeclient::Config.read(ENV.fetch("KUBECONFIG")).context
client = Kubeclient::Client.new(
  context.api_endpoint, "v1", ssl_options: context.ssl_options, auth_options: context.auth_options
)

def config_map(name, namespace)
  Kubeclient::Resource.new(metadata: { name: name, namespace: namespace, labels: { l: "1" } }, data: { k: "v" })
end

%w[a b c].each { |name| client.create_config_map(config_map(name, namespace)) }
pages = []
continue = nil
loop do
  page = client.get_config_maps(namespace: namespace, label_selector: "l=1", limit: 2, continue: continue)
  pages << page.map { |each| each.metadata.name }
  continue = page.continue
  break if page.last?
end

seen = []
start = client.get_config_maps(namespace: namespace).resourceVersion
watcher = Thread.new do
  client.watch_config_maps(namespace: namespace, resource_version: start) do |notice|
    seen << [notice.type, notice.object.metadata.name]
    break if notice.type == "DELETED"
  end
end
client.patch_config_map("a", { data: { s: "strategic" } }, namespace)
client.merge_patch_config_map("a", { data: { m: "merge" } }, namespace)
patched = client.json_patch_config_map("a", [{ op: "add", path: "/data/j", value: "json" }], namespace)
client.delete_config_map("a", namespace)
watcher.join
gone = begin
  client.get_config_map("a", namespace)
  200
rescue Kubeclient::ResourceNotFoundError => error
  error.error_code
end
puts JSON.generate(pages: pages, patched: patched.data.to_h, seen: seen, gone: gone)
