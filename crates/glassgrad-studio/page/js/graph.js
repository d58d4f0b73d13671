// The graph, in the layout of the library, with the values after a number of steps.

import { h, setText, svg } from "./dom.js";
import { Zoom } from "./zoom.js";

const LINE = 17;

export class Graph {
  constructor(host, chosen) {
    this.host = host;
    this.chosen = chosen;
    this.key = null;
    this.zoom = new Zoom(host, "graph");
    host.previousElementSibling.append(this.zoom.bar);
  }

  // Draws anew only where the structure is another; numbers change in place.
  show(answer) {
    const { plan, nodes } = answer;
    const key = JSON.stringify([plan.nodes, plan.edges.map((edge) => edge.path), nodes.map((node) => node.label)]);
    if (key === this.key) return;
    this.key = key;
    const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      svg("path", { class: "arrow", d: "M0 0 L8 4 L0 8 z" }));
    this.edges = plan.edges.map((edge) => {
      const path = svg("path", { class: "edge", d: edge.path, "marker-end": "url(#arrow)" });
      const label = svg("text", { class: "partial", x: edge.x, y: edge.y + 4.5 });
      return { ...edge, element: svg("g", { class: edge.passes ? "link" : "link pale" }, path, label), text: label };
    });
    this.nodes = plan.nodes.map((box, place) => this.box(box, nodes[place], place));
    this.picture = svg("svg", { viewBox: `0 0 ${plan.width} ${plan.height}`, role: "img", "aria-label": `Graph of ${answer.expression}` },
      svg("defs", {}, arrow), ...this.edges.map((edge) => edge.element), ...this.nodes.map((node) => node.element));
    this.host.replaceChildren(this.picture);
    this.zoom.show(this.picture, [plan.width, plan.height]);
  }

  box(box, node, place) {
    const middle = box.left + box.width / 2;
    const line = (kind, number) => svg("text", { class: kind, x: middle, y: box.top + 3.5 + LINE * (number + 0.5) + 4.5 });
    const [head, value, adjoint] = [line("name", 0), line("value", 1), line("adjoint", 2)];
    head.textContent = node.expression === "input" ? node.label : `${node.label} = ${node.expression}`;
    const element = svg("g", { class: `node ${box.role}`, "data-node": place, onclick: () => this.chosen(place) },
      svg("rect", { x: box.left, y: box.top, width: box.width, height: box.height, rx: 8 }), head, value, adjoint);
    return { element, value, adjoint, box };
  }

  // Shows what is known after the first steps of a list.
  paint(answer, steps, done) {
    const mark = answer.mode === "forward" ? "\u0307" : "\u0304";
    const adjoints = new Map();
    const values = new Set();
    for (const step of steps.slice(0, done)) {
      if (step.kind !== "adjoint") values.add(step.node);
      if (step.kind !== "value") adjoints.set(step.node, step.shown);
    }
    const now = done > 0 ? steps[done - 1] : null;
    this.nodes.forEach(({ element, value, adjoint }, place) => {
      const { label, shown } = answer.nodes[place];
      setText(value, values.has(place) ? shown : "");
      const [first, ...rest] = label;
      setText(adjoint, adjoints.has(place) ? `${first}${mark}${rest.join("")} = ${adjoints.get(place)}` : "");
      element.classList.toggle("now", now?.node === place);
      element.classList.toggle("through", now?.through === place);
      element.classList.toggle("known", values.has(place));
      adjoint.classList.toggle("tangent", answer.mode === "forward");
    });
    this.edges.forEach((edge, place) => {
      setText(edge.text, values.has(edge.to) ? answer.plan.edges[place].partial : "");
      const isUsed = now && (now.kind === "adjoint" ? edge.from === now.node && edge.to === now.through : edge.to === now.node);
      edge.element.classList.toggle("now", Boolean(isUsed && edge.passes));
    });
    if (now) this.reveal(this.nodes[now.node].box);
  }

  // Moves the graph inside of its frame, never the page.
  reveal(box) {
    const { host, zoom: { scale } } = this;
    if (host.scrollWidth <= host.clientWidth || host.clientWidth === 0) return;
    const [left, right] = [box.left * scale - 20, (box.left + box.width) * scale + 20];
    if (left < host.scrollLeft) host.scrollLeft = left;
    else if (right > host.scrollLeft + host.clientWidth) host.scrollLeft = right - host.clientWidth;
  }
}

export function legend(host, mode) {
  const entry = (kind, text) => h("li", { class: kind }, text);
  host.replaceChildren(entry("value", "value"), mode === "forward" ? entry("tangent", "tangent") : entry("adjoint", "adjoint"), entry("partial", "local partial"));
}
