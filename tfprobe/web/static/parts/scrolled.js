// Bring back how far a page was scrolled when one comes back to it: it is drawn anew, and grows.

// Who does one of these goes on from where they are.
const TAKEN_OVER = ["keydown", "pointerdown", "touchstart", "wheel"];

/**
 * Follow how far pages in `place` are scrolled. Returns what is to be called whenever the address
 * has another page, before that is drawn.
 */
export function scrollsKept(place) {
  const tops = new Map();
  let entry = null;
  let wanted = null;
  // The browser would scroll at once, when the page is not there yet.
  history.scrollRestoration = "manual";
  new ResizeObserver(reach).observe(place);
  addEventListener("scroll", () => wanted === null && tops.set(entry, scrollY), { passive: true });
  // For who loads it again. A browser takes no more than a few of these a second, and none at the
  // end.
  addEventListener(
    "scrollend",
    () => wanted === null && history.replaceState({ entry, top: scrollY }, ""),
  );
  for (const act of TAKEN_OVER)
    addEventListener(act, () => (wanted = null), { passive: true, capture: true });

  function reach() {
    if (wanted === null || document.documentElement.scrollHeight - innerHeight < wanted) return;
    scrollTo(0, wanted);
    wanted = null;
  }

  return () => {
    const { entry: known, top } = history.state ?? {};
    entry = known ?? `${Date.now()}.${tops.size}`;
    wanted = tops.get(known) ?? top ?? null;
    history.replaceState({ entry }, "");
    // What is beside the page may be higher than the window, so that an empty page still is
    // scrolled.
    if (wanted === null) scrollTo(0, 0);
  };
}
