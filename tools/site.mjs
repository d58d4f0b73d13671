// The parts of the static site that depend on all of its files: the policy of the page, the list and the version of the service
// worker, and the sizes. Called by tools/site with the folder and the template of the service worker.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { gzipSync } from "node:zlib";

const [folder, template] = process.argv.slice(2);
// The most that a visit may fetch, compressed, in bytes.
const LIMIT = 3_000_000;

// The page runs only its own code, connects only to its own origin, and sends no forms.
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'";
const index = join(folder, "index.html");
const page = readFileSync(index, "utf8");
const mark = '  <meta name="color-scheme"';
if (!page.includes(mark)) throw new Error(`${index} has no ${mark.trim()}`);
writeFileSync(index, page.replace(mark, `  <meta http-equiv="Content-Security-Policy" content="${POLICY}">\n${mark}`));

const below = (path) => readdirSync(path).flatMap((name) => {
  const own = join(path, name);
  return statSync(own).isDirectory() ? below(own) : [own];
});
const files = below(folder).sort();
const hash = createHash("sha256");
let bytes = 0;
for (const file of files) {
  const content = readFileSync(file);
  hash.update(relative(folder, file)).update(content);
  bytes += file.endsWith(".gzip") ? content.length : gzipSync(content, { level: 9 }).length;
}
const names = ["./", ...files.map((file) => relative(folder, file).replaceAll("\\", "/"))];
const filled = readFileSync(template, "utf8").replace("%VERSION%", hash.digest("hex").slice(0, 16)).replace("%FILES%", JSON.stringify(names));
writeFileSync(join(folder, "sw.js"), filled);
console.log(`${folder}: ${files.length + 1} files, ${(bytes / 1e6).toFixed(2)} MB compressed (at most ${LIMIT / 1e6} MB)`);
if (bytes > LIMIT) {
  console.error("the site is larger than its limit");
  process.exit(1);
}
