// Runs before Perfetto's own script, none of whose files is changed. That asks other machines for this
// and that: whether one of its makers uses it, whether a trace processor listens on port 9001. The
// policy of these pages lets none of it out; here it gets its "no" without asking, so that a console
// has nothing to tell of.
"use strict";
(() => {
  const isOurs = (address) => {
    const url = new URL(address, location.href);
    return url.origin === location.origin || url.protocol === "blob:" || url.protocol === "data:";
  };

  const ask = window.fetch;
  window.fetch = (what, ...more) => {
    if (isOurs(what instanceof Request ? what.url : what)) return ask.call(window, what, ...more);
    return Promise.reject(new TypeError("Only this server is asked."));
  };

  const source = Object.getOwnPropertyDescriptor(HTMLScriptElement.prototype, "src");
  Object.defineProperty(HTMLScriptElement.prototype, "src", {
    ...source,
    set(address) {
      if (isOurs(address)) source.set.call(this, address);
      else setTimeout(() => this.dispatchEvent(new Event("error")));
    },
  });

  // It adds a policy of its own, which lets in more than the server's does, in words that browsers do not know.
  const meaning = Object.getOwnPropertyDescriptor(HTMLMetaElement.prototype, "httpEquiv");
  Object.defineProperty(HTMLMetaElement.prototype, "httpEquiv", {
    ...meaning,
    set(word) {
      if (word.toLowerCase() !== "content-security-policy") meaning.set.call(this, word);
    },
  });

  // It would keep each trace in the browser for a week. Names of other people's ops are not to stay there.
  const named = new Set();
  const nowhere = {
    put: async (key) => void named.add(String(key)),
    match: async (key) => (named.has(String(key)) ? new Response() : undefined),
    delete: async (key) => named.delete(String(key)),
    keys: async () => [],
  };
  Object.defineProperty(window, "caches", {
    value: { open: async () => nowhere, has: async () => false, delete: async () => true, keys: async () => [] },
  });
})();
