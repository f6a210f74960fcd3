// Perfetto's UI in a frame of the page, and the trace sent to it. Nothing leaves the machine.
import { bytes } from "./amounts.js";
import { ask, askBytes } from "./data.js";
import { fill, make } from "./elements.js";

const PERFETTO = "/perfetto/";
const KNOCK_MS = 100;
const WAIT_MS = 60_000;

/**
 * Open Perfetto in a place, with the trace of this name ("run/ID/trace?capture=3").
 * Shows its progress there; returns `{ close() }`.
 */
export function perfettoIn(place, { name, title, signal }) {
  const ended = new AbortController();
  const said = make("p", { role: "status", class: "soft" }, "Reading the trace …");
  const frame = make("iframe", { class: "perfetto", title: `Perfetto: ${title}` });
  const close = () => {
    ended.abort();
    fill(place);
  };
  signal?.addEventListener("abort", () => ended.abort());
  fill(place, said, frame);
  opened().catch((error) => {
    if (ended.signal.aborted) return;
    frame.remove();
    fill(said, error.message);
    said.className = "trouble";
  });
  return { close };

  async function opened() {
    // An optional extra: without it the frame would show an error page.
    await ask("perfetto", {}, { signal: ended.signal });
    const ready = new Promise((done) => frame.addEventListener("load", done, { once: true }));
    frame.src = `${PERFETTO}#!/viewer?mode=embedded`;
    const buffer = await askBytes(`/api/${name}`, { signal: ended.signal });
    const length = buffer.byteLength;
    fill(said, "Perfetto is starting …");
    await ready;
    await answered(frame.contentWindow, ended.signal);
    // Our own frame, on our own server: no one else receives the buffer.
    frame.contentWindow.postMessage(
      { perfetto: { buffer, title, keepApiOpen: true } },
      location.origin,
      [buffer],
    );
    fill(said, `Perfetto received ${bytes(length)}. Its own keys: W A S D, and ? for more.`);
    said.dataset.sent = String(length);
  }
}

/** Send `PING` until Perfetto answers: it starts to listen some time after its page is loaded. */
function answered(other, signal) {
  return new Promise((done, failed) => {
    const end = (how) => {
      clearInterval(knocking);
      clearTimeout(late);
      removeEventListener("message", onMessage);
      how();
    };
    const onMessage = (event) => {
      if (event.source === other && event.origin === location.origin && event.data === "PONG")
        end(done);
    };
    const knocking = setInterval(() => other.postMessage("PING", location.origin), KNOCK_MS);
    const late = setTimeout(
      () => end(() => failed(new Error("Perfetto does not answer. Download the trace instead."))),
      WAIT_MS,
    );
    addEventListener("message", onMessage);
    signal.addEventListener("abort", () => end(() => failed(new Error("closed"))));
  });
}
