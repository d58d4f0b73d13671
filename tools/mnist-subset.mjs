// A subset of MNIST for the static site: the first images of each digit, from the four files of the set in a folder. Called by tools/site.
//
//   node tools/mnist-subset.mjs DIR OUT

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";

const [folder, out] = process.argv.slice(2);
// Images of each digit.
const TRAINING = 200;
const TEST = 50;
const PIXELS = 28 * 28;

function read(name) {
  for (const path of [join(folder, name), join(folder, `${name}.gz`)]) {
    if (existsSync(path)) return path.endsWith(".gz") ? gunzipSync(readFileSync(path)) : readFileSync(path);
  }
  throw new Error(`there is no ${name} or ${name}.gz in ${folder}`);
}

// The numbers of the first images of each digit, in the order of the file.
function first(labels, count) {
  const seen = new Array(10).fill(0);
  const chosen = [];
  labels.forEach((label, number) => {
    if (label > 9) throw new Error(`image ${number} has the label ${label}`);
    if (seen[label]++ < count) chosen.push(number);
  });
  if (chosen.length !== 10 * count) throw new Error(`a digit has fewer than ${count} images`);
  return chosen;
}

const parts = [["train", TRAINING], ["t10k", TEST]].map(([name, count]) => {
  const [images, labels] = [read(`${name}-images-idx3-ubyte`).subarray(16), read(`${name}-labels-idx1-ubyte`).subarray(8)];
  if (images.length !== labels.length * PIXELS) throw new Error(`${name}: ${labels.length} labels, and images of ${images.length} bytes`);
  const chosen = first(labels, count);
  return { labels: chosen.map((number) => labels[number]), pixels: chosen.map((number) => images.subarray(number * PIXELS, (number + 1) * PIXELS)) };
});
const head = Buffer.alloc(8);
parts.forEach((part, place) => head.writeUInt32LE(part.labels.length, 4 * place));
const file = Buffer.concat([head, ...parts.map((part) => Buffer.from(part.labels)), ...parts.flatMap((part) => part.pixels)]);
writeFileSync(out, gzipSync(file, { level: 9 }));
