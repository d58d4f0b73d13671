// What is data of a network while it learns: a function for each view, from what the server has sent to elements.
//
// `fixed` is what was sent once, `data` what is sent repeatedly. `choose` is called with the selected item.

import { counted, h, svg, table } from "../dom.js";
import { bitmap, bytes, classes, grey, heat, repaint, signed } from "./paint.js";
import { key, plot, short, ticks } from "./plot.js";

// Their titles, in the order in which they are shown, and the column they stand in: cards that never move can be watched.
export const VIEWS = {
  boundary: ["Decision boundary", 0], fitted: ["Fitted curve", 0], diagram: ["Network", 1], images: ["Predictions", 0], errors: ["Predicted against actual", 0],
  confusion: ["Confusion matrix", 0], weights: ["Weights", 1], histograms: ["Weight and gradient norms by layer", 0],
};

const percent = (part) => `${(100 * part).toFixed(part > 0.0995 ? 0 : 1)} %`;

// The plane with its points. The canvas is kept, so that only colours change.
export function boundary({ fixed, data, kept, choose }) {
  const [predicted, certainty] = [bytes(data.class), bytes(data.certainty)];
  if (kept.canvas) {
    repaint(kept.canvas, classes(predicted, certainty));
    return null;
  }
  const { across: [left, right], up: [low, high], places, names } = fixed;
  kept.canvas = bitmap(places, places, classes(predicted, certainty), { class: "plane" });
  const [x, y] = [(value) => (1000 * (value - left)) / (right - left), (value) => (1000 * (high - value)) / (high - low)];
  const dot = (part, own, r) => own.x.map((value, k) => svg("circle", {
    class: `point ${part} k${own.class[k] % 10}`, cx: x(value).toFixed(1), cy: y(own.y[k]).toFixed(1), r, onclick: () => choose?.({ part, index: own.index[k] }),
  }));
  const points = svg("svg", { class: "points", viewBox: "0 0 1000 1000", role: "img", "aria-label": "Training examples as dots, test examples as rings" },
    ...dot("training", fixed.training, 7), ...dot("test", fixed.test, 7));
  const axis = (name, ends) => `${name} from ${short(ends[0])} to ${short(ends[1])}`;
  return h("figure", {}, key(names.map((name, k) => [k % 10, `class ${name}`])), h("div", { class: "stack" }, kept.canvas, points),
    h("p", { class: "note" }, `${axis(fixed.features[0], fixed.across)}, ${axis(fixed.features[1], fixed.up)}. Dots are training examples, rings test examples. Click one to inspect it.`));
}

