// The worker of the static site: it carries messages between the page and the studio in WebAssembly, and advances its runs.

// Milliseconds for each run between two looks at the messages of the page.
const SLICE = 10;
// Whether the site has a subset of MNIST; `tools/site` sets it.
const HAS_IMAGES = false;
// Idle runs are deleted about as often.
const BETWEEN_DELETIONS = 5000;

const decoder = new TextDecoder();
let studio = null;
let isOver = false;

const bytes = (address, length) => new Uint8Array(studio.memory.buffer, address, length);
const text = (address, length) => decoder.decode(bytes(address, length));

const host = {
  now: () => performance.now(),
  respond(number, status, kind, kindLength, file, fileLength, body, bodyLength) {
    // A copy: the memory of the module is used again.
    const own = bytes(body, bodyLength).slice();
    postMessage({ kind: "answer", number, status, type: text(kind, kindLength), file: text(file, fileLength), body: own }, [own.buffer]);
  },
  publish(number, address, length) {
    postMessage({ kind: "update", number, text: text(address, length) });
  },
  panicked(address, length) {
    fail(text(address, length));
  },
};

// The module is stored compressed, so that its size does not depend on the settings of a web server.
async function load() {
  const images = HAS_IMAGES ? fetch(new URL("../mnist.gzip", import.meta.url)).catch(() => null) : null;
  const response = await fetch(new URL("../studio.wasm.gzip", import.meta.url));
  if (!response.ok) throw new Error(`${response.url}: ${response.status}`);
  const module = new Response(response.body.pipeThrough(new DecompressionStream("gzip")), { headers: { "content-type": "application/wasm" } });
  const { instance } = await WebAssembly.instantiateStreaming(module, { host });
  studio = instance.exports;
  studio.start();
  // They arrive while the page is used already.
  const found = await images;
  if (found?.ok) {
    studio.expect_images();
    provide(found);
  }
}

async function provide(response) {
  try {
    const file = new Uint8Array(await new Response(response.body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
    const address = studio.buffer(file.length);
    bytes(address, file.length).set(file);
    if (studio.provide_images() === 0) throw new Error("the file is not whole");
  } catch (error) {
    console.warn(`the images of MNIST: ${error.message}`);
  }
}

function fail(message) {
  if (isOver) return;
  isOver = true;
  postMessage({ kind: "failed", message });
}

const take = {
  request({ number, head, body }) {
    const first = new TextEncoder().encode(head);
    const address = studio.buffer(first.length + body.length);
    bytes(address, first.length).set(first);
    bytes(address + first.length, body.length).set(body);
    studio.request(number, first.length);
  },
  watch({ number, run }) {
    if (studio.watch(number, run) === 0) postMessage({ kind: "update", number, text: '{"kind":"freed","data":null}' });
  },
  unwatch({ number }) {
    studio.unwatch(number);
  },
};

// A message to itself is handled after those of the page that have come, and without the delay of a timer.
const turn = new MessageChannel();
let isTurning = false;
let timer = null;
turn.port1.onmessage = () => {
  isTurning = false;
  advance();
};

function advance() {
  guarded(() => {
    clearTimeout(timer);
    const due = studio.advance(SLICE);
    if (due < 0) timer = setTimeout(advance, BETWEEN_DELETIONS);
    else if (due > 1) timer = setTimeout(advance, Math.min(due, BETWEEN_DELETIONS));
    else soon();
  });
}

function soon() {
  if (isTurning) return;
  isTurning = true;
  turn.port2.postMessage(null);
}

// A trap of the module is a failure of the studio.
function guarded(action) {
  if (isOver) return;
  try {
    action();
  } catch (error) {
    fail(String(error));
  }
}

const ready = load().catch((error) => fail(`it could not be loaded: ${error.message}`));
onmessage = async ({ data }) => {
  await ready;
  guarded(() => take[data.kind](data));
  soon();
};
