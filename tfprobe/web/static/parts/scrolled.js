// Restore the scroll position when the user comes back to a page, which is redrawn and grows.

// After one of these the user continues from where they are.
const TAKEN_OVER = ["keydown", "pointerdown", "touchstart", "wheel"];

/**
 * Track the scroll positions of pages in `place`. Returns a function to call whenever the address
 * has another page, before that page is drawn.
 */
export function scrollsKept(place) {
  const tops = new Map();
  let entry = null;
  let wanted = null;
  // The browser would scroll at once, before the page is there.
  history.scrollRestoration = "manual";
  new ResizeObserver(reach).observe(place);
  addEventListener("scroll", () => wanted === null && tops.set(entry, scrollY), { passive: true });
  // For reloads. A browser accepts only a few of these a second, and none at the end.
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
    // What is next to the page may be higher than the window, so that even an empty page is
    // scrolled.
    if (wanted === null) scrollTo(0, 0);
  };
}
