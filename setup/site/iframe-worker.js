// The search of the site runs in a Worker, which browsers refuse to pages of file://. There a hidden frame of the page
// takes its place: the script of the worker has its own global object and the same messages, on the page's thread.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const scope = this.frame.contentWindow;
      scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      scope.document.open();
      scope.document.close();
      const script = scope.document.createElement("script");
      script.src = url;
      this.loaded = new Promise((resolve) => script.addEventListener("load", resolve));
      scope.document.documentElement.append(script);
    }

    postMessage(data) {
      const scope = this.frame.contentWindow;
      this.loaded.then(() => scope.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
