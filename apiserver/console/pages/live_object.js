/** One object, kept up to date. */
import { ApiError, getJson } from "./api.js";
import { collectionPath, objectPath } from "./resource_types.js";
import { signal, useLayoutEffect, useMemo } from "./vendor/preact.js";
import { watch } from "./watches.js";

/** @typedef {import("./resource_types.js").ResourceType} ResourceType */

export class LiveObject {
  /**
   * @param {ResourceType} type
   * @param {string} namespace
   * @param {string} name
   */
  constructor(type, namespace, name) {
    this.type = type;
    this.namespace = namespace;
    this.name = name;
    /** The object as it is now, or as it was when it was deleted. */
    this.value = signal(/** @type {any} */ (null));
    this.isDeleted = signal(false);
    this.error = signal(/** @type {ApiError | null} */ (null));
    this.stop = () => {};
    this.isClosed = false;
    this.loads = 0;
    void this.load();
  }

  async load() {
    this.stop();
    this.error.value = null;
    const number = ++this.loads;
    try {
      const object = await getJson(objectPath(this.type, this.namespace, this.name));
      if (this.isClosed || number !== this.loads) return;
      this.error.value = null;
      this.isDeleted.value = false;
      this.value.value = object;
      if (this.type.verbs.includes("watch")) this.follow(object.metadata.resourceVersion);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (this.isClosed || number !== this.loads) return;
      if (error.code === 404 && this.value.value) this.isDeleted.value = true;
      else this.error.value = error;
    }
  }

  /** @param {string} resourceVersion */
  follow(resourceVersion) {
    const selector = encodeURIComponent(`metadata.name=${this.name}`);
    this.stop = watch({
      path: `${collectionPath(this.type, this.namespace)}?fieldSelector=${selector}`,
      resourceVersion,
      onEvent: (type, object) => {
        this.value.value = object;
        this.isDeleted.value = type === "DELETED";
      },
      onEnd: (error) => {
        if (error.code === 410) void this.load();
        // Who may not watch sees the object as it was read.
        else if (error.code !== 403) this.error.value = error;
      },
    });
  }

  close() {
    this.isClosed = true;
    this.stop();
  }
}

/**
 * @param {ResourceType} type
 * @param {string} namespace
 * @param {string} name
 */
export function useObject(type, namespace, name) {
  const live = useMemo(() => new LiveObject(type, namespace, name), [type, namespace, name]);
  useLayoutEffect(() => () => live.close(), [live]);
  return live;
}
