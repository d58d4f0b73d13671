// A run of the studio: its stream of updates, and commands to it.

import { ask, get, post, remove } from "../api.js";
import { watch } from "../host.js";

// The latest message of each kind; the listener is called once a frame with what has changed.
export class Run {
  constructor(id, changed) {
    this.id = id;
    this.latest = {};
    this.changed = changed;
    this.fresh = new Set();
    this.frame = null;
    this.isLeft = false;
    this.updates = watch(id, (text) => this.take(JSON.parse(text)));
  }

  take({ kind, data }) {
    this.latest[kind] = data;
    // A deleted run has no more updates.
    if (kind === "freed") this.updates?.close();
    this.fresh.add(kind);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      const fresh = this.fresh;
      this.fresh = new Set();
      if (!this.isLeft) this.changed(fresh, this.latest);
    });
  }

  command(command) {
    return post(`/api/runs/${this.id}/command`, command);
  }

  inspect(request) {
    return ask(`/api/runs/${this.id}/inspect`, request);
  }

  leave() {
    this.isLeft = true;
    this.updates.close();
  }
}

export const free = (id) => remove(`/api/runs/${id}`);

export const runs = async () => (await get("/api/runs")).runs || [];
