// Runs a WebAssembly program with the system interface of Node.js: its arguments, standard output and exit code.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [path, ...rest] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: [path, ...rest], env: {}, returnOnExit: true });
const module = await WebAssembly.compile(await readFile(path));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
process.exitCode = wasi.start(instance);
