// The one box that follows the pointer over charts. Its content is plain text.
import { fill, make } from "./elements.js";

const TIP_CHARACTERS = 2000;
const tipBox = make("div", { class: "tip", role: "tooltip", hidden: true });

/**
 * Show a tip next to a point in the window: a name, and pairs of label and amount.
 * `showTip(event.clientX, event.clientY, "MatMul", [["time", "1.20 ms"]])`
 */
export function showTip(x, y, name, pairs = []) {
  if (!tipBox.isConnected) document.body.append(tipBox);
  fill(
    tipBox,
    name ? make("bdi", { class: "tip-name" }, String(name).slice(0, TIP_CHARACTERS)) : null,
    pairs.length
      ? make(
          "dl",
          {},
          pairs.map(([label, amount]) => [
            make("dt", {}, make("bdi", {}, label)),
            make("dd", {}, make("bdi", {}, amount)),
          ]),
        )
      : null,
  );
  tipBox.hidden = false;
  const { width, height } = tipBox.getBoundingClientRect();
  const left = x + 14 + width > innerWidth ? Math.max(4, x - 14 - width) : x + 14;
  const top = y + 14 + height > innerHeight ? Math.max(4, y - 14 - height) : y + 14;
  tipBox.style.transform = `translate(${left}px, ${top}px)`;
}

export function hideTip() {
  tipBox.hidden = true;
}

addEventListener("hashchange", hideTip);
addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
