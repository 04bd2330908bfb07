// The card that tells more of what is pointed at, tapped, or stepped to by the arrow keys.

import {byId, element} from "./text.js";

// Beside a box of the window, wherever it fits.
function showCard(at, ...children) {
  const card = byId("card"), width = document.documentElement.clientWidth;
  card.replaceChildren(...children);
  card.hidden = false;
  card.style.left = Math.max(8, Math.min(at.left, width - card.offsetWidth - 8)) + scrollX + "px";
  const above = at.bottom + card.offsetHeight + 8 > innerHeight && at.top > card.offsetHeight + 8;
  card.style.top = (above ? at.top - card.offsetHeight - 6 : at.bottom + 6) + scrollY + "px";
}

let shown = null; // the Cells whose card it is
document.addEventListener("pointerdown", (e) => { if (shown && !shown.node.contains(e.target)) shown.show(-1); });

const hideCard = () => { byId("card").hidden = true; };

// The cells of a node: text, bars, squares. cells has count(), at(event) (-1 for none), box(i) (a DOMRect),
// tell(i) (what the card shows) and words(i) (what is spoken); point(i), if it is there, marks cell i.
export class Cells {
  constructor(node, cells) {
    Object.assign(this, {node, cells, current: -1});
    node.addEventListener("pointerover", (e) => this.show(cells.at(e)));
    node.addEventListener("pointerleave", (e) => { if (e.pointerType === "mouse") this.show(-1); });
    node.addEventListener("keydown", (e) => this.key(e));
    node.addEventListener("blur", () => this.show(-1));
  }

  key(e) {
    const steps = {ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity}, count = this.cells.count();
    if (e.key === "Escape" && this.current >= 0) {
      e.stopPropagation();
      this.show(-1);
    }
    if (!(e.key in steps) || !count) return;
    e.preventDefault();
    this.show(Math.min(count - 1, Math.max(0, this.current + steps[e.key])));
    byId("spoken").textContent = this.cells.words(this.current);
  }

  show(i) {
    if (i === this.current && i < 0) return;
    this.current = i;
    shown = i < 0 ? null : this;
    this.cells.point?.(i);
    if (i < 0) hideCard();
    else showCard(this.cells.box(i), ...this.cells.tell(i));
  }
}

// What the words on this page mean, told where they stand.
const HINTS = {
  "noise scale": "How much of the learned noise is added: 1 is what training found, 0 leaves it out.",
  "noise seed": "Decides the noise: the same number gives the same noise, and the same bytes, again. Seed, " +
    "among the fields above, is another: it decides which token is drawn.",
  temperature: "0 takes the most probable token every time. Above 0 tokens are drawn: the higher, the freer.",
  "top p": "Tokens are drawn from the most probable ones up to this share of the probability; 1 for all.",
  seeds: "How many noise seeds answer side by side. More than six are drawn as a map.",
  tokens: "How long an answer may become. A token is a word or a piece of one.",
  seed: "Decides which token is drawn where temperature is above 0; at 0 it does nothing. Every noise seed gets this one.",
  repetition: "Above 1 the tokens that were there before become less probable; 1 leaves them as they are.",
  distinct: "Distinct-2: different pairs of neighbouring tokens by all pairs, over all answers. 1 when no pair comes " +
    "twice. Distinct-1 counts tokens, distinct-3 threes.",
  distance: "Tokens to insert, delete or exchange until one answer is the other, by the longer one's length; the mean over " +
    "all pairs. 0: all equal.",
};

export function hint(word) {
  const b = element("button", {type: "button", class: "hint", "aria-label": `What is ${word}?`}, "?");
  b.addEventListener("click", (e) => {
    e.preventDefault();
    showCard(b.getBoundingClientRect(), HINTS[word]);
    byId("spoken").textContent = HINTS[word];
    const hide = (other) => {
      if (other.type === "keydown") {
        if (other.key !== "Escape") return;
        other.stopPropagation(); // elsewhere it ends the answers
      }
      hideCard();
      for (const kind of ["pointerdown", "keydown", "focusout"]) removeEventListener(kind, hide, true);
    };
    for (const kind of ["pointerdown", "keydown", "focusout"]) addEventListener(kind, hide, true);
  });
  return b;
}
