
// The library is WebAssembly: here for what takes no time, and in a worker for the
// simulations. Both have the same bytes, compiled once.

const library = (async () => {
  const small = await fetch("data:application/gzip;base64," + retryWasm);
  const bytes = new Response(small.body.pipeThrough(new DecompressionStream("gzip")), { headers: { "Content-Type": "application/wasm" } });
  const compiled = await WebAssembly.compileStreaming(bytes);
  const worker = new Worker(URL.createObjectURL(new Blob([retryWorker], { type: "text/javascript" })));
  const waiting = []; // who asked the worker, which answers in turn
  worker.onmessage = ({ data }) => waiting.shift()(JSON.parse(data));
  worker.postMessage(compiled);
  const go = new Go();
  go.run(await WebAssembly.instantiate(compiled, go.importObject));
  return async (...question) => {
    const text = JSON.stringify(question);
    if (question[0] === "plan" || question[0] === "go") return JSON.parse(retryAsk(text));
    return new Promise((resolve) => {
      waiting.push(resolve);
      worker.postMessage(text);
    });
  };
})();