// Units as pictures or circles, edges as wide as their weights. Everything is kept, and only colours and widths change.
export function diagram({ fixed, data, kept, choose }) {
  const { inputs, all, shown, places, examples } = fixed;
  const [UNIT, HIGH] = [36, 44];
  const most = Math.max(...shown.map((layer) => layer.length));
  const [wide, high] = [100 * (shown.length - 1) + 130, HIGH * most + 34];
  const x = (layer) => 48 + 100 * layer;
  const y = (layer, unit) => 30 + HIGH * (unit + 0.5 + (most - shown[layer].length) / 2);
  if (!kept.edges) {
    kept.edges = data.layers.map((_, layer) => shown[layer].map((_own, from) => shown[layer + 1].map((_other, to) => {
      const [x0, y0, x1, y1] = [x(layer) + UNIT / 2, y(layer, from), x(layer + 1) - UNIT / 2, y(layer + 1, to)];
      return svg("path", { d: `M${x0} ${y0}C${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}`,
        onclick: () => choose?.({ path: `layers.${layer}.weight`, place: [shown[layer][from], shown[layer + 1][to]] }) });
    })));
    kept.units = data.layers.map((_, layer) => shown[layer + 1].map((_own, unit) => (places
      ? bitmap(places, places, () => [0, 0, 0], { class: "unit", "aria-hidden": "true" })
      : svg("circle", { class: "unit", cx: x(layer + 1), cy: y(layer + 1, unit), r: UNIT / 2 - 2 }))));
  }
  data.layers.forEach(({ units, sizes, weights, scale }, layer) => {
    const cells = bytes(weights);
    const largest = Math.max(...sizes.filter((size) => typeof size === "number"), 1e-300);
    kept.edges[layer].flat().forEach((edge, k) => {
      const part = cells[k] === 0 ? 0 : (cells[k] - 128) / 127;
      edge.setAttribute("class", `edge-of-unit k${part >= 0 ? 0 : 1}`);
      edge.setAttribute("stroke-width", (0.4 + 4.6 * Math.abs(part)).toFixed(2));
      edge.setAttribute("stroke-opacity", (0.15 + 0.75 * Math.abs(part)).toFixed(2));
      edge.setAttribute("data-weight", short(part * Number(scale)));
    });
    kept.units[layer].forEach((unit, k) => {
      if (places) repaint(unit, signed(bytes(units[k].cells)));
      else unit.setAttribute("fill-opacity", String(0.08 + 0.92 * ((Number(sizes[k]) || 0) / largest)));
    });
  });
  if (kept.figure) return null;
  const canvases = places ? kept.units.flatMap((layer, number) => layer.map((canvas, unit) => {
    canvas.style.left = `${(100 * (x(number + 1) - UNIT / 2)) / wide}%`;
    canvas.style.top = `${(100 * (y(number + 1, unit) - UNIT / 2)) / high}%`;
    canvas.style.width = `${(100 * UNIT) / wide}%`;
    return canvas;
  })) : [];
  const heads = shown.map((layer, number) => svg("text", { class: "tick", x: x(number), y: 16, "text-anchor": "middle" },
    `${number === 0 ? "inputs" : number === shown.length - 1 ? "outputs" : `layer ${number}`}${layer.length < all[number] ? `: ${layer.length} of ${all[number]}` : ""}`));
  const cut = (name) => (name.length > 9 ? `${name.slice(0, 8)}…` : name);
  const names = shown[0].map((_, unit) => svg("g", {}, svg("rect", { class: "input", x: x(0) - 40, y: y(0, unit) - 14, width: 58, height: 28, rx: 6 }),
    svg("text", { class: "tick", x: x(0) - 11, y: y(0, unit) + 5, "text-anchor": "middle" }, cut(inputs[unit] ?? String(unit)))));
  const label = `Network of ${all.join(", ")} units; edges are as wide as their weights`;
  const drawn = svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": label }, ...kept.edges.flat(2), ...heads, ...names, ...(places ? [] : kept.units.flat()));
  const meaning = places ? "Each square is the activation of a unit over the plane: blue positive, orange negative." : `The darker a unit, the larger its activation (root mean square of ${counted(examples, "test example")}).`;
  kept.figure = h("figure", {}, h("div", { class: "diagram" }, drawn, ...canvases), h("p", { class: "note" }, `${meaning} Edges are as wide as their weights; click one to inspect its last update.`));
  return kept.figure;
}

export function fitted({ fixed, data }) {
  const bands = data.deviation ? data.predicted.map((predicted, k) => ({ at: fixed.x, low: predicted.map((value, j) => value - data.deviation[k][j]), high: predicted.map((value, j) => value + data.deviation[k][j]), colour: k + 1 })) : [];
  const dots = fixed.training.y.flatMap((y, k) => [{ at: fixed.training.x, value: y, colour: k }, { at: fixed.test.x, value: fixed.test.y[k], colour: 9 }]);
  return h("figure", {}, key([[1, data.deviation ? "prediction ± standard deviation" : "prediction"], [0, "training"], [9, "test"]]),
    plot({ label: "Prediction and examples", across: fixed.feature, up: fixed.names.join(", "), bands, dots, curves: data.predicted.map((value, k) => ({ at: fixed.x, value, colour: k + 1 })) }));
}

