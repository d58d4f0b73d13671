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
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'";
const index = join(folder, "index.html");
const page = readFileSync(index, "utf8");
const mark = '  <meta name="color-scheme"';
if (!page.includes(mark)) throw new Error(`${index} has no ${mark.trim()}`);
const nav = '      <a href="#/glossary" data-page="glossary">';
if (!page.includes(nav)) throw new Error(`${index} has no ${nav.trim()}`);
writeFileSync(index, page.replace(nav, `      <a href="book/introduction.html">Book</a>\n${nav}`).replace(mark, `  <meta http-equiv="Content-Security-Policy" content="${POLICY}">\n${mark}`));

const below = (path) => readdirSync(path).flatMap((name) => {
  const own = join(path, name);
  return statSync(own).isDirectory() ? below(own) : [own];
});
const files = below(folder).sort();
const hash = createHash("sha256");
// A visit fetches the studio; pages of the book are fetched when they are opened.
const isBook = (file) => relative(folder, file).startsWith("book");
const bytes = { studio: 0, book: 0 };
for (const file of files) {
  const content = readFileSync(file);
  hash.update(relative(folder, file)).update(content);
  bytes[isBook(file) ? "book" : "studio"] += file.endsWith(".gzip") ? content.length : gzipSync(content, { level: 9 }).length;
}
const names = ["./", ...files.filter((file) => !isBook(file)).map((file) => relative(folder, file).replaceAll("\\", "/"))];
const filled = readFileSync(template, "utf8").replace("%VERSION%", hash.digest("hex").slice(0, 16)).replace("%FILES%", JSON.stringify(names));
writeFileSync(join(folder, "sw.js"), filled);
const megabytes = (count) => `${(count / 1e6).toFixed(2)} MB`;
console.log(`${folder}: ${files.length + 1} files; the studio has ${megabytes(bytes.studio)} compressed (at most ${megabytes(LIMIT)}), the book ${megabytes(bytes.book)}`);
if (bytes.studio > LIMIT) {
  console.error("the site is larger than its limit");
  process.exit(1);
}
