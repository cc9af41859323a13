
// A worker gets the compiled library first, and then questions.
let started;
onmessage = async ({ data }) => {
  if (data instanceof WebAssembly.Module) {
    const go = new Go();
    started = WebAssembly.instantiate(data, go.importObject).then((instance) => void go.run(instance));
    return;
  }
  await started;
  postMessage(retryAsk(data));
};