export function images({ fixed, data, choose }) {
  const one = (example, k) => {
    const [predicted, shares] = [data.predicted[k], data.shares[k]];
    const isRight = predicted === example.class;
    const bars = h("ol", { class: "shares", "aria-hidden": "true" }, ...shares.map((share, place) => h("li", { class: place === predicted ? "predicted" : "" }, bar(share))));
    return h("button", { type: "button", class: `digit ${isRight ? "right" : "wrong"}`, onclick: () => choose?.({ part: "test", index: example.index }),
      "aria-label": `Actual ${fixed.names[example.class]}, predicted ${fixed.names[predicted]}` },
    bitmap(fixed.width, fixed.height, grey(bytes(example.pixels))), h("span", {}, `${fixed.names[predicted]} · ${percent(shares[predicted])}`), bars);
  };
  return h("figure", {}, h("div", { class: "digits" }, ...fixed.examples.map(one)),
    h("p", { class: "note" }, fixed.probabilities ? "Below each image: the predicted class with its probability, and bars for all classes." : "Below each image: the predicted class. This loss yields no probabilities; the bars are normalized scores."));
}

const bar = (share) => {
  const own = h("i");
  own.style.height = `${Math.max(2, 100 * (Number(share) || 0))}%`;
  return own;
};

export function errors({ fixed, data }) {
  const dots = fixed.true.map((at, k) => ({ at, value: data.predicted[k], colour: k }));
  const [low, high] = [Math.min(...fixed.true.flat()), Math.max(...fixed.true.flat())];
  return h("figure", {}, key(fixed.names.map((name, k) => [k, name])),
    plot({ label: "Predicted against actual", across: "actual", up: "predicted", dots, curves: [{ at: [low, high], value: [low, high], colour: 9, dashed: true }] }));
}

export function confusion({ fixed, data }) {
  const counts = new Map(data.counts.map(([own, predicted, count]) => [`${own} ${predicted}`, count]));
  const most = Math.max(1, ...data.counts.map(([, , count]) => count));
  const cell = (own, predicted) => {
    const count = counts.get(`${own} ${predicted}`) || 0;
    const td = h("td", { class: own === predicted ? "n same" : "n other" }, count ? String(count) : "·");
    td.style.setProperty("--part", String(count / most));
    return td;
  };
  const head = fixed.names.map((name) => h("th", { scope: "col" }, name));
  return h("figure", {}, h("div", { class: "scroll", tabindex: "0" }, h("table", { class: fixed.names.length > 6 ? "confusion many" : "confusion" },
    h("caption", {}, `${data.right} of ${fixed.examples} correct`),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "actual \\ predicted"), ...head)),
    h("tbody", {}, ...fixed.names.map((name, own) => h("tr", {}, h("th", { scope: "row" }, name), ...fixed.names.map((_, predicted) => cell(own, predicted))))))));
}

export function weights({ data, choose }) {
  const units = data.units && h("div", {}, h("h3", {}, data.units.what === "kernels" ? "Kernels of the first layer" : "Weights of first-layer units"),
    h("div", { class: "tiles" }, ...data.units.tiles.map(({ cells }) => bitmap(data.units.width, data.units.height, signed(bytes(cells))))));
  const matrix = ({ path, shape, rows, columns, step, cells, scale }) => {
    const canvas = bitmap(columns, rows, signed(bytes(cells)), { class: "matrix" });
    canvas.style.height = `${Math.max(14, Math.min(14 * rows, 220))}px`;
    const pick = (event) => {
      const box = canvas.getBoundingClientRect();
      const cell = (part, count) => Math.min(Math.max(Math.floor(part * count), 0), count - 1);
      const [row, column] = [cell((event.clientY - box.top) / box.height, rows) * step[0], cell((event.clientX - box.left) / box.width, columns) * step[1]];
      choose?.({ path, place: placeOf(shape, row, column) });
    };
    canvas.addEventListener("click", pick);
    return h("li", {}, h("button", { type: "button", class: "path", onclick: () => choose?.({ path, place: shape.map(() => 0) }) }, path),
      h("span", { class: "note" }, `${shape.join(" × ")}, up to ${short(scale)}`), canvas);
  };
  return h("figure", {}, units || "", h("ul", { class: "matrices" }, ...data.parameters.map(matrix)),
    h("p", { class: "note" }, "Blue is positive, orange negative. Click a weight to see its last update."));
}

