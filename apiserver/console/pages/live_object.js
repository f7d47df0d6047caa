/** One object, or the few of a list, kept up to date. */
import { ApiError, getJson } from "./api.js";
import { collectionPath, objectPath } from "./resource_types.js";
import { isTransient, Retries } from "./retries.js";
import { signal, useEffect, useLayoutEffect, useMemo, useState } from "./vendor/preact.js";
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
    /** The page goes on by itself once the server can be reached again. */
    this.retries = new Retries(() => this.load());
    void this.load();
  }

  /** Reads it again because somebody wants that, who sees that it has begun. */
  retry() {
    this.error.value = null;
    void this.load();
  }

  async load() {
    this.stop();
    this.retries.stop();
    const number = ++this.loads;
    try {
      const object = await getJson(objectPath(this.type, this.namespace, this.name));
      if (this.isClosed || number !== this.loads) return;
      this.retries.done();
      this.error.value = null;
      this.isDeleted.value = false;
      this.value.value = object;
      if (this.type.verbs.includes("watch")) this.follow(object.metadata.resourceVersion);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (this.isClosed || number !== this.loads) return;
      const isDeleted = error.code === 404 && this.value.value;
      if (isDeleted) this.isDeleted.value = true;
      this.error.value = isDeleted ? null : error;
      if (isTransient(error.code)) this.retries.again(error);
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
    this.retries.stop();
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

/**
 * The objects of a short list, as they are now.
 * @param {string} path of the collection, with its selectors
 * @returns {{items: any[] | null, error: unknown}}
 */
export function useLiveItems(path) {
  const [state, setState] = useState(
    /** @type {{items: any[] | null, error: unknown}} */ ({ items: null, error: null }),
  );
  useEffect(() => {
    const abort = new AbortController();
    const { signal } = abort;
    /** @type {Map<string, any>} */
    const byUid = new Map();
    let stop = () => {};
    const draw = () => setState({ items: [...byUid.values()], error: null });
    const load = () => read().catch(fail);
    const retries = new Retries(load);
    const fail = (/** @type {unknown} */ error) => {
      if (signal.aborted) return;
      setState({ items: null, error });
      if (error instanceof ApiError && isTransient(error.code)) retries.again(error);
    };
    const read = async () => {
      const list = await getJson(path, { signal });
      if (signal.aborted) return;
      retries.done();
      byUid.clear();
      for (const item of list.items) byUid.set(item.metadata.uid, item);
      draw();
      stop = watch({
        path,
        resourceVersion: list.metadata.resourceVersion,
        onEvent: (type, object) => {
          if (type === "DELETED") byUid.delete(object.metadata.uid);
          else byUid.set(object.metadata.uid, object);
          draw();
        },
        // Who may not watch sees them as they were read.
        onEnd: ({ code }) => void (code === 410 && load()),
      });
    };
    void load();
    return () => {
      abort.abort();
      retries.stop();
      stop();
    };
  }, [path]);
  return state;
}
