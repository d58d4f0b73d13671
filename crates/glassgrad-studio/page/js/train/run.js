// A run on the server: its stream of updates, and commands to it.

import { ask, get, post } from "../api.js";

// The latest message of each kind; the listener is called once a frame with what has changed.
export class Run {
  constructor(id, changed) {
    this.id = id;
    this.latest = {};
    this.changed = changed;
    this.fresh = new Set();
    this.frame = null;
    this.isLeft = false;
    this.connect();
  }

  connect() {
    const own = new URL(`/api/runs/${this.id}/stream`, location.href);
    own.protocol = own.protocol.replace("http", "ws");
    this.socket = new WebSocket(own);
    this.socket.onmessage = ({ data }) => this.take(JSON.parse(data));
    this.socket.onclose = () => {
      if (this.isLeft || this.latest.freed !== undefined) return;
      // The server may only have been out of reach for a moment.
      setTimeout(() => this.isLeft || this.connect(), 1000);
    };
  }

  take({ kind, data }) {
    this.latest[kind] = data;
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
    this.socket.close();
  }
}

export const free = (id) => fetch(`/api/runs/${id}`, { method: "DELETE" }).catch(() => null);

export const runs = async () => (await get("/api/runs")).runs || [];