// The rows are the first axis, the columns all others; a vector is one row.
function placeOf(shape, row, column) {
  if (shape.length < 2) return shape.map(() => column);
  const place = [];
  let rest = column;
  for (const extent of shape.slice(1).reverse()) {
    place.unshift(rest % extent);
    rest = Math.floor(rest / extent);
  }
  return [row, ...place];
}

export function histograms({ data }) {
  const bars = ({ low, high, counts, lost }, colour) => {
    const most = Math.max(1, ...counts);
    const columns = counts.map((count, k) => svg("rect", { class: `k${colour}`, x: 4 + (k * 192) / counts.length, width: 192 / counts.length - 1, y: 44 - (40 * count) / most, height: (40 * count) / most }));
    const predicted = [svg("text", { class: "tick", x: 2, y: 61 }, short(low)), svg("text", { class: "tick", x: 198, y: 61, "text-anchor": "end" }, lost ? `${lost} not finite` : short(high))];
    return svg("svg", { class: "histogram", viewBox: "0 0 200 64", "aria-hidden": "true" }, ...columns, ...predicted);
  };
  const row = ({ path, numbers, gradients }) => [h("code", {}, path), bars(numbers, 0), bars(gradients, 1)];
  const depth = plot({
    label: "Weight and gradient norms by layer", across: "parameter", log: true,
    curves: [["numbers", 0], ["gradients", 1]].map(([field, colour]) => ({ at: data.parameters.map((_, k) => k + 1), value: data.parameters.map((one) => one[field].size), colour })),
  });
  return h("figure", {}, key([[0, "weights"], [1, "gradients"]]), depth,
    table("Histogram of each parameter", ["Parameter", "Weights", "Gradients"], data.parameters.map(row)));
}

// The loss around the way that training has taken, on request.
export function surface({ across, up, places, losses, path, off, random, examples }) {
  const finite = losses.flat().filter((value) => typeof value === "number");
  const level = (value) => Math.log10(Math.max(Number(value), 1e-12));
  const [low, high] = [Math.min(...finite.map(level)), Math.max(...finite.map(level))];
  const levels = losses.flat().map((value) => (typeof value === "number" ? (level(value) - low) / (high - low || 1) : 1));
  const canvas = bitmap(places, places, heat(levels), { class: "plane" });
  const [x, y] = [(value) => (1000 * (value - across[0])) / (across[1] - across[0]), (value) => (1000 * (up[1] - value)) / (up[1] - up[0])];
  const points = path.map((one) => `${x(one.x).toFixed(1)},${y(one.y).toFixed(1)}`);
  const last = path[path.length - 1];
  const drawn = svg("svg", { class: "points", viewBox: "0 0 1000 1000", role: "img", "aria-label": "Loss surface around the optimizer's path" },
    svg("polyline", { class: "way", points: points.join(" ") }), ...path.map((one) => svg("circle", { class: "stop", cx: x(one.x), cy: y(one.y), r: 7 })),
    svg("circle", { class: "stop last", cx: x(last.x), cy: y(last.y), r: 14 }));
  const marks = ticks(0, 1, 4).map((part) => h("span", {}, short(10 ** (low + part * (high - low)))));
  return h("figure", {}, h("div", { class: "stack" }, canvas, drawn), h("div", { class: "scale" }, h("i"), h("div", {}, ...marks)),
    h("p", { class: "note" }, `The loss of ${counted(examples, "example")} on the plane through the initial weights (left), the current weights (large dot), and ${random ? "a random direction" : "the first principal direction of the path"}; the path is at most ${short(off)} off the plane.`));
}
