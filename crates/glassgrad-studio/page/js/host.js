// The host of the page: the server that it came from. On the static site another file has its place, with a web worker.

// A request, as `fetch` takes it.
export const request = (path, init) => fetch(path, init);

// The updates of a run, each a JSON text, until they are closed.
export function watch(run, take) {
  const own = new URL(`/api/runs/${run}/stream`, location.href);
  own.protocol = own.protocol.replace("http", "ws");
  let socket = null;
  let isClosed = false;
  const connect = () => {
    socket = new WebSocket(own);
    socket.onmessage = ({ data }) => take(data);
    // The server may only have been out of reach for a moment.
    socket.onclose = () => isClosed || setTimeout(() => isClosed || connect(), 1000);
  };
  connect();
  return {
    close() {
      isClosed = true;
      socket.close();
    },
  };
}

// Makes a link save a file of a run.
export function saves(link, path) {
  link.href = path;
  link.download = "";
}
