// A graph with its lines of text, at the places that the library laid out.

import { h, svg } from "./dom.js";
import { Zoom } from "./zoom.js";

const LINE = 17;

function boxes(plan, chosen) {
  const line = (box) => ({ kind, text }, number) =>
    svg("text", { class: kind, x: box.left + box.width / 2, y: box.top + 3.5 + LINE * (number + 0.5) + 4.5 }, text);
  const node = (box, place) => svg("g", { class: `node ${box.role}`, "data-node": place, onclick: chosen ? () => chosen(place) : null },
    svg("rect", { x: box.left, y: box.top, width: box.width, height: box.height, rx: 8 }), ...box.lines.map(line(box)),
    box.inside ? svg("g", { transform: `translate(${box.inside.left} ${box.inside.top})` }, ...boxes(box.inside, null)) : null);
  return [...plan.edges.map((edge) => svg("path", { class: "edge", d: edge.path, "marker-end": "url(#plan-arrow)" })), ...plan.nodes.map(node)];
}

// A click on a box selects it, if there is a listener.
export function planned(plan, label, chosen = null) {
  const arrow = svg("marker", { id: "plan-arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { class: "arrow", d: "M0 0 L8 4 L0 8 z" }));
  const picture = svg("svg", { viewBox: `0 0 ${plan.width} ${plan.height}`, width: plan.width, height: plan.height, role: "img", "aria-label": label }, svg("defs", {}, arrow), ...boxes(plan, chosen));
  const frame = h("div", { class: "graph scroll", tabindex: "0" }, picture);
  const zoom = new Zoom(frame, label);
  zoom.show(picture, [plan.width, plan.height]);
  return h("div", {}, frame, zoom.bar);
}
